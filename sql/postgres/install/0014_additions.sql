-- What version 14 has added to tables, and rows for doctor(). Each statement can run again. Locks: ACCESS EXCLUSIVE on a table that lacks a
-- column, and SHARE on job_runs if it lacks the index; otherwise none. Every check waits for the first, so it is taken only if there is
-- something to add.

DO $$
BEGIN
  -- Which transaction raised the fence: a statement with an older snapshot must not write what it has read (0010). NULL: not known.
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.fences', @schema_lit@)::regclass AND a.attname = 'raised_xid') THEN
    ALTER TABLE @schema@.fences ADD COLUMN raised_xid xid8;
  END IF;
  -- Which transaction acquired the lease, and for what TTL. They identify a repeated call (0006).
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.leases', @schema_lit@)::regclass AND a.attname = 'acquired_xid') THEN
    ALTER TABLE @schema@.leases ADD COLUMN acquired_xid xid8, ADD COLUMN acquired_ttl interval;
  END IF;
  -- One open run for each job, scope and term (open runs of other terms than the fence are shown as lost). Of several that an older version
  -- left open, all but the last become lost.
  IF to_regclass(format('%I.job_runs_one_open', @schema_lit@)) IS NULL THEN
    UPDATE @schema@.job_runs j SET status = 'lost', completed_at = clock_timestamp()
     WHERE j.status = 'started' AND EXISTS (SELECT FROM @schema@.job_runs o
                                             WHERE o.scope = j.scope AND o.job_name = j.job_name AND o.term = j.term AND o.status = 'started' AND o.run_id > j.run_id);
    CREATE UNIQUE INDEX job_runs_one_open ON @schema@.job_runs (scope, job_name, term) WHERE status = 'started';
  END IF;
END $$;

-- Creates the trigger functions for owners' tables again, in their present form. Those that no table uses are dropped, because protect()
-- and adopt() would use the old form.
DO $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT p.oid::regprocedure AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = @schema_lit@ AND p.proname ~ '^_(protected|adopted)_row_' AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgfoid = p.oid) LOOP
    EXECUTE format('DROP FUNCTION %s', t.name);
  END LOOP;
  FOR t IN SELECT DISTINCT p.scope_column FROM @schema@.protected p WHERE p.scope_column IS NOT NULL LOOP
    PERFORM @schema@._make_protected_row(t.scope_column);
  END LOOP;
  FOR t IN SELECT DISTINCT a.scope_column, a.term_column FROM @schema@.adopted a LOOP
    PERFORM @schema@._make_adopted_row(t.scope_column, t.term_column);
  END LOOP;
END $$;

-- For protect(), which runs as its caller, and for the triggers that it makes.
GRANT EXECUTE ON FUNCTION @schema@._protect_below(), @schema@._guard_rows(regclass, text, text), @schema@._place_in_tree(oid) TO PUBLIC;

-- How many refusals each of these codes has had, although the refused transactions were rolled back.
CREATE SEQUENCE IF NOT EXISTS @schema@.refused_tg001;
CREATE SEQUENCE IF NOT EXISTS @schema@.refused_tg002;
CREATE SEQUENCE IF NOT EXISTS @schema@.refused_tg004;
CREATE SEQUENCE IF NOT EXISTS @schema@.refused_tg006;
CREATE OR REPLACE VIEW @schema@.refusal_counts AS
  SELECT 'TG001' AS code, CASE WHEN s.is_called THEN s.last_value ELSE 0 END AS count FROM @schema@.refused_tg001 s
  UNION ALL SELECT 'TG002', CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM @schema@.refused_tg002 s
  UNION ALL SELECT 'TG004', CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM @schema@.refused_tg004 s
  UNION ALL SELECT 'TG006', CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM @schema@.refused_tg006 s;

-- More rows for doctor(), those of other files among them.
CREATE OR REPLACE FUNCTION @schema@._doctor_layer1() RETURNS TABLE (severity text, object text, problem text, remedy text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
    SELECT 'error', format('prepared transaction %L', p.gid),
           format('of %s, prepared at %s, holds %s, which is untrusted since this database was restored or promoted: COMMIT PREPARED asks no fence', p.owner, p.prepared,
                  coalesce(format('the lock of scope "%s"', p.scope), 'locks of very many scopes, one of')),
           format('ROLLBACK PREPARED %L, unless its transaction manager vouches for it', p.gid)
      FROM @schema@._prepared_in_doubt() p;
  RETURN QUERY
    SELECT 'warning', p.table_oid::regclass::text,
           format('protected, but its parent %s is not: what is written by way of it is checked here row by row, and its other partitions and children are open', i.inhparent::regclass),
           format('SELECT @schema@.protect(%L, ...)', i.inhparent::regclass)
      FROM @schema@.protected p JOIN pg_inherits i ON i.inhrelid = p.table_oid
     WHERE NOT EXISTS (SELECT FROM @schema@.protected q WHERE q.table_oid = i.inhparent);
  RETURN QUERY
    SELECT 'info', 'function pg_control_system()', format('role %I may not call it: a database that was restored into another server is told by timeline and OIDs alone', current_user),
           format('GRANT EXECUTE ON FUNCTION pg_control_system() TO %I, where you may; else declare a restore: termgate fence declare-restored', current_user)
     WHERE NOT has_function_privilege('pg_control_system()', 'EXECUTE');
  RETURN QUERY
    SELECT 'info', 'refusals', string_agg(format('%s: %s', r.code, r.count), ', '), 'SELECT * FROM @schema@.refusal_counts; what library and proxy report is in the audit besides, by scope'
      FROM @schema@.refusal_counts r WHERE r.count > 0 HAVING count(*) > 0;
  RETURN QUERY
    SELECT 'warning', 'server', format('its queue of notifications is %s%% full: proxies and waiters learn of raises by looking alone once it is full', round(u.share * 100)),
           'end the session that listens and stays in a transaction: SELECT pid, xact_start FROM pg_stat_activity WHERE state = ''idle in transaction'' ORDER BY xact_start'
      FROM (SELECT pg_notification_queue_usage()::numeric AS share) u WHERE u.share > 0.25;
  RETURN QUERY SELECT g.* FROM @schema@._doctor_guard() g;
  RETURN QUERY SELECT d.* FROM @schema@._doctor_seats() d;
END $$;
REVOKE ALL ON FUNCTION @schema@._doctor_layer1() FROM PUBLIC;
