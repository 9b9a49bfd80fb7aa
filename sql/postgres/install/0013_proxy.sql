-- What the proxy sends. check_session: the check with what the session has declared. hold_session and release_session: the check's lock for the session, around
-- a statement that cannot run inside a transaction block (VACUUM, CREATE INDEX CONCURRENTLY, a CALL that commits). Locks: the check's; hold_session the
-- queue besides, shared, at session level. A raise waits for such a holder and after the grace evicts it, whatever transaction it is in by then.
-- Keeps F1, F2, F4, F5.

-- Raises TG002 unless both are there. p_scope, p_term: what is known of each.
CREATE OR REPLACE FUNCTION @schema@._need_declared(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_scope IS NULL OR p_term IS NULL THEN
    PERFORM @schema@._count_refusal('TG002');
    RAISE EXCEPTION USING ERRCODE = 'TG002',
      MESSAGE = CASE WHEN p_term IS NOT NULL THEN format('TG002 no scope declared for term %s: a write needs both', p_term)
                     WHEN p_scope IS NOT NULL THEN format('TG002 no term declared for scope "%s": a write needs both', p_scope)
                     ELSE 'TG002 no term declared: a write needs a scope and a term' END,
      HINT = 'Declare both: SET LOCAL termgate.scope = ''...''; SET LOCAL termgate.term = ''...'' in the transaction; or PGOPTIONS ''-c termgate.scope=... -c termgate.term=...''; '
             'or application_name ''termgate.scope=...;termgate.term=...;''; or the comment /*termgate.scope=''...'',termgate.term=''...''*/ at the statement.';
  END IF;
END $$;

-- check_session(scope, term) → scope, term, fence: the check with the arguments or, where one is NULL, what the session has declared; each by itself. Returns
-- what it passed. TG002 where either is missing, TG005 where it is malformed, else what check_term raises. Qualified names, as in check_term.
CREATE OR REPLACE FUNCTION @schema@.check_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_term pg_catalog.text;
BEGIN
  IF scope IS NULL THEN
    scope := @schema@._declared_scope();
    IF pg_catalog.char_length(scope) OPERATOR(pg_catalog.>) 200 THEN
      PERFORM @schema@._need_scope(scope, 'declared termgate.scope');
    END IF;
  END IF;
  IF term IS NULL THEN
    v_term := pg_catalog.current_setting('termgate.term', true);
    IF v_term OPERATOR(pg_catalog.~) '^[0-9]{1,18}$' AND v_term OPERATOR(pg_catalog.<>) '0' THEN
      term := v_term;
    ELSE
      term := @schema@._declared_term();
    END IF;
  END IF;
  IF scope IS NULL OR term IS NULL THEN
    PERFORM @schema@._need_declared(scope, term);
  END IF;
  fence := @schema@.check_term(scope, term);
END $$;

-- hold_session(scope, term) → scope, term, fence: check_session, then the scope's queue shared until release_session, or until the session ends. The transaction holds it
-- already, so it is granted at once and no raise gets in between. Scope and term become the session's declared ones, so that the triggers of protect()
-- pass in the transactions to come. A statement that calls pg_advisory_unlock_all() gives the lock up too: it is then as stale as any other.
-- Call it in a transaction of its own. A rolled back one keeps the lock: call release_session whatever the outcome.
CREATE OR REPLACE FUNCTION @schema@.hold_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_queue bigint;
  v_before text := nullif(current_setting('termgate.held_session', true), '');
BEGIN
  SELECT c.scope, c.term, c.fence INTO scope, term, fence FROM @schema@.check_session(scope, term) c;
  IF v_before IS NOT NULL THEN
    RAISE EXCEPTION 'TG005 this session already holds the lock of a scope: release_session() first' USING ERRCODE = 'TG005';
  END IF;
  v_queue := @schema@._queue_key(scope);
  IF NOT @schema@._holds(v_queue, 'ShareLock') AND NOT @schema@._holds(v_queue, 'ExclusiveLock') THEN
    RAISE EXCEPTION 'TG005 this transaction has passed very many scopes: hold_session needs one of its own' USING ERRCODE = 'TG005';
  END IF;
  -- What release_session puts back; NULL and '' both mean not declared.
  PERFORM set_config('termgate.held_session',
                     json_build_object('queue', v_queue::text, 'scope', coalesce(current_setting('termgate.scope', true), ''),
                                       'term', coalesce(current_setting('termgate.term', true), ''))::text, false);
  PERFORM set_config('termgate.scope', scope, false), set_config('termgate.term', term::text, false);
  PERFORM pg_advisory_lock_shared(v_queue);
END $$;

-- release_session(scope) → whether the lock was held. Gives back what hold_session took and puts back what was declared before. Safe to call when nothing is held (without
-- a warning), when the transaction of hold_session was rolled back, and when the scope has moved on. No privilege is in it: the lock is this session's own.
CREATE OR REPLACE FUNCTION @schema@.release_session(scope text DEFAULT NULL, OUT released boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
  v_held json;
  v_kept bigint;
  v_queue bigint;
BEGIN
  BEGIN
    v_held := nullif(current_setting('termgate.held_session', true), '')::json;
    v_kept := (v_held ->> 'queue')::bigint;
  EXCEPTION WHEN OTHERS THEN
    NULL;  -- somebody wrote over it: the lock must go all the same
  END;
  v_queue := coalesce(@schema@._queue_key(nullif(scope, '')), v_kept);
  released := v_queue IS NOT NULL AND pg_advisory_unlock_shared(v_queue);
  IF v_kept = v_queue THEN
    PERFORM set_config('termgate.scope', coalesce(v_held ->> 'scope', ''), false), set_config('termgate.term', coalesce(v_held ->> 'term', ''), false),
            set_config('termgate.held_session', '', false);
  END IF;
END $$;

-- Level write gets the three. Replaces that of 0012.
CREATE OR REPLACE FUNCTION @schema@._grant(role name, level text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_levels text[] := ARRAY['read', 'write', 'lead', 'operate'];
  v_level integer := array_position(v_levels, level);
  v_of jsonb := jsonb_build_object(
    'read', '["fence", "lease", "read_stream", "server_time", "schema_version", "doctor", "verify_findings", "outcome", "_in_doubt"]'::jsonb,
    'write', '["check_term", "check_session", "hold_session", "release_session", "append", "append_many", "claim_write", "record_refusal",
               "job_start", "job_heartbeat", "job_finish", "adopt", "_adopt_function", "_adopt_register", "_need_readable"]'::jsonb,
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

-- To nobody, and then to those who may call check_term already: an upgrade must not take the proxy's writes away from a role that had level write.
DO $$
DECLARE
  f record;
  g record;
BEGIN
  FOR f IN SELECT p.oid::regprocedure AS name, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = @schema_lit@ AND p.proname IN ('check_session', 'hold_session', 'release_session', '_need_declared') LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.name);
    IF f.proname = '_need_declared' THEN
      CONTINUE;
    END IF;
    FOR g IN SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
               FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace, aclexplode(p.proacl) a
              WHERE n.nspname = @schema_lit@ AND p.proname = 'check_term' AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', f.name, g.grantee);
    END LOOP;
  END LOOP;
END $$;
