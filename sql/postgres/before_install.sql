-- Runs in front of all files of install/, in their transaction. Parameters: none. Locks: none.
-- The installing role's own settings must not change what the files mean, and a session that is frozen in a transaction must not block an
-- upgrade, and everybody queued after it, for ever. Records who may do what, so that after_install.sql can give every grant back, and can
-- tell them from what ALTER DEFAULT PRIVILEGES gives to new objects.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
          pg_catalog.set_config('standard_conforming_strings', 'on', true),
          pg_catalog.set_config('client_encoding', 'UTF8', true),
          pg_catalog.set_config('check_function_bodies', 'on', true),
          pg_catalog.set_config('quote_all_identifiers', 'off', true),
          pg_catalog.set_config('default_tablespace', '', true),
          pg_catalog.set_config('default_table_access_method', 'heap', true),
          pg_catalog.set_config('plpgsql.extra_errors', 'none', true),
          pg_catalog.set_config('plpgsql.extra_warnings', 'none', true),
          pg_catalog.set_config('lock_timeout', '10s', true);
  PERFORM set_config('termgate.grants', coalesce((
    SELECT jsonb_agg(jsonb_build_object('kind', o.kind, 'name', o.name, 'arguments', o.arguments, 'role', a.grantee, 'privilege', a.privilege_type, 'grantable', a.is_grantable))::text
      FROM (SELECT 'FUNCTION' AS kind, p.proname AS name, p.pronargs AS arguments, p.proacl AS acl, p.proowner AS owner, p.pronamespace AS namespace FROM pg_proc p
            UNION ALL
            SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname, NULL, c.relacl, c.relowner, c.relnamespace FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S')
            UNION ALL
            SELECT 'SCHEMA', s.nspname, NULL, s.nspacl, s.nspowner, s.oid FROM pg_namespace s) o
      JOIN pg_namespace n ON n.oid = o.namespace, LATERAL aclexplode(o.acl) a
     WHERE n.nspname = @schema_lit@ AND a.grantee <> o.owner), '[]'), true);
END $$;
