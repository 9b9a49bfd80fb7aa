-- What version 20 has added to adopt() and protect(): a prefix, and a table of what adopted tables have reported. Each statement can run
-- again. Locks: ACCESS EXCLUSIVE on a table that lacks a column, otherwise none.

-- The highest term to which rows of adopted tables have raised a scope, or to which a reset has lowered that: evidence besides its fence
-- (0002, _stored_max).
CREATE TABLE IF NOT EXISTS @schema@.adopted_terms (
  scope text COLLATE pg_catalog."C" PRIMARY KEY,
  term  bigint NOT NULL
) WITH (fillfactor = 50);

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.adopted', @schema_lit@)::regclass AND a.attname = 'scope_prefix') THEN
    ALTER TABLE @schema@.adopted ADD COLUMN scope_prefix text COLLATE pg_catalog."C" NOT NULL DEFAULT '';
    ALTER TABLE @schema@.protected ADD COLUMN scope_prefix text COLLATE pg_catalog."C" NOT NULL DEFAULT '';
  END IF;
END $$;

CREATE OR REPLACE VIEW @schema@.protected_tables AS
  SELECT p.table_oid, p.root_oid, p.table_name, p.scope_column, p.scope, p.mode, p.protected_at, p.protected_by, p.scope_prefix FROM @schema@.protected p;
CREATE OR REPLACE VIEW @schema@.adopted_tables AS
  SELECT a.table_oid, a.table_name, a.scope_column, a.term_column, a.adopted_at, a.adopted_by, a.scope_prefix FROM @schema@.adopted a;
