-- Owners' own tables as evidence: MAX(term) over them counts wherever a fence row is missing or in doubt, and a row with a higher term raises the
-- fence in its own transaction. Locks: a raise's, for each scope whose fence must rise. Keeps F2, F3.

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
