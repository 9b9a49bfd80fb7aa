-- Takes all of layer 1 away: triggers on the owner's tables first (they depend on functions of the schema), then schema and data. Parameters:
-- none. Locks: ACCESS EXCLUSIVE on every protected or adopted table. After it no fence is remembered: F3 ends here, on purpose.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
  t record;
BEGIN
  FOR t IN SELECT g.tgname, g.tgrelid::regclass AS target
             FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = @schema_lit@ AND NOT g.tgisinternal AND g.tgparentid = 0
              AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = g.tgrelid AND c.relnamespace = n.oid) LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, t.target);
  END LOOP;
END $$;
DROP SCHEMA IF EXISTS @schema@ CASCADE;
