-- Owners' own tables as evidence. adopt() reads the table once, as its caller, who must own it and have level operate, and raises the
-- fences to the terms in it. From then on a trigger reports the term of each new or changed row. A term above the fence raises it in the
-- row's own transaction, and is kept in adopted_terms.
-- Layer 1 itself never reads an owner's table. So no owner's code runs as the owner of layer 1, no scope stops because a table was changed,
-- locked or dropped, and the number of such tables costs nothing. Locks: a raise's, for each scope whose fence must rise; adopt() takes
-- SHARE ROW EXCLUSIVE on the table, so that it misses no row. Keeps F2, F3.

-- Up to version 19 the owner of layer 1 read adopted tables.
DROP FUNCTION IF EXISTS @schema@._unreadable(oid, name, name), @schema@._need_readable(oid, name, name), @schema@._adopted_max(text), @schema@._scope_literal(oid, name, text),
  @schema@._evidence_for(text), @schema@._adopt_register(regclass, name, name), @schema@.adopt(regclass, name, name), @schema@._owner();

-- For the row triggers of protect() and adopt(), which cast a column only if its type is one that a scope or term may have: a cast from any
-- other type may run somebody else's code.
CREATE OR REPLACE FUNCTION @schema@._wrong_type(p_table oid, p_column name, p_type regtype) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'TG005 column "%" of table % is of type % now, which no scope or term can be', p_column, p_table::regclass, p_type
    USING ERRCODE = 'TG005', TABLE = p_table::regclass::text, HINT = 'Its owner gives it back its type, or runs unprotect() or unadopt().';
END $$;

-- The relation and all that inherit from it, partitions included.
CREATE OR REPLACE FUNCTION @schema@._tree(p_root oid) RETURNS SETOF oid LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE tree(oid) AS (SELECT p_root UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid)
  SELECT oid FROM tree
$$;

-- The type of a column. TG005 if there is no such column, or if it is virtual or of none of p_types.
CREATE OR REPLACE FUNCTION @schema@._need_column(p_table regclass, p_column name, p_types regtype[]) RETURNS regtype
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_type regtype;
  v_virtual boolean;
BEGIN
  SELECT a.atttypid, a.attgenerated = 'v' INTO v_type, v_virtual FROM pg_attribute a WHERE a.attrelid = p_table AND a.attname = p_column AND a.attnum > 0 AND NOT a.attisdropped;
  IF v_type IS NULL THEN
    RAISE EXCEPTION 'TG005 table % has no column "%"', p_table, p_column USING ERRCODE = 'TG005';
  ELSIF v_virtual THEN
    RAISE EXCEPTION 'TG005 column "%" of table % is a virtual generated column: triggers see NULL there', p_column, p_table
      USING ERRCODE = 'TG005', HINT = 'Make it GENERATED ALWAYS AS (...) STORED.';
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

