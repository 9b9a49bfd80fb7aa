-- What adopt() and protect() have gained: a prefix, and a table of what adopted tables have reported. Each statement is safe to run again. Locks: ACCESS EXCLUSIVE on a
-- table that lacks a column, else none.

-- The highest term that the rows of adopted tables have shown for a scope: evidence beside its fence (0002, _stored_max).
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
