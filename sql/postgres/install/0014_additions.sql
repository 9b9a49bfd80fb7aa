-- What tables have gained since version 13, each statement safe to run again. Locks: ACCESS EXCLUSIVE on a table that lacks a column, else none:
-- every check waits for that, so it is taken only where there is something to add.

DO $$
BEGIN
  -- Which transaction raised the fence: a statement whose snapshot is older must not write with what it read (0010). NULL: not known.
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.fences', @schema_lit@)::regclass AND a.attname = 'raised_xid') THEN
    ALTER TABLE @schema@.fences ADD COLUMN raised_xid xid8;
  END IF;
END $$;

-- The trigger functions that were made for owners' tables, as they are made now.
DO $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT DISTINCT p.scope_column FROM @schema@.protected p WHERE p.scope_column IS NOT NULL LOOP
    PERFORM @schema@._make_protected_row(t.scope_column);
  END LOOP;
  FOR t IN SELECT DISTINCT a.scope_column, a.term_column FROM @schema@.adopted a LOOP
    PERFORM @schema@._make_adopted_row(t.scope_column, t.term_column);
  END LOOP;
END $$;