-- A part of the name of what is created once for each column name. Not md5, which some servers forbid.
CREATE OR REPLACE FUNCTION @schema@._short_hash(p_text text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT substr(encode(sha256(convert_to(p_text, 'UTF8')), 'hex'), 1, 32) $$;

-- TG005 unless p_prefix may be put in front of a column's value to make a scope: a uuid must fit after it.
CREATE OR REPLACE FUNCTION @schema@._need_prefix(p_prefix text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_prefix IS NULL OR char_length(p_prefix) > 150 THEN
    RAISE EXCEPTION 'TG005 the prefix of a scope is %: at most 150 characters are allowed', coalesce(char_length(p_prefix) || ' characters long', 'NULL') USING ERRCODE = 'TG005';
  END IF;
END $$;

-- Whether a catalog row that this session sees was written by its own transaction, which alone sees it until it commits.
CREATE OR REPLACE FUNCTION @schema@._written_here(p_xmin xid) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_here bigint := pg_current_xact_id_if_assigned()::text::bigint;
  v_xmin bigint := (v_here & ~4294967295::bigint) | p_xmin::text::bigint;  -- a savepoint has an id of its own, of the same 2^32
BEGIN
  RETURN coalesce(v_xmin >= v_here AND pg_xact_status(v_xmin::text::xid8) = 'in progress', false);
EXCEPTION WHEN invalid_parameter_value THEN
  RETURN false;  -- an id in the future
END $$;

-- 42501 unless this transaction has created that trigger of ours on the table, which takes the owner or a role with TRIGGER on it. For the
-- helpers that run as layer 1's owner, which anybody may call.
CREATE OR REPLACE FUNCTION @schema@._need_proof(p_table regclass, p_trigger name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
                  WHERE g.tgrelid = p_table AND g.tgname = p_trigger AND n.nspname = @schema_lit@ AND @schema@._written_here(g.xmin)) THEN
    RAISE EXCEPTION 'must be owner of table %', p_table USING ERRCODE = '42501', HINT = 'Only protect(), unprotect(), adopt() and unadopt() call this function.';
  END IF;
END $$;

-- For a caller that drops all our other triggers: creates termgate_proof for _need_proof(), or (p_begins false) drops it. Runs as the
-- caller, under ACCESS EXCLUSIVE, so nobody else ever sees the trigger.
CREATE OR REPLACE FUNCTION @schema@._prove(p_table regclass, p_begins boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_begins THEN
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', p_table);
    EXECUTE format('CREATE TRIGGER termgate_proof BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION @schema@._protect_attached()', p_table);
  ELSE
    EXECUTE format('DROP TRIGGER termgate_proof ON %s', p_table);
  END IF;
END $$;

-- The lock under which trigger functions are created: two CREATE FUNCTION of one name do not wait for each other, and the second fails.
-- Held to the end of the transaction.
CREATE OR REPLACE FUNCTION @schema@._take_turns() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_user text := current_setting('lock_timeout');
BEGIN
  PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
  LOCK TABLE @schema@.settings IN SHARE UPDATE EXCLUSIVE MODE;
  PERFORM set_config('lock_timeout', v_user, true);
EXCEPTION WHEN lock_not_available THEN
  RAISE EXCEPTION 'TG006 blocked by a transaction that has called protect() or adopt() with a new column name and is still open: %',
    coalesce((SELECT string_agg(format('pid %s (user %s, application "%s")', s.pid, s.usename, s.application_name), ', ')
                FROM pg_locks l JOIN pg_stat_activity s ON s.pid = l.pid
               WHERE l.locktype = 'relation' AND l.relation = format('%I.settings', @schema_lit@)::regclass AND l.granted AND l.mode = 'ShareUpdateExclusiveLock'), 'it has just ended')
    USING ERRCODE = 'TG006', DETAIL = format('check_wait is %s ms', @schema@._setting('check_wait_ms')), HINT = 'Nothing was changed: try again when it has ended.';
END $$;

-- Revokes every grant on a trigger function that was just created: PostgreSQL or ALTER DEFAULT PRIVILEGES has given some.
CREATE OR REPLACE FUNCTION @schema@._close_function(p_name name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r record;
BEGIN
  FOR r IN SELECT p.oid::regprocedure AS target, CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END AS role
             FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
            WHERE n.nspname = @schema_lit@ AND p.proname = p_name AND x.grantee <> p.proowner LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %s', r.target, r.role);
  END LOOP;
END $$;

-- The name of the trigger function for a pair of column names.
CREATE OR REPLACE FUNCTION @schema@._adopted_function(p_scope_column name, p_term_column name) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS
$$ SELECT '_adopted_row_' || @schema@._short_hash(quote_ident(p_scope_column) || '.' || quote_ident(p_term_column)) $$;

-- Creates the trigger function that reports a row's term, for a pair of column names; plpgsql compiles it again for each table. Its
-- argument is the prefix of the scope. A row reports if it is new or if its scope or term changes: an UPDATE of other columns must not
-- bring back a term that a reset has taken away.
CREATE OR REPLACE FUNCTION @schema@._make_adopted_row(p_scope_column name, p_term_column name) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  v_name text := @schema@._adopted_function(p_scope_column, p_term_column);
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION @schema@.%I() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L', v_name,
    format($body$
BEGIN
  IF pg_typeof(NEW.%1$I) <> ALL ('{text,varchar,smallint,integer,bigint,uuid}'::regtype[]) THEN
    PERFORM @schema@._wrong_type(TG_RELID, %3$L, pg_typeof(NEW.%1$I));
  END IF;
  IF pg_typeof(NEW.%2$I) <> ALL ('{smallint,integer,bigint}'::regtype[]) THEN
    PERFORM @schema@._wrong_type(TG_RELID, %4$L, pg_typeof(NEW.%2$I));
  END IF;
  IF TG_OP = 'UPDATE' THEN
    IF OLD.%2$I IS NOT DISTINCT FROM NEW.%2$I AND OLD.%1$I::text COLLATE pg_catalog."C" IS NOT DISTINCT FROM NEW.%1$I::text COLLATE pg_catalog."C" THEN
      RETURN NULL;
    END IF;
  END IF;
  IF NEW.%2$I > 0 AND NEW.%1$I IS NOT NULL THEN
    PERFORM @schema@._adopted_row(TG_RELID, %3$L, %4$L, coalesce(TG_ARGV[0], ''), NEW.%1$I::text COLLATE pg_catalog."C", NEW.%2$I::bigint);
  END IF;
  RETURN NULL;
END $body$, p_scope_column, p_term_column, p_scope_column, p_term_column));
  PERFORM @schema@._close_function(v_name);
  -- A role that creates or attaches a partition creates the trigger there, and needs no level for that: _adopted_row tests whether the
  -- table is adopted.
  EXECUTE format('GRANT EXECUTE ON FUNCTION @schema@.%I() TO PUBLIC', v_name);
  RETURN v_name;
END $$;

-- Calls _make_adopted_row() once for each pair of column names; returns the function's name.
CREATE OR REPLACE FUNCTION @schema@._adopt_function(p_scope_column name, p_term_column name) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  v_name text := @schema@._adopted_function(p_scope_column, p_term_column);
BEGIN
  IF to_regprocedure(format('%I.%I()', @schema_lit@, v_name)) IS NULL THEN
    PERFORM @schema@._take_turns();
    IF to_regprocedure(format('%I.%I()', @schema_lit@, v_name)) IS NULL THEN
      PERFORM @schema@._make_adopted_row(p_scope_column, p_term_column);
    END IF;
  END IF;
  RETURN v_name;
END $$;

-- Keeps the term that an adopted table has reported. Called under the exclusive lock of the scope.
CREATE OR REPLACE FUNCTION @schema@._keep_adopted(p_scope text, p_term bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO @schema@.adopted_terms AS a (scope, term) VALUES (p_scope, p_term) ON CONFLICT (scope) DO UPDATE SET term = EXCLUDED.term WHERE a.term < EXCLUDED.term;
END $$;

-- Handles a row of an adopted table: a higher term raises the fence, in the row's own transaction. Anybody may put this trigger on a table
-- of their own, but only an adopted table raises anything.
DROP FUNCTION IF EXISTS @schema@._adopted_row(oid, text, bigint), @schema@._adopted_row(text, bigint);  -- as it was up to version 19, and before it knew the table
CREATE OR REPLACE FUNCTION @schema@._adopted_row(p_table oid, p_scope_column name, p_term_column name, p_prefix text, p_value text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_scope text COLLATE pg_catalog."C" := p_prefix || p_value;
BEGIN
  IF EXISTS (SELECT FROM @schema@.fences f WHERE f.scope = v_scope AND f.term >= p_term) THEN
    RETURN;
  END IF;
  -- The table itself, or one above it. pg_partition_ancestors() sees what is attached now, whatever the snapshot shows.
  IF NOT EXISTS (
    WITH RECURSIVE above(oid) AS (SELECT p_table UNION SELECT i.inhparent FROM pg_inherits i JOIN above b ON i.inhrelid = b.oid)
    SELECT FROM @schema@.adopted a
     WHERE a.table_oid IN (SELECT b.oid FROM above b UNION SELECT p.relid::oid FROM pg_partition_ancestors(p_table) p)
       AND a.scope_column = p_scope_column AND a.term_column = p_term_column AND a.scope_prefix = p_prefix) THEN
    RAISE EXCEPTION 'TG005 table % bears the trigger of adopt() but is not adopted: a row with term % would raise scope "%"', p_table::regclass, p_term, v_scope
      USING ERRCODE = 'TG005', DETAIL = 'It was restored or copied since, or its columns were adopted under other names.', HINT = 'An operator runs adopt() again, on the whole table.';
  END IF;
  PERFORM @schema@._need_scope(v_scope);
  PERFORM @schema@._need_term(p_term);
  PERFORM @schema@._raise(v_scope, p_term, 'check', NULL);
  PERFORM @schema@._keep_adopted(v_scope, p_term);
END $$;

-- For adopt(): records the table, and raises the fences to the terms that its caller has read there, scope by scope; returns how many rose.
-- A scope without a fence gets one at once: nobody has passed its check, so there is nobody to wait for, and a table may have 10^5 such
-- scopes. A session that raises such a scope meanwhile waits for this transaction, for check_wait at most (_set_fence).
CREATE OR REPLACE FUNCTION @schema@._adopt_register(p_table regclass, p_scope_column name, p_term_column name, p_prefix text, p_scopes text[], p_terms bigint[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_raised integer;
  v_user text := current_setting('lock_timeout');
  v_raise_by text := @schema@._setting('default_raise_by');
  v_generation bigint := (SELECT i.generation FROM @schema@.incarnation i);
  v_fences oid := format('%I.fences', @schema_lit@)::regclass;
  h record;
BEGIN
  PERFORM @schema@._need_proof(p_table, 'termgate_adopted');
  INSERT INTO @schema@.adopted AS a (table_oid, table_name, scope_column, term_column, scope_prefix) VALUES (p_table, p_table::text, p_scope_column, p_term_column, p_prefix)
  ON CONFLICT (table_oid) DO UPDATE SET table_name = EXCLUDED.table_name, scope_column = EXCLUDED.scope_column, term_column = EXCLUDED.term_column,
     scope_prefix = EXCLUDED.scope_prefix, adopted_at = clock_timestamp(), adopted_by = session_user;
  PERFORM @schema@._need_scope(q.scope), @schema@._need_term(q.term) FROM unnest(p_scopes, p_terms) AS q(scope, term)
    WHERE q.scope IS NULL OR q.term IS NULL OR char_length(q.scope) NOT BETWEEN 1 AND 200 OR q.term NOT BETWEEN 1 AND 4611686018427387904;
  IF p_scopes <> '{}' THEN
    PERFORM @schema@._need_trusted(p_scopes[1], v_generation);
  END IF;
  PERFORM @schema@._need_issued(q.scope, q.term) FROM unnest(p_scopes, p_terms) AS q(scope, term) JOIN @schema@.leases l ON l.scope = q.scope;
  BEGIN
    PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
    WITH made AS (
      INSERT INTO @schema@.fences (scope, term, raised_xid, raise_by, generation, vouched)
      SELECT q.scope, q.term, pg_current_xact_id(), v_raise_by, v_generation, v_fences
        FROM unnest(p_scopes, p_terms) AS q(scope, term)
       -- Terms that a reset has taken back are no evidence.
       WHERE NOT EXISTS (SELECT FROM @schema@.resets r WHERE r.scope = q.scope AND q.term > r.to_term AND q.term <= r.from_term)
       ORDER BY q.scope
      ON CONFLICT DO NOTHING RETURNING scope, term
    ), noted AS (
      INSERT INTO @schema@.audit (actor, client, action, scope, detail)
      SELECT session_user, nullif(current_setting('application_name'), ''), 'adopt', m.scope, jsonb_build_object('term', m.term, 'table', p_table::text) FROM made m
    ), kept AS (
      INSERT INTO @schema@.adopted_terms AS a (scope, term) SELECT m.scope, m.term FROM made m ON CONFLICT (scope) DO UPDATE SET term = greatest(a.term, EXCLUDED.term)
    )
    SELECT count(*) INTO v_raised FROM made;
    PERFORM set_config('lock_timeout', v_user, true);
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'TG006 table % cannot be adopted: another transaction is making a fence for one of its scopes', p_table
      USING ERRCODE = 'TG006', HINT = 'Nothing was changed: try again when it has ended.';
  END;
  FOR h IN SELECT q.scope, q.term FROM unnest(p_scopes, p_terms) AS q(scope, term) JOIN @schema@.fences f ON f.scope = q.scope
            WHERE f.term < q.term AND NOT EXISTS (SELECT FROM @schema@.resets r WHERE r.scope = q.scope AND q.term > r.to_term AND q.term <= r.from_term) ORDER BY q.scope LOOP
    PERFORM @schema@._raise(h.scope, h.term, 'seal', NULL, NULL, format('adopted table %s', p_table));
    PERFORM @schema@._keep_adopted(h.scope, h.term);
    v_raised := v_raised + 1;
  END LOOP;
  PERFORM @schema@._audit('adopt', NULL, NULL, jsonb_build_object('table', p_table::text, 'scope_column', p_scope_column, 'term_column', p_term_column, 'prefix', p_prefix, 'raised', v_raised));
  RETURN v_raised;
END $$;

DROP FUNCTION IF EXISTS @schema@._adopt_unregister(regclass);  -- as it was up to version 19
CREATE OR REPLACE FUNCTION @schema@._adopt_unregister(p_table regclass) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._need_proof(p_table, 'termgate_proof');
  DELETE FROM @schema@.adopted a WHERE a.table_oid = p_table;
  IF FOUND THEN
    PERFORM @schema@._audit('unadopt', NULL, NULL, jsonb_build_object('table', p_table::text));
  END IF;
  RETURN FOUND;
END $$;

-- adopt(target, scope_column, term_column, prefix) → how many fences it raised. The scope of a row is the prefix followed by the column's
-- value. Rows with NULL or a term below 1 are no evidence, for example a job that nobody has claimed yet.
CREATE OR REPLACE FUNCTION @schema@.adopt(target regclass, scope_column name, term_column name, prefix text DEFAULT '') RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
<<adopt>>
DECLARE
  scope_column name COLLATE pg_catalog."C" := scope_column;
  term_column name COLLATE pg_catalog."C" := term_column;
  prefix text COLLATE pg_catalog."C" := prefix;
  v_function text;
  v_rel oid;
  v_scopes text[];
  v_terms bigint[];
BEGIN
  PERFORM @schema@._need_own_table(target);
  PERFORM @schema@._need_prefix(prefix);
  EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', target);
  PERFORM @schema@._need_column(target, scope_column, '{text,varchar,smallint,integer,bigint,uuid}');
  PERFORM @schema@._need_column(target, term_column, '{smallint,integer,bigint}');
  v_function := @schema@._adopt_function(scope_column, term_column);
  FOR v_rel IN SELECT t FROM @schema@._tree(target) t JOIN pg_class c ON c.oid = t WHERE t = target OR NOT c.relispartition LOOP
    IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = v_rel AND g.tgname = 'termgate_adopted') THEN
      EXECUTE format('DROP TRIGGER termgate_adopted ON %s', v_rel::regclass);
    END IF;
    EXECUTE format('CREATE TRIGGER termgate_adopted AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION @schema@.%I(%L)', v_rel::regclass, v_function, prefix);
  END LOOP;
  EXECUTE format('SELECT coalesce(array_agg(q.scope), ''{}''), coalesce(array_agg(q.term), ''{}'') FROM (SELECT concat($1, t.%1$I::text) COLLATE pg_catalog."C" AS scope, max(t.%2$I)::bigint AS term '
                 'FROM %3$s t WHERE t.%1$I IS NOT NULL AND t.%2$I > 0 GROUP BY 1) q', scope_column, term_column, target) INTO v_scopes, v_terms USING prefix;
  RETURN @schema@._adopt_register(target, scope_column, term_column, prefix, v_scopes, v_terms);
END $$;

-- unadopt(target) → whether it was adopted. Fences stay where they are.
CREATE OR REPLACE FUNCTION @schema@.unadopt(target regclass) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_rel oid;
  v_was boolean;
BEGIN
  PERFORM @schema@._need_own_table(target);
  PERFORM @schema@._prove(target, true);
  FOR v_rel IN SELECT g.tgrelid FROM pg_trigger g WHERE g.tgname = 'termgate_adopted' AND g.tgparentid = 0 AND g.tgrelid IN (SELECT @schema@._tree(target)) LOOP
    EXECUTE format('DROP TRIGGER termgate_adopted ON %s', v_rel::regclass);
  END LOOP;
  v_was := @schema@._adopt_unregister(target);
  PERFORM @schema@._prove(target, false);
  RETURN v_was;
END $$;
