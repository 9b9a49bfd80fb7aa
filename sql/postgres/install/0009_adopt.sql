-- Owners' own tables as evidence: MAX(term) over them counts wherever a fence row is missing or in doubt, and a row with a higher term raises the
-- fence in its own transaction. Locks: a raise's, for each scope whose fence must rise; adopt() itself SHARE ROW EXCLUSIVE on the table, so that no row
-- slips in between. adopt and unadopt run as their caller, who must own the table; the definer's helpers believe only what the
-- catalogs show. Keeps F2, F3.

-- The highest term of the scope in adopted tables, those a reset took back left out. Row security is off, so that hidden rows are an error, not a low maximum.
CREATE OR REPLACE FUNCTION @schema@._adopted_max(p_scope text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  a @schema@.adopted;
  v_max bigint;
  v_all bigint := 0;
  v_below bigint;
  v_sql text;
BEGIN
  FOR a IN SELECT t.* FROM @schema@.adopted t JOIN pg_class c ON c.oid = t.table_oid LOOP
    v_sql := format('SELECT max(t.%I)::bigint FROM %s t WHERE t.%I = %s AND t.%I <= $2', a.term_column, a.table_oid::regclass, a.scope_column,
                    @schema@._scope_literal(a.table_oid, a.scope_column, p_scope), a.term_column);
    CONTINUE WHEN v_sql IS NULL;  -- this scope cannot be a value of that column
    v_below := 9223372036854775807;
    LOOP
      EXECUTE v_sql INTO v_max USING p_scope, v_below;
      SELECT min(r.to_term) INTO v_below FROM @schema@.resets r
       WHERE r.scope = p_scope AND v_max > r.to_term AND v_max <= r.from_term;
      EXIT WHEN v_below IS NULL;
    END LOOP;
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
  IF v_type IN ('text'::regtype, 'varchar'::regtype) THEN
    RETURN quote_literal(p_scope) || '::' || v_type::regtype;
  END IF;
  EXECUTE format('SELECT %L::%s::text', p_scope, v_type::regtype) INTO v_text;
  -- Only the canonical spelling is this scope: '07' and '7' are two scopes.
  RETURN CASE WHEN v_text = p_scope COLLATE "C" THEN quote_literal(p_scope) || '::' || v_type::regtype END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

-- Who owns these functions, and so whose rights the law has.
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

-- TG005 or 42501 unless the caller may lay down the law for this table.
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

-- Makes, once for every pair of column names, the trigger function that reports a row's term; plpgsql compiles it anew for each table.
CREATE OR REPLACE FUNCTION @schema@._adopt_function(p_scope_column name, p_term_column name) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_name text := '_adopted_row_' || @schema@._short_hash(quote_ident(p_scope_column) || '.' || quote_ident(p_term_column));
BEGIN
  IF NOT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = @schema_lit@ AND p.proname = v_name) THEN
    EXECUTE format('CREATE FUNCTION @schema@.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L', v_name,
      format('DECLARE v_fence bigint; BEGIN v_fence := @schema@._adopted_row(TG_RELID, NEW.%I::text, NEW.%I::bigint); RETURN NULL; END', p_scope_column, p_term_column));
    EXECUTE format('GRANT EXECUTE ON FUNCTION @schema@.%I() TO PUBLIC', v_name);
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
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  v_function name := '_adopted_row_' || @schema@._short_hash(quote_ident(p_scope_column) || '.' || quote_ident(p_term_column));
  v_raised integer := 0;
  v_fence bigint;
  v_highest bigint;
  v_scope text;
BEGIN
  PERFORM 1 FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE g.tgrelid = p_table AND g.tgname = 'termgate_adopted' AND n.nspname = @schema_lit@ AND p.proname = v_function;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'TG005 table % bears no trigger of adopt()', p_table USING ERRCODE = 'TG005';
  END IF;
  INSERT INTO @schema@.adopted AS a (table_oid, table_name, scope_column, term_column) VALUES (p_table, p_table::text, p_scope_column, p_term_column)
  ON CONFLICT (table_oid) DO UPDATE SET table_name = EXCLUDED.table_name, scope_column = EXCLUDED.scope_column, term_column = EXCLUDED.term_column;
  FOR v_scope, v_highest IN EXECUTE format(
      'SELECT t.%1$I::text, max(t.%2$I)::bigint FROM %3$s t WHERE t.%1$I IS NOT NULL AND t.%2$I IS NOT NULL GROUP BY t.%1$I ORDER BY t.%1$I::text COLLATE "C"',
      p_scope_column, p_term_column, p_table) LOOP
    PERFORM @schema@._need_scope(v_scope);
    PERFORM @schema@._need_term(v_highest);
    SELECT f.term INTO v_fence FROM @schema@.fences f WHERE f.scope = v_scope;
    IF v_highest > coalesce(v_fence, 0) AND @schema@._adopted_max(v_scope) > coalesce(v_fence, 0) THEN
      PERFORM @schema@._exclude(v_scope, v_highest, NULL);
      v_highest := @schema@._evidence(v_scope);
      IF v_highest > coalesce(v_fence, 0) THEN
        PERFORM @schema@._set_fence(v_scope, v_highest, 'adopt', NULL, jsonb_build_object('table', p_table::text, 'previous', coalesce(v_fence, 0)));
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
  FOR v_rel IN SELECT t FROM @schema@._tree(target) t LOOP
    IF NOT EXISTS (
        SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
         WHERE i.indrelid = v_rel AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree' AND i.indnkeyatts >= 2
           AND i.indkey[0] = (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = v_rel AND a.attname = scope_column)
           AND i.indkey[1] = (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = v_rel AND a.attname = term_column)) THEN
      RAISE EXCEPTION 'TG005 table % needs an index on (%, %), or every first check of a scope reads all of it', v_rel::regclass, scope_column, term_column
        USING ERRCODE = 'TG005', HINT = format('CREATE INDEX ON %s (%I, %I);', v_rel::regclass, scope_column, term_column);
    END IF;
  END LOOP;
  IF current_user <> v_owner AND NOT (has_column_privilege(v_owner, target, scope_column, 'SELECT') AND has_column_privilege(v_owner, target, term_column, 'SELECT')) THEN
    EXECUTE format('GRANT SELECT (%I, %I) ON %s TO %I', scope_column, term_column, target, v_owner);
  END IF;
  IF NOT has_schema_privilege(v_owner, (SELECT c.relnamespace FROM pg_class c WHERE c.oid = target), 'USAGE') THEN
    RAISE EXCEPTION 'TG005 role % cannot read table %', v_owner, target USING ERRCODE = 'TG005',
      HINT = format('GRANT USAGE ON SCHEMA %I TO %I;', (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target), v_owner);
  END IF;
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
