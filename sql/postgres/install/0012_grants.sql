-- Who may call what. Users need EXECUTE on functions and nothing on the tables, so no application can lower a fence by hand. Levels are
-- cumulative. Besides them there is dump: SELECT on the tables and no function, for a role that runs pg_dump. The secret that signs the
-- marks of passed checks is in no table (0001).

-- The level at which a function is open: 0 to everybody who may use the schema, 1 read, 2 write, 3 lead, 4 operate. NULL: only to the
-- owner. protect(), unprotect() and unadopt() run as their caller, a table's owner, so they and what they need are at 0. The helpers among
-- these that change something require proof (0009, _need_proof), and the trigger functions test whether the table is registered. adopt()
-- can raise any fence, so it takes level operate.
CREATE OR REPLACE FUNCTION @schema@._level_of(p_function name) RETURNS integer
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN starts_with(p_function, '_protected_row_') OR starts_with(p_function, '_adopted_row_') OR p_function IN (
      'protect', 'unprotect', '_protect_function', '_protect_register', '_protect_unregister', '_protect_drop', '_protect_statement',
      '_protect_truncate', '_protect_scopes', '_protect_attached', '_protect_arguments', 'unadopt', '_adopt_unregister', '_prove',
      '_protect_below', '_guard_rows', '_place_in_tree',
      '_tree', '_need_scope', '_need_prefix', '_need_column', '_need_own_table') THEN 0
    WHEN p_function IN (
      'fence', 'lease', 'read_stream', 'server_time', 'schema_version', 'doctor', 'verify_findings', 'outcome', '_untrusted', 'follower_behind', '_refused_since') THEN 1
    WHEN p_function IN (
      'check_term', 'check_session', 'check_claim', 'check_claim_text', 'check_again', 'check_prepared', 'hold_session', 'hold_claim', 'release_session', 'require_lease', 'append', 'append_many', 'claim_write', 'record_refusal', 'notify_raised', 'sit', 'stand', 'seats_wanted',
      'job_start', 'job_take', 'job_heartbeat', 'job_finish', 'follower_start', 'follower_advance', 'follower_remove') THEN 2
    WHEN p_function IN ('seal', 'acquire_lease', 'renew_lease', 'renew_leases', 'release_lease', 'request_hand_over', 'job_request') THEN 3
    WHEN p_function IN (
      'adopt', '_adopt_function', '_adopt_register', 'force_release', 'reset_fence', 'prune', 'prune_history', 'stream_move', 'set_raise_by', 'set_setting', 'declare_restored',
      'declare_nothing_lost', 'declare_untrusted') THEN 4
  END
$$;

-- A role as GRANT expects it. 'public' is everybody: no role can have that name.
CREATE OR REPLACE FUNCTION @schema@._role_name(p_role name) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT CASE WHEN p_role = 'public' THEN 'PUBLIC' ELSE format('%I', p_role) END $$;

-- Whether an object is a member of an extension (termgate_guard, in this schema): it has another owner and its own privileges.
CREATE OR REPLACE FUNCTION @schema@._of_extension(p_class oid, p_object oid) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_depend d WHERE d.classid = p_class AND d.objid = p_object AND d.deptype = 'e')
$$;

