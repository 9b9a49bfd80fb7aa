-- Owners' own tables as evidence: MAX(term) over them counts wherever a fence row is missing or untrusted (elsewhere they are not read at all), and a row with a higher term raises the
-- fence in its own transaction. Locks: a raise's, for each scope whose fence must rise; adopt() itself SHARE ROW EXCLUSIVE on the table, so that no row
-- slips in between. adopt and unadopt run as their caller, who must own the table; the definer's helpers believe only what the
-- catalogs show, and read no table that could run its owner's code meanwhile. Keeps F2, F3.

-- Why the owner of these functions may not read an adopted table, or cannot; NULL: it may. What it reads could run code of the table's owner with its own
-- rights: through the types of the columns, a table made a view, and what the planner evaluates beforehand (index expressions and
-- predicates, CHECKs, statistics, partition keys). An index can come between this look and the reading, so a superuser reads superusers' tables only.
CREATE OR REPLACE FUNCTION @schema@._unreadable(p_table oid, p_scope_column name, p_term_column name) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  v_tree oid[] := ARRAY(SELECT @schema@._tree(p_table));
  v_type regtype;
  v_why text;
BEGIN
  SELECT CASE WHEN c.relkind NOT IN ('r', 'p') THEN format('%s is not a table', c.oid::regclass)
              WHEN c.relpersistence = 't' THEN format('%s is a temporary table, which other sessions cannot read', c.oid::regclass)
              WHEN o.superuser AND NOT r.rolsuper THEN
                format('layer 1 belongs to superuser %I, as whom code of %I, the owner of %s, could then run; install layer 1 as a role of its own that is no superuser',
                       current_user, r.rolname, c.oid::regclass)
         END INTO v_why
    FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner, (SELECT u.rolsuper AS superuser FROM pg_roles u WHERE u.rolname = current_user) o
   WHERE c.oid = ANY (v_tree) AND (c.relkind NOT IN ('r', 'p') OR c.relpersistence = 't' OR (o.superuser AND NOT r.rolsuper)) LIMIT 1;
  IF v_why IS NOT NULL THEN
    RETURN v_why;
  END IF;
  v_type := (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = p_table AND a.attname = p_scope_column AND a.attnum > 0 AND NOT a.attisdropped);
  IF coalesce(v_type <> ALL ('{text,varchar,smallint,integer,bigint,uuid}'::regtype[]), true) THEN
    RETURN format('its scope column "%s" is %s', p_scope_column, coalesce('of type ' || v_type, 'gone'));
  END IF;
  v_type := (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = p_table AND a.attname = p_term_column AND a.attnum > 0 AND NOT a.attisdropped);
  IF coalesce(v_type <> ALL ('{smallint,integer,bigint}'::regtype[]), true) THEN
    RETURN format('its term column "%s" is %s', p_term_column, coalesce('of type ' || v_type, 'gone'));
  END IF;
  WITH parts(classid, objid, what) AS (
    SELECT 'pg_class'::regclass, i.indexrelid, 'index ' || i.indexrelid::regclass FROM pg_index i WHERE i.indrelid = ANY (v_tree)
    UNION ALL
    SELECT 'pg_constraint'::regclass, k.oid, 'constraint ' || quote_ident(k.conname) FROM pg_constraint k WHERE k.conrelid = ANY (v_tree)
    UNION ALL
    SELECT 'pg_statistic_ext'::regclass, x.oid, 'statistics ' || quote_ident(x.stxname) FROM pg_statistic_ext x WHERE x.stxrelid = ANY (v_tree)
    UNION ALL
    SELECT 'pg_class'::regclass, t, 'the partition key of ' || t::regclass FROM unnest(v_tree) t
  )
  SELECT format('%s uses %s, which %I could change', p.what, pg_describe_object(d.refclassid, d.refobjid, 0), r.rolname) INTO v_why
    FROM parts p JOIN pg_depend d ON d.classid = p.classid AND d.objid = p.objid AND d.objsubid = 0
    LEFT JOIN pg_proc f ON d.refclassid = 'pg_proc'::regclass AND f.oid = d.refobjid
    LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
    LEFT JOIN pg_type t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid AND t.typtype <> 'c'
    JOIN pg_roles r ON r.oid = coalesce(f.proowner, o.oprowner, t.typowner)
   WHERE NOT r.rolsuper AND r.rolname <> current_user LIMIT 1;
  IF v_why IS NOT NULL THEN
    RETURN v_why;
  ELSIF row_security_active(p_table) THEN
    RETURN format('row security could hide rows from role %I', current_user);
  ELSIF NOT (has_schema_privilege((SELECT c.relnamespace FROM pg_class c WHERE c.oid = p_table), 'USAGE')
             AND has_column_privilege(p_table, p_scope_column, 'SELECT') AND has_column_privilege(p_table, p_term_column, 'SELECT')) THEN
    RETURN format('role %I lacks USAGE on its schema or SELECT on its columns', current_user);
  END IF;
  RETURN NULL;
