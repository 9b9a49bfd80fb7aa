-- The beginning of what `termgate init --print` writes for PostgreSQL: the command's own tests before it installs anything. Parameters:
-- none; @version@ is the newest of install/. Locks: the installers' one, so that two of them take turns.
DO $$
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('lock_timeout', '10s', true),
          pg_catalog.set_config('client_min_messages', 'warning', true),  -- no notice of what was not there to be dropped
          pg_catalog.set_config('termgate.script', 'begun', true);
END $$;

DO $$
DECLARE
  v_owner oid := (SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = @schema_lit@ AND c.relname = 'migrations');
  v_version integer := 0;
BEGIN
  IF current_setting('termgate.script', true) IS DISTINCT FROM 'begun' THEN
    RAISE EXCEPTION 'run this script in one transaction; nothing was changed';
  ELSIF current_setting('server_version_num')::integer < 130000 THEN
    RAISE EXCEPTION 'Termgate needs PostgreSQL 13 or newer, and this is %; nothing was changed', current_setting('server_version');
  ELSIF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'Termgate needs a database with encoding UTF8, and this one has %; nothing was changed', current_setting('server_encoding')
      USING HINT = 'CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0';
  ELSIF v_owner IS NOT NULL AND NOT pg_has_role(v_owner, 'USAGE') THEN
    RAISE EXCEPTION 'layer 1 in schema % belongs to role %, and role % is not a member of it; nothing was changed', @schema_lit@, pg_get_userbyid(v_owner), current_user;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('termgate migrations', 0));
  IF v_owner IS NOT NULL THEN
    EXECUTE 'SELECT coalesce(max(version), 0) FROM @schema@.migrations' INTO v_version;
  END IF;
  IF v_version > @version@ THEN
    RAISE EXCEPTION 'version % of layer 1 is installed, and this script is version @version@; nothing was changed', v_version;
  END IF;
END $$;