-- Grants what pg_dump reads of layer 1.
CREATE OR REPLACE FUNCTION @schema@._grant_dump(p_role name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f record;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA @schema@ TO %s', @schema@._role_name(p_role));
  FOR f IN SELECT c.oid::regclass AS name, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = @schema_lit@ AND c.relkind IN ('r', 'p', 'S') LOOP
    EXECUTE format('GRANT SELECT ON %s %s TO %s', f.kind, f.name, @schema@._role_name(p_role));
  END LOOP;
END $$;

-- grant_level(role, level): gives the role level read, write, lead or operate, and takes away what is above it; PUBLIC gets read or write.
-- Level dump is SELECT on the tables and no function; the installer gives it to the owner of the database (after_install.sql). For the
-- owner of layer 1; `termgate init --grant ROLE=LEVEL` calls it.
CREATE OR REPLACE FUNCTION @schema@.grant_level(role name, level text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
  v_level integer := array_position(ARRAY['read', 'write', 'lead', 'operate'], level);
  f record;
BEGIN
  -- Two sessions that changed privileges of one function at once would fail ("tuple concurrently updated"), so they take turns, with
  -- installers too. Any role can take that lock, so nobody waits for ever (lock_timeout).
  PERFORM pg_advisory_xact_lock(hashtextextended('termgate migrations', 0));
  IF v_level IS NULL AND level IS DISTINCT FROM 'dump' THEN
    RAISE EXCEPTION 'TG005 the level is read, write, lead or operate, not "%"', level USING ERRCODE = 'TG005';
  ELSIF role = 'public' AND level IN ('lead', 'operate') THEN
    RAISE EXCEPTION 'TG005 level % is not for PUBLIC: every login could shut leaders out', level USING ERRCODE = 'TG005', HINT = 'Grant it to a role.';
  ELSIF role = 'public' AND level = 'dump' THEN
    RAISE EXCEPTION 'TG005 dump is not for PUBLIC: every login could read all tables of layer 1' USING ERRCODE = 'TG005', HINT = 'Grant it to a role.';
  END IF;
  IF v_level IS NULL THEN
    PERFORM @schema@._grant_dump(role);
    RETURN;
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA @schema@ TO %s', @schema@._role_name(role));
  FOR f IN SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = @schema_lit@ AND c.relkind = 'v' AND NOT @schema@._of_extension('pg_class'::regclass, c.oid) LOOP
    EXECUTE format('GRANT SELECT ON %s TO %s', f.name, @schema@._role_name(role));
  END LOOP;
  FOR f IN SELECT p.oid::regprocedure AS name, CASE WHEN @schema@._level_of(p.proname) > v_level THEN 'REVOKE' ELSE 'GRANT' END AS what FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = @schema_lit@ AND @schema@._level_of(p.proname) >= 1 LOOP
    EXECUTE format('%s EXECUTE ON FUNCTION %s %s %s', f.what, f.name, CASE f.what WHEN 'GRANT' THEN 'TO' ELSE 'FROM' END, @schema@._role_name(role));
  END LOOP;
END $$;

-- _levels_in(grants) → every role that has a level by these grants (as before_install.sql records them), 'public' among them; 0: SELECT on
-- the tables. A level is recognised by two functions that it adds: a role that was granted only one of them by hand has no level, and an
-- upgrade must not give it one. A role may have a level and 0 as well.
CREATE OR REPLACE FUNCTION @schema@._levels_in(p_grants jsonb) RETURNS TABLE (role name, level integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH signs (name, of) AS (
    VALUES ('fence'::name, 1), ('verify_findings', 1), ('check_term', 2), ('claim_write', 2), ('acquire_lease', 3), ('renew_lease', 3), ('reset_fence', 4), ('prune_history', 4)
  ), granted AS (
    SELECT n.role, s.of FROM jsonb_to_recordset(p_grants) AS n(kind text, name name, role oid, privilege text) JOIN signs s ON s.name = n.name
     WHERE n.kind = 'FUNCTION' AND n.privilege = 'EXECUTE' GROUP BY n.role, s.of HAVING count(DISTINCT s.name) = 2
  )
  SELECT CASE WHEN g.role = 0 THEN 'public'::name ELSE pg_get_userbyid(g.role) END, g.of
    FROM (SELECT g.role, max(g.of) AS of FROM granted g GROUP BY g.role
          UNION ALL
          SELECT DISTINCT n.role, 0 FROM jsonb_to_recordset(p_grants) AS n(kind text, name name, role oid, privilege text) WHERE n.kind = 'TABLE' AND n.name = 'migrations' AND n.privilege = 'SELECT') g
   WHERE g.role = 0 OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.role)
$$;

-- _levels() → every role that was granted a level, once, with its highest level.
CREATE OR REPLACE FUNCTION @schema@._levels() RETURNS TABLE (role name, level integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.role, max(l.level) FROM @schema@._levels_in((
    SELECT jsonb_agg(jsonb_build_object('kind', o.kind, 'name', o.name, 'role', a.grantee, 'privilege', a.privilege_type))
      FROM (SELECT 'FUNCTION' AS kind, p.proname AS name, p.proacl AS acl, p.proowner AS owner, p.pronamespace AS namespace FROM pg_proc p
            UNION ALL
            SELECT 'TABLE', c.relname, c.relacl, c.relowner, c.relnamespace FROM pg_class c WHERE c.relname = 'migrations') o
      JOIN pg_namespace n ON n.oid = o.namespace, LATERAL aclexplode(o.acl) a
     WHERE n.nspname = @schema_lit@ AND a.grantee <> o.owner)) l GROUP BY l.role
$$;

-- revoke_level(role) takes every level from a role → what the role can do all the same, and through what: PUBLIC, a role that it is a
-- member of, ownership of layer 1, or being a superuser. For the owner of layer 1; `termgate init --revoke ROLE` calls it.
CREATE OR REPLACE FUNCTION @schema@.revoke_level(role name) RETURNS TABLE (level text, through text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
  v_role text := @schema@._role_name(revoke_level.role);
  v_names text[] := ARRAY['dump', 'read', 'write', 'lead', 'operate'];
  f record;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('termgate migrations', 0));
  FOR f IN SELECT c.oid::regclass AS name, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = @schema_lit@ AND c.relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT @schema@._of_extension('pg_class'::regclass, c.oid) LOOP
    EXECUTE format('REVOKE ALL ON %s %s FROM %s', f.kind, f.name, v_role);
  END LOOP;
  -- PUBLIC keeps what is open to everybody who may use the schema.
  FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = @schema_lit@ AND (v_role <> 'PUBLIC' OR @schema@._level_of(p.proname) IS DISTINCT FROM 0)
              AND NOT @schema@._of_extension('pg_proc'::regclass, p.oid) LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', f.name, v_role);
  END LOOP;
  EXECUTE format('REVOKE ALL ON SCHEMA @schema@ FROM %s', v_role);
  RETURN QUERY
    SELECT v_names[l.level + 1], CASE WHEN l.role = 'public' THEN 'PUBLIC' ELSE 'role ' || l.role END FROM @schema@._levels() l
     WHERE v_role <> 'PUBLIC' AND (l.role = 'public' OR (l.role <> revoke_level.role AND pg_has_role(revoke_level.role, l.role, 'MEMBER')))
     ORDER BY l.level DESC, l.role;
  RETURN QUERY
    SELECT 'all', CASE WHEN r.rolsuper THEN 'being a superuser' ELSE 'role ' || pg_get_userbyid(c.relowner) || ', the owner of layer 1' END
      FROM pg_roles r, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE r.rolname = revoke_level.role AND n.nspname = @schema_lit@ AND c.relname = 'migrations' AND pg_has_role(r.oid, c.relowner, 'MEMBER');
END $$;

-- Until version 13 each fence had its own secret, in a column that pg_dump would copy.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = format('%I.fences', @schema_lit@)::regclass AND a.attname = 'pass_key' AND NOT a.attisdropped) THEN
    ALTER TABLE @schema@.fences DROP COLUMN pass_key;
  END IF;
END $$;

DROP FUNCTION IF EXISTS @schema@._settle_grants();  -- up to version 19; after_install.sql does this now
