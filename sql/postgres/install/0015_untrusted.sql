-- Grants of fence() as it was up to version 14 (0008) go to the function that took its place, and the old one is dropped. Locks: only those
-- of GRANT and DROP FUNCTION.

DO $$
DECLARE
  g record;
BEGIN
  IF to_regprocedure(format('%I._fence_14(text)', @schema_lit@)) IS NULL THEN
    RETURN;
  END IF;
  FOR g IN SELECT a.grantee, a.is_grantable FROM pg_proc p, LATERAL aclexplode(p.proacl) a
            WHERE p.oid = to_regprocedure(format('%I._fence_14(text)', @schema_lit@)) AND a.privilege_type = 'EXECUTE' LOOP
    CONTINUE WHEN g.grantee <> 0 AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = g.grantee);
    EXECUTE format('GRANT EXECUTE ON FUNCTION @schema@.fence(text) TO %s%s', CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
                   CASE WHEN g.is_grantable AND g.grantee <> 0 THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  DROP FUNCTION @schema@._fence_14(text);
END $$;
