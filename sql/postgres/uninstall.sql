-- Removes layer 1: the triggers of protect() and adopt(), then layer 1's own functions, views and tables, then the schema, unless it
-- belongs to a role that the caller is not a member of. Nothing else is ever dropped.
-- If the schema contains something else, if something else depends on layer 1, or if a protected or adopted table belongs to a role that
-- the caller is not a member of, it changes nothing and raises an error that lists each object with the command to run first.
-- Parameters: none. @own_relations@ and @own_functions@ are what install/ creates; sql/embed.cmake fills them in.
-- Locks: ACCESS EXCLUSIVE on every protected or adopted table and on layer 1's own. Afterwards no fence is remembered: F3 ends here, on
-- purpose.
SET LOCAL search_path = pg_catalog, pg_temp;
DO $$
DECLARE
  v_schema oid := (SELECT n.oid FROM pg_namespace n WHERE n.nspname = @schema_lit@);
  v_tables oid[];
  v_functions oid[];
  v_foreign text;
  v_dependent text;
  v_covered text;
  v_owner oid;
  v_list text;
  t record;
BEGIN
  IF v_schema IS NULL OR to_regclass(format('%I.migrations', @schema_lit@)) IS NULL THEN
    RETURN;
  END IF;
  v_owner := (SELECT c.relowner FROM pg_class c WHERE c.relnamespace = v_schema AND c.relname = 'fences');
  IF NOT pg_has_role(v_owner, 'USAGE') THEN
    RAISE EXCEPTION 'layer 1 in schema % belongs to role %: run termgate uninstall as that role or as a superuser; nothing was changed',
                    quote_ident(@schema_lit@), quote_ident(pg_get_userbyid(v_owner)) USING ERRCODE = '42501';
  END IF;
  v_tables := ARRAY(SELECT c.oid FROM pg_class c WHERE c.relnamespace = v_schema AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
                       AND c.relname = ANY (@own_relations@::name[]));
  -- The sequences of identity columns.
  v_tables := v_tables || ARRAY(SELECT d.objid FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
                                   AND d.refobjid = ANY (v_tables) AND (SELECT c.relkind = 'S' FROM pg_class c WHERE c.oid = d.objid));
  v_functions := ARRAY(SELECT p.oid FROM pg_proc p WHERE p.pronamespace = v_schema
                          AND (p.proname = ANY (@own_functions@::name[]) OR starts_with(p.proname, '_protected_row_') OR starts_with(p.proname, '_adopted_row_')));

  -- What else is in the schema. Of an extension only itself is listed, not its members.
  SELECT string_agg(format('%s  %s %s%s: ALTER %s %s SET SCHEMA public; or DROP %s %s;', chr(10), i.type, i.identity, ' (owner ' || o.name || ')', k.kind, i.identity, k.kind, i.identity), '' ORDER BY i.type, i.identity)
    INTO v_foreign
    FROM pg_depend d
    CROSS JOIN LATERAL pg_identify_object(d.classid, d.objid, 0) i
    CROSS JOIN LATERAL (SELECT CASE i.type WHEN 'composite type' THEN 'TYPE' WHEN 'statistics object' THEN 'STATISTICS' ELSE upper(i.type) END AS kind) k
    LEFT JOIN LATERAL (SELECT quote_ident(pg_get_userbyid(s.refobjid)) AS name FROM pg_shdepend s
                        WHERE s.dbid = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database()) AND s.classid = d.classid AND s.objid = d.objid AND s.deptype = 'o' LIMIT 1) o ON true
   WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = v_schema AND d.deptype = 'n'
     AND NOT (d.classid = 'pg_class'::regclass AND d.objid = ANY (v_tables)) AND NOT (d.classid = 'pg_proc'::regclass AND d.objid = ANY (v_functions))
     AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e')
     -- The sequence of somebody's serial or identity column goes with its table.
     AND NOT EXISTS (SELECT FROM pg_depend e JOIN pg_class q ON q.oid = e.objid AND q.relkind = 'S'
                      WHERE d.classid = 'pg_class'::regclass AND e.classid = d.classid AND e.objid = d.objid AND e.refclassid = 'pg_class'::regclass AND e.deptype IN ('a', 'i'));

  -- What depends on layer 1 from outside: a view on its views, a default or a policy that calls its functions, a foreign key.
  SELECT string_agg(DISTINCT format('%s  %s %s: %s', chr(10), w.type, w.identity, w.command), '') INTO v_dependent
    FROM (
      SELECT i.type, i.identity,
             CASE WHEN i.type = 'default value' THEN format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT;', a.target, a.name)
                  WHEN i.type = 'table constraint' THEN format('ALTER TABLE %s DROP CONSTRAINT %I;', c.target, c.name)
                  ELSE format('DROP %s %s;', CASE i.type WHEN 'composite type' THEN 'TYPE' WHEN 'statistics object' THEN 'STATISTICS' ELSE upper(i.type) END, i.identity) END AS command
        FROM pg_depend d
        LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
        -- For the rule of a view, name the view.
        CROSS JOIN LATERAL (SELECT CASE WHEN r.rulename = '_RETURN' THEN 'pg_class'::regclass::oid ELSE d.classid END AS class, CASE WHEN r.rulename = '_RETURN' THEN r.ev_class ELSE d.objid END AS id) o
        CROSS JOIN LATERAL pg_identify_object(o.class, o.id, CASE WHEN o.class = 'pg_class'::regclass THEN 0 ELSE d.objsubid END) i
        LEFT JOIN LATERAL (SELECT f.adrelid::regclass AS target, x.attname AS name FROM pg_attrdef f JOIN pg_attribute x ON x.attrelid = f.adrelid AND x.attnum = f.adnum
                            WHERE d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid) a ON true
        LEFT JOIN LATERAL (SELECT n.conrelid::regclass AS target, n.conname AS name FROM pg_constraint n WHERE d.classid = 'pg_constraint'::regclass AND n.oid = d.objid) c ON true
       WHERE d.deptype = 'n'
         AND ((d.refclassid = 'pg_proc'::regclass AND d.refobjid = ANY (v_functions)) OR (d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (v_tables))
              OR (d.refclassid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type y LEFT JOIN pg_type z ON z.typarray = y.oid
                                                                  WHERE y.oid = d.refobjid AND (y.typrelid = ANY (v_tables) OR z.typrelid = ANY (v_tables)))))
         -- Left out: what is layer 1's own or belongs to its own tables and views; its triggers on the owners' tables.
         AND NOT (o.class = 'pg_class'::regclass AND o.id = ANY (v_tables)) AND NOT (o.class = 'pg_proc'::regclass AND o.id = ANY (v_functions))
         AND NOT EXISTS (SELECT FROM pg_trigger g WHERE d.classid = 'pg_trigger'::regclass AND g.oid = d.objid AND (g.tgrelid = ANY (v_tables) OR starts_with(g.tgname, 'termgate_')))
         AND NOT EXISTS (SELECT FROM pg_attrdef f WHERE d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid AND f.adrelid = ANY (v_tables))
         AND NOT EXISTS (SELECT FROM pg_constraint n WHERE d.classid = 'pg_constraint'::regclass AND n.oid = d.objid AND n.conrelid = ANY (v_tables))
         AND NOT EXISTS (SELECT FROM pg_class n JOIN pg_index x ON x.indexrelid = n.oid WHERE o.class = 'pg_class'::regclass AND n.oid = o.id AND x.indrelid = ANY (v_tables))
         AND NOT EXISTS (SELECT FROM pg_rewrite n WHERE d.classid = 'pg_rewrite'::regclass AND n.oid = d.objid AND n.ev_class = ANY (v_tables))
         -- Left out: what is in the schema, because the first list has it.
         AND NOT EXISTS (SELECT FROM pg_depend n WHERE n.classid = o.class AND n.objid = o.id AND n.refclassid = 'pg_namespace'::regclass AND n.refobjid = v_schema)) w;

  IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'termgate_guard' AND e.extnamespace = v_schema) THEN
    v_dependent := concat(v_dependent, chr(10), '  extension termgate_guard: DROP EXTENSION termgate_guard; (as a superuser, and before that ALTER ROLE ... RESET termgate.guard: a guarded session without it writes nothing)');
  END IF;

  -- Tables whose triggers only another role may drop: their owner.
  SELECT string_agg(format('%s  as %I: %s', chr(10), pg_get_userbyid(w.owner), w.command), '' ORDER BY w.owner, w.command) INTO v_covered
    FROM (
      SELECT DISTINCT c.relowner AS owner,
             CASE WHEN g.tgname = 'termgate_adopted' AND EXISTS (SELECT FROM @schema@.adopted a WHERE a.table_oid = c.oid)
                    THEN format('SELECT %I.unadopt(%L);', @schema_lit@, c.oid::regclass)
                  WHEN g.tgname <> 'termgate_adopted' AND p.root_oid IS NOT NULL
                    THEN format('SELECT %I.unprotect(%L);', @schema_lit@, p.root_oid::regclass)
                  ELSE format('DROP TRIGGER %I ON %s;', g.tgname, c.oid::regclass) END AS command
        FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid LEFT JOIN @schema@.protected p ON p.table_oid = c.oid
       WHERE g.tgfoid = ANY (v_functions) AND NOT g.tgisinternal AND g.tgparentid = 0 AND starts_with(g.tgname, 'termgate_')
         AND NOT g.tgrelid = ANY (v_tables) AND NOT pg_has_role(c.relowner, 'USAGE')) w;

  v_list := concat(chr(10) || 'In schema ' || quote_ident(@schema_lit@) || ' there is what is not Termgate''s; move or drop it:' || v_foreign,
                   chr(10) || 'These depend on layer 1; drop them or make them do without:' || v_dependent,
                   chr(10) || 'These tables belong to roles that ' || quote_ident(current_user) || ' is not a member of; their owners run:' || v_covered);
  IF v_list <> '' THEN
    RAISE EXCEPTION 'uninstall changed nothing, because of the following.%', v_list || chr(10) || 'Then run termgate uninstall again.' USING ERRCODE = '2BP01';
  END IF;

  -- From here on nothing is dropped with CASCADE: if the lists above have missed something, the server's own error ends this.
  FOR t IN SELECT g.tgname, g.tgrelid::regclass AS target FROM pg_trigger g
            WHERE g.tgfoid = ANY (v_functions) AND NOT g.tgisinternal AND g.tgparentid = 0 LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, t.target);
  END LOOP;
  FOR t IN SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' END AS kind, string_agg(c.oid::regclass::text, ', ') AS names
             FROM pg_class c WHERE c.oid = ANY (v_tables) AND c.relkind IN ('v', 'm') GROUP BY c.relkind ORDER BY c.relkind DESC LOOP
    EXECUTE format('DROP %s %s', t.kind, t.names);
  END LOOP;
  EXECUTE (SELECT 'DROP FUNCTION ' || string_agg(f.id::regprocedure::text, ', ') FROM unnest(v_functions) f(id));
  EXECUTE (SELECT 'DROP TABLE ' || string_agg(c.oid::regclass::text, ', ') FROM pg_class c WHERE c.oid = ANY (v_tables) AND c.relkind IN ('r', 'p'));
  FOR t IN SELECT c.oid::regclass AS name FROM pg_class c WHERE c.oid = ANY (v_tables) AND c.relkind = 'S' LOOP
    EXECUTE format('DROP SEQUENCE %s', t.name);
  END LOOP;
  -- A schema that belongs to another role was there before layer 1, and stays.
  IF pg_has_role((SELECT n.nspowner FROM pg_namespace n WHERE n.oid = v_schema), 'USAGE') THEN
    DROP SCHEMA @schema@;
  END IF;
END $$;
