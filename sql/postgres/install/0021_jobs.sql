-- Who started a run, a limit for leases that were taken while the clock was ahead, and replica identities. Locks: ACCESS EXCLUSIVE on a
-- table that lacks something, once.

-- started_by NULL: an older version started the run, and any role of level write may end it.
DO $$
DECLARE
  v_table regclass;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = '@schema@.job_runs'::regclass AND a.attname = 'started_by' AND NOT a.attisdropped) THEN
    ALTER TABLE @schema@.job_runs ADD COLUMN started_by name;
  END IF;
  -- A publication FOR ALL TABLES includes ours, and then no row of a table without a key could be updated or deleted.
  FOR v_table IN SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname = @schema_lit@ AND c.relkind IN ('r', 'p') AND c.relreplident = 'd'
                    AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) LOOP
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', v_table);
  END LOOP;
END $$;

-- For a lease that was taken or renewed while the clock was ahead, if the clock has been set right since: it ends after its own length from
-- now on. That is longer than its holder counts on.
CREATE OR REPLACE FUNCTION @schema@._bound_lease(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- With the key, so that the holder's renewal names who keeps the row in an idle transaction, and waits for nobody.
  IF pg_try_advisory_xact_lock(@schema@._lease_key(p_scope)) THEN
    UPDATE @schema@.leases t SET expires_at = clock_timestamp() + (t.expires_at - t.renewed_at), renewed_at = clock_timestamp()
     WHERE t.scope = p_scope AND t.released_at IS NULL AND t.renewed_at > clock_timestamp();
  END IF;
END $$;
