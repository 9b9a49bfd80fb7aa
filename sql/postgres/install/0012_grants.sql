-- Who may call what. Users need EXECUTE and nothing on the tables: no application can lower a fence by hand. Levels are cumulative.

-- _grant(role, level): level read, write, lead or operate. For the owner; `termgate init --grant ROLE=LEVEL` calls it.
CREATE OR REPLACE FUNCTION @schema@._grant(role name, level text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_levels text[] := ARRAY['read', 'write', 'lead', 'operate'];
  v_level integer := array_position(v_levels, level);
  v_of jsonb := jsonb_build_object(
    'read', '["fence", "lease", "read_stream", "server_time", "schema_version", "doctor", "verify_findings", "outcome", "_in_doubt"]'::jsonb,
    'write', '["check_term", "append", "append_many", "claim_write", "record_refusal", "job_start", "job_heartbeat", "job_finish",
               "adopt", "_adopt_function", "_adopt_register", "_need_readable"]'::jsonb,
    'lead', '["seal", "acquire_lease", "renew_lease", "release_lease"]'::jsonb,
    'operate', '["force_release", "reset_fence", "prune", "prune_history", "stream_move", "set_raise_by", "set_setting", "declare_restored",
                 "declare_nothing_lost", "declare_in_doubt"]'::jsonb);
  f record;
BEGIN
  IF v_level IS NULL THEN
    RAISE EXCEPTION 'TG005 the level is read, write, lead or operate, not "%"', level USING ERRCODE = 'TG005';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA @schema@ TO %I', role);
  FOR f IN SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = @schema_lit@ AND c.relkind = 'v' LOOP
    EXECUTE format('GRANT SELECT ON %s TO %I', f.name, role);
  END LOOP;
  FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = @schema_lit@
              AND (EXISTS (SELECT FROM unnest(v_levels[1:v_level]) l WHERE v_of -> l ? p.proname) OR (v_level >= 2 AND starts_with(p.proname, '_adopted_row_'))) LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', f.name, role);
  END LOOP;
END $$;

-- What a role that was granted nothing may do: nothing. Table owners call protect(), unprotect() and unadopt(), which run as their caller, so these
-- and what they need are open to those who may use the schema; each of the helpers verifies what it is told. adopt() raises fences, and so does every
-- row of an adopted table: that takes level write.
DO $$
DECLARE
  f record;
BEGIN
  FOR f IN SELECT p.oid::regprocedure AS name, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@ LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.name);
    IF f.proname IN ('protect', 'unprotect', '_protect_function', '_protect_register', '_protect_unregister', '_protect_drop', '_protect_statement',
                     '_protect_truncate', '_protect_scopes', '_protect_attached', 'unadopt', '_adopt_unregister',
                     '_owner', '_tree', '_short_hash', '_need_scope', '_need_column', '_need_own_table')
       OR starts_with(f.proname, '_protected_row_') THEN
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', f.name);
    END IF;
  END LOOP;
END $$;