END $$;

-- TG005 unless the table may be read.
CREATE OR REPLACE FUNCTION @schema@._need_readable(p_table oid, p_scope_column name, p_term_column name) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_why text := @schema@._unreadable(p_table, p_scope_column, p_term_column);
BEGIN
  IF v_why IS NOT NULL THEN
    RAISE EXCEPTION 'TG005 the terms of table % cannot be read: %', p_table::regclass, v_why USING ERRCODE = 'TG005', TABLE = p_table::regclass::text,
      HINT = format('Its owner puts that right; where it is adopted already, this ends it: SELECT @schema@.unadopt(%L);', p_table::regclass);
  END IF;
END $$;

-- For the row triggers of protect() and adopt(), which cast a column only when its type is one of ours: a cast from any other type may be anybody's code.
CREATE OR REPLACE FUNCTION @schema@._wrong_type(p_table oid, p_column name, p_type regtype) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'TG005 column "%" of table % is of type % now, which no scope or term can be', p_column, p_table::regclass, p_type
    USING ERRCODE = 'TG005', TABLE = p_table::regclass::text, HINT = 'Its owner gives it back its type, or runs unprotect() or unadopt().';
END $$;

-- The highest term of the scope in adopted tables, those a reset took back left out. Row security is off, so that hidden rows are an error, not a low maximum.
CREATE OR REPLACE FUNCTION @schema@._adopted_max(p_scope text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  a @schema@.adopted;
  v_max bigint;
  v_all bigint := 0;
  v_below bigint;
  v_sql text;
  v_user text := current_setting('lock_timeout');
BEGIN
  FOR a IN SELECT t.* FROM @schema@.adopted t JOIN pg_class c ON c.oid = t.table_oid LOOP
    PERFORM @schema@._need_readable(a.table_oid, a.scope_column, a.term_column);
    v_sql := format('SELECT max(t.%I)::bigint FROM %s t WHERE t.%I = %s AND t.%I <= $2', a.term_column, a.table_oid::regclass, a.scope_column,
                    @schema@._scope_literal(a.table_oid, a.scope_column, p_scope), a.term_column);
    CONTINUE WHEN v_sql IS NULL;  -- this scope cannot be a value of that column
    v_below := 9223372036854775807;
    BEGIN
      PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
      LOOP
        EXECUTE v_sql INTO v_max USING p_scope, v_below;
        SELECT min(r.to_term) INTO v_below FROM @schema@.resets r
         WHERE r.scope = p_scope AND v_max > r.to_term AND v_max <= r.from_term;
        EXIT WHEN v_below IS NULL;
      END LOOP;
      PERFORM set_config('lock_timeout', v_user, true);
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
      RAISE EXCEPTION 'TG006 the terms of adopted table % cannot be read: it is locked by %', a.table_oid::regclass,
        coalesce((SELECT string_agg(DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction'
                                                   ELSE format('pid %s (user %s, application "%s")', l.pid, s.usename, s.application_name) END, ', ')
                    FROM pg_locks l LEFT JOIN pg_stat_activity s ON s.pid = l.pid
                   WHERE l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.granted
                     AND (l.relation IN (SELECT @schema@._tree(a.table_oid)) OR l.relation IN (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid IN (SELECT @schema@._tree(a.table_oid))))
                     AND l.mode = 'AccessExclusiveLock' AND l.pid IS DISTINCT FROM pg_backend_pid()), 'a session that has just ended')
        USING ERRCODE = 'TG006', DETAIL = format('check_wait is %s ms', @schema@._setting('check_wait_ms')),
        HINT = 'Nothing was written. End what is named here, then try again; it holds no lock of this scope, so it is not evicted.';
    END;
    v_all := greatest(v_all, v_max);
  END LOOP;
  RETURN v_all;
END $$;

-- The scope as a literal of the column's own type, so that an index on the column serves; NULL when it is no value of that type.
CREATE OR REPLACE FUNCTION @schema@._scope_literal(p_table oid, p_column name, p_scope text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_type oid := (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = p_table AND a.attname = p_column AND NOT a.attisdropped);
  v_text text;
BEGIN
  IF coalesce(v_type <> ALL ('{text,varchar,smallint,integer,bigint,uuid}'::regtype[]), true) THEN
    PERFORM @schema@._wrong_type(p_table, p_column, v_type);  -- its input function may be anybody's code
  END IF;
  IF v_type IN ('text'::regtype, 'varchar'::regtype) THEN
    RETURN quote_literal(p_scope) || '::' || v_type::regtype;
  END IF;
  EXECUTE format('SELECT %L::%s::text', p_scope, v_type::regtype) INTO v_text;
  -- Only the canonical spelling is this scope: '07' and '7' are two scopes.
  RETURN CASE WHEN v_text = p_scope COLLATE "C" THEN quote_literal(p_scope) || '::' || v_type::regtype END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

-- Who owns these functions, and so with whose privileges layer 1 runs.
CREATE OR REPLACE FUNCTION @schema@._owner() RETURNS name LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT current_user $$;

-- The relation and all that inherit from it, partitions included.
CREATE OR REPLACE FUNCTION @schema@._tree(p_root oid) RETURNS SETOF oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE tree(oid) AS (SELECT p_root UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid)
  SELECT oid FROM tree
$$;

-- The type of a column, for messages and choices; TG005 when there is no such column, or it is of a type that cannot be what it is named for.
CREATE OR REPLACE FUNCTION @schema@._need_column(p_table regclass, p_column name, p_types regtype[]) RETURNS regtype
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_type regtype := (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = p_table AND a.attname = p_column AND a.attnum > 0 AND NOT a.attisdropped);
BEGIN
  IF v_type IS NULL THEN
    RAISE EXCEPTION 'TG005 table % has no column "%"', p_table, p_column USING ERRCODE = 'TG005';
  ELSIF v_type <> ALL (p_types) THEN
    RAISE EXCEPTION 'TG005 column "%" of table % is of type %: it must be one of %', p_column, p_table, v_type, array_to_string(p_types, ', ')
      USING ERRCODE = 'TG005';
  END IF;
  RETURN v_type;
END $$;

-- TG005 or 42501 unless the caller may protect this table.
CREATE OR REPLACE FUNCTION @schema@._need_own_table(p_table regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c pg_class;
BEGIN
  SELECT * INTO c FROM pg_class t WHERE t.oid = p_table;
  IF c.oid IS NULL THEN
    RAISE EXCEPTION 'TG005 no table was named' USING ERRCODE = 'TG005';
  ELSIF c.relkind NOT IN ('r', 'p') THEN
    RAISE EXCEPTION 'TG005 % is not a table', p_table USING ERRCODE = 'TG005', HINT = 'Views are covered by the tables beneath them.';
  ELSIF c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = @schema_lit@) THEN
    RAISE EXCEPTION 'TG005 % belongs to Termgate itself', p_table USING ERRCODE = 'TG005';
  ELSIF NOT pg_has_role(c.relowner, 'USAGE') THEN
    RAISE EXCEPTION 'must be owner of table %', p_table USING ERRCODE = '42501';
  END IF;
END $$;

-- A name's part for what is made once for every column name. Not md5, which some servers may not use.
CREATE OR REPLACE FUNCTION @schema@._short_hash(p_text text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT substr(encode(sha256(convert_to(p_text, 'UTF8')), 'hex'), 1, 32) $$;

-- The trigger function that reports a row's term, for a pair of column names; plpgsql compiles it anew for each table.
CREATE OR REPLACE FUNCTION @schema@._make_adopted_row(p_scope_column name, p_term_column name) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  v_name text := '_adopted_row_' || @schema@._short_hash(quote_ident(p_scope_column) || '.' || quote_ident(p_term_column));
  r record;
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION @schema@.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L', v_name,
    format($body$
DECLARE
  v_fence bigint;
BEGIN
  IF pg_typeof(NEW.%1$I) <> ALL ('{text,varchar,smallint,integer,bigint,uuid}'::regtype[]) THEN
    PERFORM @schema@._wrong_type(TG_RELID, %3$L, pg_typeof(NEW.%1$I));
  END IF;
  IF pg_typeof(NEW.%2$I) <> ALL ('{smallint,integer,bigint}'::regtype[]) THEN
    PERFORM @schema@._wrong_type(TG_RELID, %4$L, pg_typeof(NEW.%2$I));
  END IF;
  v_fence := @schema@._adopted_row(TG_RELID, NEW.%1$I::text, NEW.%2$I::bigint);
  RETURN NULL;
END $body$, p_scope_column, p_term_column, p_scope_column, p_term_column));
  EXECUTE format('REVOKE ALL ON FUNCTION @schema@.%I() FROM PUBLIC', v_name);
  FOR r IN SELECT x.grantee::regrole AS name FROM pg_proc p, aclexplode(p.proacl) x
            WHERE p.oid = '@schema@._adopt_register(regclass, name, name)'::regprocedure AND x.grantee <> 0 AND x.grantee <> p.proowner LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION @schema@.%I() TO %s', v_name, r.name);
  END LOOP;
  RETURN v_name;
END $$;

-- Makes it once for every pair of column names. Whoever may adopt may put it on a table.
CREATE OR REPLACE FUNCTION @schema@._adopt_function(p_scope_column name, p_term_column name) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  v_name text := '_adopted_row_' || @schema@._short_hash(quote_ident(p_scope_column) || '.' || quote_ident(p_term_column));
BEGIN
  IF NOT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@ AND p.proname = v_name) THEN
    PERFORM @schema@._make_adopted_row(p_scope_column, p_term_column);
  END IF;
  RETURN v_name;
END $$;

-- A row of an adopted table: a higher term raises the fence, in the row's own transaction.
CREATE OR REPLACE FUNCTION @schema@._adopted_row(p_table oid, p_scope text, p_term bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_fence bigint;
BEGIN
  IF p_scope IS NULL OR p_term IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT f.term INTO v_fence FROM @schema@.fences f WHERE f.scope = p_scope;
  IF v_fence >= p_term THEN
    RETURN v_fence;
  END IF;
  PERFORM @schema@._need_scope(p_scope);
  PERFORM @schema@._need_term(p_term);
  IF EXISTS (SELECT FROM @schema@.resets r WHERE r.scope = p_scope AND p_term > r.to_term AND p_term <= r.from_term)
     AND p_term <= @schema@._adopted_max(p_scope) THEN
    RETURN v_fence;  -- a term that a reset took back: an UPDATE of some other column must not bring it back
  END IF;
  RETURN (SELECT r.fence FROM @schema@._raise(p_scope, p_term, 'check', NULL) r);
END $$;

-- Notes what the triggers on the table show, nothing else; returns how many scopes' fences rose to what the table holds.
CREATE OR REPLACE FUNCTION @schema@._adopt_register(p_table regclass, p_scope_column name, p_term_column name) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET quote_all_identifiers = off AS $$
DECLARE
  v_function name := '_adopted_row_' || @schema@._short_hash(quote_ident(p_scope_column) || '.' || quote_ident(p_term_column));
  v_raised integer := 0;
  f @schema@.fences;
  v_highest bigint;
  v_scope text;
BEGIN
  PERFORM 1 FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE g.tgrelid = p_table AND g.tgname = 'termgate_adopted' AND n.nspname = @schema_lit@ AND p.proname = v_function;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'TG005 table % bears no trigger of adopt()', p_table USING ERRCODE = 'TG005';
  END IF;
  PERFORM @schema@._need_readable(p_table, p_scope_column, p_term_column);
  INSERT INTO @schema@.adopted AS a (table_oid, table_name, scope_column, term_column) VALUES (p_table, p_table::text, p_scope_column, p_term_column)
  ON CONFLICT (table_oid) DO UPDATE SET table_name = EXCLUDED.table_name, scope_column = EXCLUDED.scope_column, term_column = EXCLUDED.term_column;
  FOR v_scope, v_highest IN EXECUTE format(
      'SELECT t.%1$I::text, max(t.%2$I)::bigint FROM %3$s t WHERE t.%1$I IS NOT NULL AND t.%2$I IS NOT NULL GROUP BY t.%1$I ORDER BY t.%1$I::text COLLATE "C"',
      p_scope_column, p_term_column, p_table) LOOP
    PERFORM @schema@._need_scope(v_scope);
    PERFORM @schema@._need_term(v_highest);
    SELECT * INTO f FROM @schema@.fences t WHERE t.scope = v_scope;
    IF v_highest > coalesce(f.term, 0) AND @schema@._adopted_max(v_scope) > coalesce(f.term, 0) THEN
      -- Who adopts may raise what a writer may raise.
      IF coalesce(f.raise_by, @schema@._setting('default_raise_by')) = 'seal' THEN
        RAISE EXCEPTION 'TG005 table % holds term % for scope "%", above its fence (%), which only a seal may raise', p_table, v_highest, v_scope, coalesce(f.term, 0)
          USING ERRCODE = 'TG005', HINT = @schema@._how_to_raise(v_scope, v_highest) || ' Then adopt the table.';
      END IF;
      PERFORM @schema@._need_issued(v_scope, v_highest);
      PERFORM @schema@._audit_evictions(v_scope, v_highest, @schema@._exclude(v_scope, v_highest, NULL));
      v_highest := @schema@._evidence(v_scope);
      SELECT * INTO f FROM @schema@.fences t WHERE t.scope = v_scope;
      IF v_highest > coalesce(f.term, 0) THEN
        PERFORM @schema@._need_issued(v_scope, v_highest);
        PERFORM @schema@._set_fence(v_scope, v_highest, 'adopt', NULL, jsonb_build_object('table', p_table::text, 'previous', coalesce(f.term, 0)));
        v_raised := v_raised + 1;
      END IF;
    END IF;
  END LOOP;
  RETURN v_raised;
END $$;

CREATE OR REPLACE FUNCTION @schema@._adopt_unregister(p_table regclass) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = p_table AND g.tgname = 'termgate_adopted') THEN
    RAISE EXCEPTION 'TG005 table % still bears the trigger of adopt()', p_table USING ERRCODE = 'TG005';
  END IF;
  DELETE FROM @schema@.adopted a WHERE a.table_oid = p_table;
  RETURN FOUND;
END $$;

-- adopt(target, scope_column, term_column) → how many scopes' fences it raised.
CREATE OR REPLACE FUNCTION @schema@.adopt(target regclass, scope_column name, term_column name) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_function text;
  v_rel oid;
  v_owner name := @schema@._owner();
BEGIN
  PERFORM @schema@._need_own_table(target);
  PERFORM @schema@._need_column(target, scope_column, '{text,varchar,smallint,integer,bigint,uuid}');
  PERFORM @schema@._need_column(target, term_column, '{smallint,integer,bigint}');
  EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', target);
  IF current_user <> v_owner AND NOT (has_column_privilege(v_owner, target, scope_column, 'SELECT') AND has_column_privilege(v_owner, target, term_column, 'SELECT')) THEN
    EXECUTE format('GRANT SELECT (%I, %I) ON %s TO %I', scope_column, term_column, target, v_owner);
  END IF;
  IF NOT has_schema_privilege(v_owner, (SELECT c.relnamespace FROM pg_class c WHERE c.oid = target), 'USAGE') THEN
    RAISE EXCEPTION 'TG005 role % cannot read table %', v_owner, target USING ERRCODE = 'TG005',
      HINT = format('GRANT USAGE ON SCHEMA %I TO %I;', (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target), v_owner);
  END IF;
  PERFORM @schema@._need_readable(target, scope_column, term_column);
  FOR v_rel IN SELECT t FROM @schema@._tree(target) t LOOP
    IF NOT EXISTS (
        SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
         WHERE i.indrelid = v_rel AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND m.amname = 'btree' AND i.indnkeyatts >= 2
           AND i.indkey[0] = (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = v_rel AND a.attname = scope_column)
           AND i.indkey[1] = (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = v_rel AND a.attname = term_column)) THEN
      RAISE EXCEPTION 'TG005 table % needs an index on (%, %), or every first check of a scope reads all of it', v_rel::regclass, scope_column, term_column
        USING ERRCODE = 'TG005', HINT = format('CREATE INDEX ON %s (%I, %I);', v_rel::regclass, scope_column, term_column);
    END IF;
  END LOOP;
  v_function := @schema@._adopt_function(scope_column, term_column);
  FOR v_rel IN SELECT t FROM @schema@._tree(target) t JOIN pg_class c ON c.oid = t WHERE t = target OR NOT c.relispartition LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS termgate_adopted ON %s', v_rel::regclass);
    EXECUTE format('CREATE TRIGGER termgate_adopted AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION @schema@.%I()', v_rel::regclass, v_function);
  END LOOP;
  RETURN @schema@._adopt_register(target, scope_column, term_column);
END $$;

-- unadopt(target) → whether it was adopted. Fences stay where they are.
CREATE OR REPLACE FUNCTION @schema@.unadopt(target regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_rel oid;
BEGIN
  PERFORM @schema@._need_own_table(target);
  FOR v_rel IN SELECT g.tgrelid FROM pg_trigger g WHERE g.tgname = 'termgate_adopted' AND g.tgparentid = 0 AND g.tgrelid IN (SELECT @schema@._tree(target)) LOOP
    EXECUTE format('DROP TRIGGER termgate_adopted ON %s', v_rel::regclass);
  END LOOP;
  RETURN @schema@._adopt_unregister(target);
END $$;
