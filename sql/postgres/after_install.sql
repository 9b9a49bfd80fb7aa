-- Runs after all files of install/, in their transaction. Parameters: none. Locks: those of GRANT.
-- Whoever could call a function or read a view before an upgrade can do so after it, also where it had to be made anew with another result. A function
-- that is new goes to those who have the one that it belongs to.
-- First what the levels say, which takes from PUBLIC what a new function gives to everybody; then what was granted by hand.
DO $$ BEGIN PERFORM @schema@._settle_grants(); END $$;
DO $$
DECLARE
  g record;
BEGIN
  FOR g IN
    WITH noted AS (
      SELECT n.* FROM json_to_recordset(current_setting('termgate.grants')::json) AS n(kind text, name name, role oid, privilege text, grantable boolean)
    ), wanted AS (
      SELECT n.* FROM noted n
      UNION
      SELECT w.kind, w.new, n.role, n.privilege, n.grantable
        FROM (VALUES ('FUNCTION', 'check_session'::name, 'check_term'::name), ('FUNCTION', 'hold_session', 'check_term'), ('FUNCTION', 'release_session', 'check_term'),
                     ('FUNCTION', 'check_claim', 'check_term'), ('FUNCTION', 'check_claim_text', 'check_term'), ('FUNCTION', 'check_again', 'check_term'), ('FUNCTION', 'check_prepared', 'check_term'), ('FUNCTION', 'hold_claim', 'check_term'),
                     ('TABLE', 'refusal_counts', 'audit_log')) w(kind, new, old)
        JOIN noted n ON n.kind = w.kind AND n.name = w.old
    ), present AS (
      SELECT 'FUNCTION' AS kind, p.proname AS name, p.oid::regprocedure::text AS target, p.proacl AS acl FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@
      UNION ALL
      SELECT 'TABLE', c.relname, c.oid::regclass::text, c.relacl FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = @schema_lit@ AND c.relkind = 'v'
    )
    SELECT w.kind, w.privilege, p.target, w.grantable, CASE WHEN w.role = 0 THEN 'PUBLIC' ELSE w.role::regrole::text END AS role
      FROM wanted w JOIN present p ON p.kind = w.kind AND p.name = w.name
     WHERE (w.role = 0 OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = w.role))
       AND NOT EXISTS (SELECT FROM aclexplode(p.acl) a WHERE a.grantee = w.role AND a.privilege_type = w.privilege AND a.is_grantable >= w.grantable)
  LOOP
    EXECUTE format('GRANT %s ON %s %s TO %s%s', g.privilege, g.kind, g.target, g.role, CASE WHEN g.grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
END $$;
