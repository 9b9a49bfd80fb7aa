-- What tables have gained since version 13, each statement safe to run again. Locks: ACCESS EXCLUSIVE on a table that lacks a column, else none:
-- every check waits for that, so it is taken only where there is something to add.

DO $$
BEGIN
  -- Which transaction raised the fence: a statement whose snapshot is older must not write with what it read (0010). NULL: not known.
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.fences', @schema_lit@)::regclass AND a.attname = 'raised_xid') THEN
    ALTER TABLE @schema@.fences ADD COLUMN raised_xid xid8;
  END IF;
  -- Which transaction acquired the lease, and for how long it asked: a repeated call in it is told by them (0006).
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.leases', @schema_lit@)::regclass AND a.attname = 'acquired_xid') THEN
    ALTER TABLE @schema@.leases ADD COLUMN acquired_xid xid8, ADD COLUMN acquired_ttl interval;
  END IF;
  -- One open run of a job per scope and term (lower terms are lost as it is). What older versions left open besides the last is lost.
  IF to_regclass(format('%I.job_runs_one_open', @schema_lit@)) IS NULL THEN
    UPDATE @schema@.job_runs j SET status = 'lost', completed_at = clock_timestamp()
     WHERE j.status = 'started' AND EXISTS (SELECT FROM @schema@.job_runs o
                                             WHERE o.scope = j.scope AND o.job_name = j.job_name AND o.term = j.term AND o.status = 'started' AND o.run_id > j.run_id);
    CREATE UNIQUE INDEX job_runs_one_open ON @schema@.job_runs (scope, job_name, term) WHERE status = 'started';
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

-- For protect(), which runs as its caller, and for the triggers that it makes.
GRANT EXECUTE ON FUNCTION @schema@._protect_below(), @schema@._has_parent_outside(oid, oid[]), @schema@._place_in_tree(oid) TO PUBLIC;
