-- What the guard calls (the extension in guard/). The guard takes the shared lock, reads the fence, and lets a write pass if the declared
-- term equals the fence and the fence is trusted. Everything else is decided here. Called as the owner of layer 1; no role is granted any
-- of it. Locks: those of a check (0002, 0004). Keeps F1, F2, F5, F6.

-- The library of guard/shortcuts/ runs the common case of check_term(), append(), append_many() and protect()'s triggers without SQL, by
-- the same rules as these files. It looks for a function of this name. When a rule changes, the name does, so that an older library finds
-- none.
CREATE OR REPLACE FUNCTION @schema@._library_1() RETURNS void LANGUAGE sql IMMUTABLE AS $$ SELECT $$;

-- _guard_declared(scope, term) → the claim that two texts make, from settings or from a comment. TG002, TG005.
CREATE OR REPLACE FUNCTION @schema@._guard_declared(p_scope text, p_term text, OUT scope text, OUT term bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  scope := nullif(p_scope, '');
  IF scope IS NOT NULL THEN
    PERFORM @schema@._need_scope(scope, 'declared termgate.scope');
  END IF;
  term := @schema@._read_term(p_term);
  IF scope IS NULL OR term IS NULL THEN
    PERFORM @schema@._guard_no_claim(scope, term);
  END IF;
END $$;

-- TG002 in the words of a guarded session.
CREATE OR REPLACE FUNCTION @schema@._guard_no_claim(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._count_refusal('TG002');
  RAISE EXCEPTION USING ERRCODE = 'TG002',
    MESSAGE = CASE WHEN p_term IS NOT NULL THEN format('TG002 no scope declared for term %s: this session is guarded, and a write needs both', p_term)
                   WHEN p_scope IS NOT NULL THEN format('TG002 no term declared for scope "%s": this session is guarded, and a write needs both', p_scope)
                   ELSE 'TG002 no term declared: this session is guarded, and a write needs a scope and a term' END,
    DETAIL = 'Temporary tables, sequences, NOTIFY and txid_current() count as writes. A transaction that changes nothing needs no term.',
    HINT = 'BEGIN; SET LOCAL termgate.scope = ''...''; SET LOCAL termgate.term = ''...''; then the write, then COMMIT. Or for the session: PGOPTIONS ''-c termgate.scope=... -c termgate.term=...''. '
           'A superuser who restores a dump turns the guard off for its session: PGOPTIONS ''-c termgate.guard=off''.';
END $$;

-- Waits for a raise to end, at most check_wait_ms; then TG006. The lock belongs to the caller's transaction.
CREATE OR REPLACE FUNCTION @schema@._guard_wait(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._share(p_scope);
END $$;

-- _guard_verdict(scope, term, fence, generation, too_early, queue_key) → the generation since which fences are trusted; NULL if the guard's
-- lock has another key than layer 1's. p_fence, p_generation: what the guard has read under the lock, which this transaction's snapshot may
-- not show; NULL if there is no row. p_too_early: the statement's snapshot is older than the raise. TG001, TG004, TG005, 40001. Never
-- raises the fence.
CREATE OR REPLACE FUNCTION @schema@._guard_verdict(p_scope text, p_term bigint, p_fence bigint, p_generation bigint, p_too_early boolean, p_queue_key bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_queue_key <> @schema@._queue_key(p_scope) THEN
    RETURN NULL;
  END IF;
  PERFORM @schema@._need_trusted(p_scope, p_generation);
  IF p_term < p_fence THEN
    PERFORM @schema@._stale(p_scope, p_term, p_fence);
  ELSIF p_term > coalesce(p_fence, 0) THEN
    RAISE EXCEPTION 'TG005 declared term % is above the fence of scope "%" (%): the guard never raises it', p_term, p_scope, coalesce(p_fence, 0)
      USING ERRCODE = 'TG005', HINT = @schema@._how_to_raise(p_scope, p_term), CONSTRAINT = 'termgate_to_be_raised';  -- for the proxy
  ELSIF p_too_early THEN
    PERFORM @schema@._began_too_early(p_scope, p_term);
  END IF;
  RETURN (SELECT i.trusted_since FROM @schema@.incarnation i);
END $$;

-- A transaction over very many scopes: by the fence's row, without an advisory lock.
CREATE OR REPLACE FUNCTION @schema@._guard_by_row(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._check_escalated(p_scope, p_term);
END $$;

-- For mode observe: the message of what would be refused, or NULL. Without a scope: what the declaration lacks. Takes no lock of the scope
-- and changes no fence. The first call after a restart records the restart in `incarnation`.
CREATE OR REPLACE FUNCTION @schema@._guard_would_refuse(p_scope text, p_term bigint, p_fence bigint, p_generation bigint, p_too_early boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_term bigint;
BEGIN
  IF p_scope IS NULL THEN
    v_term := @schema@._declared_term();
    PERFORM @schema@._need_scope(@schema@._declared_scope(), 'declared termgate.scope') WHERE @schema@._declared_scope() IS NOT NULL;
    RETURN 'TG002 no term declared; ' || @schema@._what_is_declared();
  ELSIF @schema@._why_untrusted(p_generation) IS NOT NULL THEN
    RETURN format('TG004 the fence of scope "%s" is untrusted', p_scope);
  ELSIF p_term < p_fence THEN
    RETURN format('TG001 stale term %s for scope "%s": the fence stands at %s', p_term, p_scope, p_fence);
  ELSIF p_term > coalesce(p_fence, 0) THEN
    RETURN format('TG005 declared term %s is above the fence of scope "%s" (%s)', p_term, p_scope, coalesce(p_fence, 0));
  ELSIF p_too_early THEN
    RETURN format('40001 the statement began before scope "%s" was raised to term %s', p_scope, p_term);
  END IF;
  RETURN NULL;
EXCEPTION WHEN OTHERS THEN
  RETURN SQLERRM;
END $$;

-- The value of termgate.guard with which a role's connections to this database start: the most specific one of ALTER ROLE and ALTER
-- DATABASE; NULL: not set.
CREATE OR REPLACE FUNCTION @schema@._guard_setting(p_role oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT split_part(c.setting, '=', 2)
    FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c(setting)
   WHERE c.setting LIKE 'termgate.guard=%' AND s.setrole IN (0, p_role)
     AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
   ORDER BY s.setrole <> 0 AND s.setdatabase <> 0 DESC, s.setrole <> 0 DESC, s.setdatabase <> 0 DESC LIMIT 1
$$;

-- Rows for doctor(): what makes the guard worth less than it seems. None if nobody uses the guard.
CREATE OR REPLACE FUNCTION @schema@._doctor_guard() RETURNS TABLE (severity text, object text, problem text, remedy text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_loaded boolean := current_setting('termgate.guarded', true) IN ('on', 'off');
  v_extension boolean := EXISTS (SELECT FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'termgate_guard' AND n.nspname = @schema_lit@);
  v_modes text[] := ARRAY(SELECT DISTINCT @schema@._guard_setting(r.oid) FROM pg_roles r WHERE @schema@._guard_setting(r.oid) IN ('enforce', 'observe'));
  v_state record;
  v_database text := format('database %I', current_database());
BEGIN
  IF NOT v_extension AND v_modes = '{}' THEN
    RETURN;
  ELSIF NOT v_loaded THEN
    RETURN QUERY SELECT 'error', v_database, 'termgate.guard is set or its extension is here, and the library is not loaded: no session is guarded',
      'shared_preload_libraries = ''termgate_guard'' in postgresql.conf, and a restart';
    RETURN;
  ELSIF NOT v_extension THEN
    RETURN QUERY SELECT 'error', v_database, 'roles are guarded here, and extension termgate_guard is not in schema @schema@: all their writes get TG004',
      'as a superuser: CREATE EXTENSION termgate_guard SCHEMA @schema@';
    RETURN;
  END IF;
  SELECT g.preloaded, g.first INTO v_state FROM @schema@.guard_state() g;
  RETURN QUERY
    SELECT 'warning', 'library termgate_guard', 'loaded by sessions and not by the server: logins with replication=database and background workers are not guarded',
           'shared_preload_libraries = ''termgate_guard'' in postgresql.conf, and a restart' WHERE NOT v_state.preloaded;
  RETURN QUERY
    SELECT 'warning', 'library termgate_guard', 'another library stands before it in shared_preload_libraries: what that one writes at the end of a transaction comes after the guard''s last look',
           'name termgate_guard first, and restart the server' WHERE v_state.preloaded AND NOT v_state.first;
  RETURN QUERY
    SELECT 'info', 'role ' || quote_ident(r.rolname), 'termgate.guard = observe: nothing is refused there', format('ALTER ROLE %I SET termgate.guard = enforce, when termgate.guard_observed stays as it is', r.rolname)
      FROM pg_roles r WHERE r.rolcanlogin AND NOT r.rolsuper AND @schema@._guard_setting(r.oid) = 'observe' ORDER BY r.rolname LIMIT 100;
  IF NOT 'enforce' = ANY (v_modes) THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT 'warning', 'role ' || quote_ident(r.rolname), format('may write to %s and is not guarded', w.example), format('ALTER ROLE %I SET termgate.guard = enforce, or guard the database', r.rolname)
      FROM pg_roles r CROSS JOIN LATERAL (
        SELECT c.oid::regclass::text AS example FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN (@schema_lit@, 'information_schema') AND NOT starts_with(n.nspname, 'pg_')
           AND (has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') OR has_any_column_privilege(r.oid, c.oid, 'INSERT, UPDATE')) LIMIT 1) w
     WHERE r.rolcanlogin AND NOT r.rolsuper AND r.rolname <> current_user AND coalesce(@schema@._guard_setting(r.oid), 'off') = 'off' ORDER BY r.rolname LIMIT 100;
  RETURN QUERY
    SELECT 'warning', 'role ' || quote_ident(r.rolname), format('is not guarded, and can SET ROLE to %I, which is: who is guarded is decided by the login', g.rolname), format('ALTER ROLE %I SET termgate.guard = enforce', r.rolname)
      FROM pg_roles r JOIN pg_roles g ON g.oid <> r.oid AND NOT g.rolsuper AND pg_has_role(r.oid, g.oid, 'MEMBER')
     WHERE r.rolcanlogin AND NOT r.rolsuper AND r.rolname <> current_user AND coalesce(@schema@._guard_setting(r.oid), 'off') = 'off'
       AND EXISTS (SELECT FROM pg_db_role_setting s WHERE s.setrole = g.oid AND 'termgate.guard=enforce' = ANY (s.setconfig)) ORDER BY r.rolname, g.rolname LIMIT 100;
  RETURN QUERY
    SELECT 'warning', 'role ' || quote_ident(r.rolname), 'is guarded and has REPLICATION: replication commands make and drop slots, and no hook sees them', format('ALTER ROLE %I NOREPLICATION', r.rolname)
      FROM pg_roles r WHERE r.rolcanlogin AND r.rolreplication AND NOT r.rolsuper AND @schema@._guard_setting(r.oid) = 'enforce' ORDER BY r.rolname LIMIT 100;
  IF to_regclass('pg_catalog.pg_parameter_acl') IS NOT NULL THEN
    RETURN QUERY EXECUTE
      'SELECT ''warning'', CASE a.grantee WHEN 0 THEN ''PUBLIC'' ELSE ''role '' || quote_ident(pg_get_userbyid(a.grantee)) END, format(''may change %s'', p.parname), '
      'format(''REVOKE %s ON PARAMETER %s FROM %s'', a.privilege_type, p.parname, CASE a.grantee WHEN 0 THEN ''PUBLIC'' ELSE quote_ident(pg_get_userbyid(a.grantee)) END) '
      'FROM pg_parameter_acl p, LATERAL aclexplode(p.paracl) a WHERE p.parname IN (''termgate.guard'', ''termgate.guard_foreign'', ''shared_preload_libraries'', ''session_preload_libraries'') '
      'AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = a.grantee AND r.rolsuper)';
  END IF;
  RETURN QUERY
    SELECT 'info', 'server ' || quote_ident(f.srvname), 'leads to a database of this name: what is written by way of it is written by another session, guarded if its login is', 'guard the roles of its user mappings'
      FROM pg_foreign_server f WHERE 'dbname=' || current_database() = ANY (f.srvoptions) ORDER BY f.srvname LIMIT 100;
END $$;
