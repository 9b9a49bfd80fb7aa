-- protect(): triggers that refuse writes that have not passed the check. A table with one scope has statement triggers; its partitions and
-- children also check once for each statement, for rows that come by way of a parent. A table with a scope column has AFTER ROW triggers,
-- which see the final row.
-- Partitions and children have the triggers too; writes to one that was added later are refused. protect and unprotect run as their caller,
-- who must own the table; the helpers that run as layer 1's owner believe only what the catalogs show. Locks: the check's. Keeps F2, F6.

-- The term in a declaration. '' means that none is declared; any other text that is no term is TG005.
CREATE OR REPLACE FUNCTION @schema@._read_term(p_term text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_term IS NULL OR p_term = '' THEN
    RETURN NULL;
  ELSIF p_term !~ '^[0-9]{1,19}$' OR p_term::numeric NOT BETWEEN 1 AND 4611686018427387904 THEN
    RAISE EXCEPTION 'TG005 the declared termgate.term "%" is no term: a whole number from 1 to 4611686018427387904', left(p_term, 100) USING ERRCODE = 'TG005';
  END IF;
  RETURN p_term::bigint;
END $$;
CREATE OR REPLACE FUNCTION @schema@._declared_term() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN @schema@._read_term(current_setting('termgate.term', true));
END $$;

-- What this transaction claims: the term of its mark for the scope (sign: the mark's signature, still to be verified), or else the declared
-- term. A mark without a signature counts only while the transaction holds the shared lock of the scope; then sign is 'held'.
CREATE OR REPLACE FUNCTION @schema@._claim(p_scope text, OUT term bigint, OUT sign text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_passed text := current_setting('termgate.passed', true);
  v_token text;
  v_at integer;
  v_term text;
  v_declared text;
BEGIN
  IF v_passed <> '' THEN
    v_token := '|S' || @schema@._escape(p_scope) || '|';
    v_at := strpos(v_passed, v_token);
    IF v_at > 0 THEN
      v_passed := substr(v_passed, v_at + length(v_token), 90);
      v_term := split_part(v_passed, '|', 1);
      IF v_term ~ '^[0-9]{1,18}$|^[0-4][0-9]{18}$' THEN
        sign := @schema@._mark_sign(split_part(v_passed, '|', 2), p_scope);
        IF sign IS NOT NULL THEN
          term := v_term::bigint;
          RETURN;
        END IF;
      END IF;
    END IF;
  END IF;
  v_declared := @schema@._declared_scope();
  IF v_declared IS NOT NULL AND char_length(v_declared) > 200 THEN
    PERFORM @schema@._need_scope(v_declared, 'declared termgate.scope');
  END IF;
  IF v_declared = p_scope COLLATE pg_catalog."C" THEN
    term := @schema@._declared_term();
  END IF;
END $$;
-- The signature of a mark: 'held' if it needs none, NULL if it needs one and has none.
CREATE OR REPLACE FUNCTION @schema@._mark_sign(p_sign text, p_scope text) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN length(p_sign) = 64 THEN p_sign WHEN p_sign = '' AND @schema@._holds(@schema@._queue_key(p_scope), 'ShareLock') THEN 'held' END
$$;

-- What the session has declared, for messages: 'nothing is declared' and so on.
CREATE OR REPLACE FUNCTION @schema@._what_is_declared() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_scope text := nullif(current_setting('termgate.scope', true), '');
  v_term text := nullif(current_setting('termgate.term', true), '');
BEGIN
  RETURN CASE WHEN v_scope IS NULL AND v_term IS NULL THEN 'nothing is declared'
              WHEN v_term IS NULL THEN format('scope "%s" is declared without a term', left(v_scope, 200))
              WHEN v_scope IS NULL THEN format('term %s is declared without a scope', left(v_term, 100))
              ELSE format('term %s is declared for scope "%s"', left(v_term, 100), left(v_scope, 200)) END;
END $$;

-- TG002: what was found and what is needed, with the names filled in. The hint says N for the term, which only the leader knows.
CREATE OR REPLACE FUNCTION @schema@._no_term(p_table oid, p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_scope text := CASE WHEN p_scope = '*' THEN coalesce(nullif(current_setting('termgate.scope', true), ''), 'your scope') ELSE p_scope END;
  v_hint text := format('BEGIN; SET LOCAL termgate.scope = %L; SET LOCAL termgate.term = ''N''; then the write, then COMMIT. N is the term that your leader won. '
                        'Or SELECT @schema@.check_term(%L, N) in that transaction. Outside a transaction block SET LOCAL and set_config(..., true) end with their own statement.',
                        v_scope, v_scope);
BEGIN
  PERFORM @schema@._count_refusal('TG002');
  IF p_scope = '*' THEN
    RAISE EXCEPTION 'TG002 no scope and term declared: table % is protected for any scope that the transaction has passed; %', p_table::regclass, @schema@._what_is_declared()
      USING ERRCODE = 'TG002', TABLE = p_table::regclass::text, HINT = v_hint;
  END IF;
  RAISE EXCEPTION 'TG002 no term declared for scope "%": table % is protected; %', p_scope, p_table::regclass, @schema@._what_is_declared()
    USING ERRCODE = 'TG002', TABLE = p_table::regclass::text, HINT = v_hint;
END $$;

-- 40001: the statement's own snapshot is older than the raise to the term that it writes under, so it may have read what the previous
-- leader has changed since. Running the transaction again is enough.
CREATE OR REPLACE FUNCTION @schema@._began_too_early(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'could not serialize access: this statement began before scope "%" was raised to term %', p_scope, p_term
    USING ERRCODE = '40001', HINT = 'Run the transaction again: it may have read what has changed since.';
END $$;

-- 40001 if that snapshot is older than the raise: the test at the end of _guard(), for callers that have not read the fence's row.
CREATE OR REPLACE FUNCTION @schema@._need_younger(p_scope text, p_term bigint, p_snapshot pg_snapshot) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM 1 FROM @schema@.fences f
    WHERE f.scope = p_scope AND NOT pg_visible_in_snapshot(f.raised_xid, p_snapshot) AND f.raised_xid < pg_snapshot_xmax(pg_current_snapshot())
      AND f.raised_xid IS DISTINCT FROM pg_current_xact_id_if_assigned();
  IF FOUND THEN
    PERFORM @schema@._began_too_early(p_scope, p_term);
  END IF;
END $$;

-- Whether the session remembers that the table is covered (_cover). _pass inlines this and the other SQL functions that it calls, which
-- PostgreSQL does only if an argument that the body uses twice is a plain variable; otherwise it would parse and plan the body in every
-- transaction.
CREATE OR REPLACE FUNCTION @schema@._covers(p_table oid) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce(pg_catalog.strpos(pg_catalog.current_setting('termgate.covered', true), '|' OPERATOR(pg_catalog.||) p_table::pg_catalog.text OPERATOR(pg_catalog.||) '|') OPERATOR(pg_catalog.>) 0, false)
$$;
-- The common case of what the triggers do: true if this session has a seat in the scope, or if it declares the fence's very term for it and
-- gets the lock at once. Otherwise _guard() decides. It runs for every row. So it has few expressions, at most two queries (of seats and of
-- fences), and no SET search_path: all names are qualified. A seat counts only at READ COMMITTED, because an older snapshot may show one
-- that was given up. It does not count if another term is declared for the scope, or in the transaction that takes it, which is judged by
-- its check.
CREATE OR REPLACE FUNCTION @schema@._pass(p_table oid, p_scope text, p_mode text, p_snapshot pg_snapshot) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_passed pg_catalog.text := coalesce(pg_catalog.current_setting('termgate.passed', true), '');
BEGIN
  -- coalesce: if this were NULL, the function after AND would be called all the same, and take the lock.
  IF coalesce(pg_catalog.current_setting('termgate.seat', true), '') OPERATOR(pg_catalog.=) 'on' AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed'
     AND @schema@._covers(p_table) THEN
    PERFORM FROM @schema@.seats s
      WHERE s.scope OPERATOR(pg_catalog.=) p_scope COLLATE pg_catalog."C" AND s.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()
        AND @schema@._is_this_session(s.session)
        AND coalesce(s.xmin OPERATOR(pg_catalog.<>) pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.xid, true)
        AND (coalesce(pg_catalog.current_setting('termgate.scope', true), '') COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) p_scope COLLATE pg_catalog."C"
             OR coalesce(pg_catalog.current_setting('termgate.term', true), '') OPERATOR(pg_catalog.=) ANY (ARRAY['', s.term::pg_catalog.text]));
    IF FOUND THEN
      RETURN true;
    END IF;
  END IF;
  IF p_mode OPERATOR(pg_catalog.=) 'enforce' AND coalesce(pg_catalog.current_setting('termgate.scope', true), '') COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) p_scope COLLATE pg_catalog."C"
     AND @schema@._knows(p_scope, pg_catalog.current_setting('termgate.term', true)) AND @schema@._covers(p_table)
     AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' AND pg_catalog.octet_length(v_passed) OPERATOR(pg_catalog.<=) 1000
     AND @schema@._try_share(p_scope) THEN
    -- A new statement, which has a new snapshot.
    PERFORM FROM @schema@.fences f
      WHERE f.scope OPERATOR(pg_catalog.=) p_scope COLLATE pg_catalog."C" AND f.term OPERATOR(pg_catalog.=) pg_catalog.current_setting('termgate.term', true)::pg_catalog.int8
        AND f.vouched OPERATOR(pg_catalog.=) f.tableoid AND coalesce(pg_catalog.pg_visible_in_snapshot(f.raised_xid, p_snapshot), true);
    IF NOT FOUND THEN
      RETURN false;
    ELSIF pg_catalog.strpos(v_passed, '|S' OPERATOR(pg_catalog.||) @schema@._escape(p_scope) OPERATOR(pg_catalog.||) '|') OPERATOR(pg_catalog.=) 0 THEN
      -- A mark without a signature. It is needed only if something else is declared later in the transaction (_claim).
      v_passed := pg_catalog.set_config('termgate.passed', v_passed OPERATOR(pg_catalog.||) '|S' OPERATOR(pg_catalog.||) @schema@._escape(p_scope) OPERATOR(pg_catalog.||) '|'
                                          OPERATOR(pg_catalog.||) pg_catalog.current_setting('termgate.term', true) OPERATOR(pg_catalog.||) '|', true);
    END IF;
    RETURN true;
  END IF;
  RETURN false;
END $$;

-- Checks one scope of a write to a protected table, with the term passed or declared. It raises no fence. p_snapshot belongs to the
-- statement that writes. Only the trigger function itself can see that: a VOLATILE function such as this one gets a new snapshot with every
-- statement.
DROP FUNCTION IF EXISTS @schema@._guard(oid, text, text);  -- as it was up to version 13
CREATE OR REPLACE FUNCTION @schema@._guard(p_table oid, p_scope text, p_mode text, p_snapshot pg_snapshot) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c record;
  v_term bigint;
  v_fence bigint;
  v_key uuid;
  v_generation bigint;
  v_sure boolean;
  v_raised xid8;
  v_library bigint;
BEGIN
  IF @schema@._pass(p_table, p_scope, p_mode, p_snapshot) THEN
    RETURN;
  END IF;
  -- The library (guard/) remembers what this transaction has passed, and leaves no mark. guard_has_passed(): the lock is held, and the
  -- raise was compared with a writing statement's snapshot. A pass that only guard_last_pass() knows is locked and compared again below.
  IF p_scope IS NOT NULL AND current_setting('termgate.guard_checks', true) = @schema_lit@ THEN
    IF @schema@.guard_has_passed(p_scope) THEN
      RETURN;
    END IF;
    v_library := (SELECT l.term FROM @schema@.guard_last_pass(p_scope) l);
  END IF;
  IF p_mode = 'observe' THEN
    IF v_library IS NULL THEN
      PERFORM @schema@._observe(p_table, p_scope);
    END IF;
    RETURN;
  END IF;
  IF p_scope IS NULL THEN
    RAISE EXCEPTION 'TG005 a row of table % has NULL for its scope', p_table::regclass USING ERRCODE = 'TG005';
  END IF;
  IF v_library IS NOT NULL THEN
    SELECT v_library AS term, 'library' AS sign INTO c;
  ELSE
    c := @schema@._claim(p_scope);
  END IF;
  IF c.sign IS NULL THEN
    IF octet_length(current_setting('termgate.passed', true)) > 5000 THEN
      v_term := @schema@._pass_of(p_scope);
      IF v_term IS NOT NULL THEN
        PERFORM @schema@._need_younger(p_scope, v_term, p_snapshot);
        RETURN;  -- an escalated pass: its row lock is held as long as this row of `passes` is there
      END IF;
    END IF;
    IF c.term IS NULL THEN
      PERFORM @schema@._need_scope(p_scope);
      PERFORM @schema@._no_term(p_table, p_scope);
    ELSIF @schema@._many_scopes(p_scope) THEN
      PERFORM @schema@._check_escalated(p_scope, c.term);
      PERFORM @schema@._need_younger(p_scope, c.term, p_snapshot);
      RETURN;
    END IF;
  END IF;
  IF NOT @schema@._try_share(p_scope) THEN
    PERFORM @schema@._share(p_scope);
  END IF;
  IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
    SELECT f.term, (SELECT s.key FROM @schema@.pass_secret s), f.generation, f.raised_xid,
           f.vouched = f.tableoid AND f.generation >= i.trusted_since AND i.postmaster_start = pg_postmaster_start_time() AND i.fences_path = pg_relation_filepath(f.tableoid)
      INTO v_fence, v_key, v_generation, v_raised, v_sure
      FROM @schema@.fences f, @schema@.incarnation i WHERE f.scope = p_scope AND i.one;
  ELSE
    SELECT f.term, (SELECT s.key FROM @schema@.pass_secret s), f.generation, false INTO v_fence, v_key, v_generation, v_sure FROM @schema@._share_row(p_scope) f;
  END IF;
  IF v_library IS NULL AND c.sign <> 'held' AND c.sign <> @schema@._sign(p_scope, c.term, v_key) THEN
    -- Somebody has forged that mark. Only a declaration counts.
    v_term := CASE WHEN @schema@._declared_scope() = p_scope COLLATE pg_catalog."C" THEN @schema@._declared_term() END;
    IF v_term IS NULL THEN
      PERFORM @schema@._no_term(p_table, p_scope);
    END IF;
    c.term := v_term;
    c.sign := NULL;
  END IF;
  IF NOT coalesce(v_sure, false) THEN
    PERFORM @schema@._need_trusted(p_scope, v_generation);
  END IF;
  IF c.term < v_fence THEN
    PERFORM @schema@._stale(p_scope, c.term, v_fence);
  ELSIF c.term > coalesce(v_fence, 0) THEN
    RAISE EXCEPTION 'TG005 declared term % is above the fence of scope "%" (%): a trigger never raises it', c.term, p_scope, coalesce(v_fence, 0)
      USING ERRCODE = 'TG005', HINT = @schema@._how_to_raise(p_scope, c.term);
  END IF;
  -- No error if this transaction has raised the fence itself, or if the id is of another server (in a restored dump) and this one has not
  -- reached it.
  IF NOT pg_visible_in_snapshot(v_raised, p_snapshot) AND v_raised < pg_snapshot_xmax(pg_current_snapshot()) AND v_raised IS DISTINCT FROM pg_current_xact_id_if_assigned() THEN
    PERFORM @schema@._began_too_early(p_scope, c.term);
  END IF;
  IF c.sign IS NULL THEN
    PERFORM @schema@._mark(p_scope, c.term);
  END IF;
  PERFORM @schema@._remember(p_scope, c.term::text);
END $$;

-- For scope '*': any scope in which the session has a seat or that the transaction has passed, else the declared one.
DROP FUNCTION IF EXISTS @schema@._guard_any(oid, text);  -- as it was up to version 13
CREATE OR REPLACE FUNCTION @schema@._guard_any(p_table oid, p_mode text, p_snapshot pg_snapshot) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_parts text[] := string_to_array(nullif(current_setting('termgate.passed', true), ''), '|');
  v_scope text;
  v_key uuid;
  i integer := 2;
BEGIN
  IF current_setting('termgate.seat', true) = 'on' THEN
    FOR v_scope IN SELECT s.scope FROM @schema@.seats s WHERE s.pid = pg_backend_pid() LOOP
      IF @schema@._seated(v_scope, NULL) THEN
        RETURN;
      END IF;
    END LOOP;
  END IF;
  IF current_setting('termgate.guard_checks', true) = @schema_lit@ THEN
    IF @schema@.guard_has_passed(NULL) THEN
      RETURN;
    END IF;
    v_scope := (SELECT l.scope FROM @schema@.guard_last_pass(NULL) l);
    IF v_scope IS NOT NULL THEN
      PERFORM @schema@._guard(p_table, v_scope, p_mode, p_snapshot);
      RETURN;
    END IF;
  END IF;
  WHILE i + 2 <= cardinality(v_parts) LOOP
    v_scope := @schema@._unescape(substr(v_parts[i], 2));
    SELECT (SELECT s.key FROM @schema@.pass_secret s) INTO v_key FROM @schema@.fences f WHERE f.scope = v_scope;
    IF FOUND AND v_parts[i + 1] ~ '^[0-9]{1,18}$|^[0-4][0-9]{18}$' AND @schema@._mark_sign(v_parts[i + 2], v_scope) IN ('held', @schema@._sign(v_scope, v_parts[i + 1]::bigint, v_key)) THEN
      PERFORM @schema@._guard(p_table, v_scope, p_mode, p_snapshot);
      RETURN;
    END IF;
    i := i + 3;
  END LOOP;
  v_scope := @schema@._declared_scope();
  IF v_scope IS NOT NULL THEN
    PERFORM @schema@._guard(p_table, v_scope, p_mode, p_snapshot);
  ELSIF p_mode = 'observe' THEN
    PERFORM @schema@._observe(p_table, '*');
  ELSE
    PERFORM @schema@._no_term(p_table, '*');
  END IF;
END $$;

-- Records what would have been refused. No lock of the scope; at most one row for each transaction, table, scope and code, and about 100
-- rows in a transaction.
CREATE OR REPLACE FUNCTION @schema@._observe(p_table oid, p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c record;
  f @schema@.fences;
  v_code text;
  v_reason text;
  v_seen text := coalesce(current_setting('termgate.observed', true), '');
  v_token text;
BEGIN
  BEGIN
    SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope;
    c := @schema@._claim(p_scope);
    IF c.sign <> 'held' AND c.sign <> @schema@._sign(p_scope, c.term, (SELECT s.key FROM @schema@.pass_secret s)) THEN
      c.term := CASE WHEN @schema@._declared_scope() = p_scope COLLATE pg_catalog."C" THEN @schema@._declared_term() END;
    END IF;
    IF p_scope IS NULL THEN
      v_code := 'TG005'; v_reason := 'a row has NULL for its scope';
    ELSIF c.term IS NULL THEN
      v_code := 'TG002'; v_reason := 'no term declared';
    ELSIF @schema@._why_untrusted(f.generation) IS NOT NULL THEN
      v_code := 'TG004'; v_reason := 'fence untrusted';
    ELSIF c.term < f.term THEN
      v_code := 'TG001'; v_reason := format('stale term %s: the fence stands at %s', c.term, f.term);
    ELSIF c.term > coalesce(f.term, 0) THEN
      v_code := 'TG005'; v_reason := format('declared term %s is above the fence (%s)', c.term, coalesce(f.term, 0));
    END IF;
  EXCEPTION WHEN SQLSTATE 'TG005' THEN
    v_code := 'TG005'; v_reason := SQLERRM;
  END;
  v_token := '|' || @schema@._short_hash(concat_ws('/', p_table, v_code, p_scope));
  IF v_code IS NULL OR strpos(v_seen, v_token) > 0 OR length(v_seen) > 3300 THEN
    RETURN;
  END IF;
  PERFORM set_config('termgate.observed', v_seen || v_token, true);
  INSERT INTO @schema@.observed (table_oid, table_name, scope, code, reason, client)
  VALUES (p_table, p_table::regclass::text, p_scope, v_code, v_reason,
          nullif(concat_ws(' ', host(inet_client_addr()), nullif(current_setting('application_name'), '')), ''));
END $$;

CREATE OR REPLACE FUNCTION @schema@._not_registered(p_table oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'TG005 table % bears the triggers of protect() but is not covered by it', p_table::regclass
    USING ERRCODE = 'TG005', DETAIL = 'It was attached, inherited, copied or restored since.',
    HINT = 'Its owner runs protect() again, on the whole table.';
END $$;

-- _guard() for a row of a table that must be covered.
CREATE OR REPLACE FUNCTION @schema@._guard_covered(p_table oid, p_scope text, p_mode text, p_snapshot pg_snapshot) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._cover(p_table);
  PERFORM @schema@._guard(p_table, p_scope, p_mode, p_snapshot);
END $$;
-- TG005 unless the table is covered. It stays covered as long as it has the triggers, so the session remembers it (_covers).
CREATE OR REPLACE FUNCTION @schema@._cover(p_table oid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM @schema@.protected p WHERE p.table_oid = p_table) THEN
    PERFORM @schema@._not_registered(p_table);
  END IF;
  IF NOT @schema@._covers(p_table) THEN
    PERFORM set_config('termgate.covered', concat(CASE WHEN length(current_setting('termgate.covered', true)) < 1500 THEN current_setting('termgate.covered', true) END, '|', p_table, '|'), false);
  END IF;
END $$;

-- Arguments of all triggers: mode, scope column or '', scope or ''; a prefix is the fourth. The trigger functions are STABLE: such a
-- function runs under the snapshot of the statement that fired it, and can read that snapshot. The functions that they call are VOLATILE
-- and see what is committed by now.
-- For a statement that names the table: TG005 unless everything below it is covered; then the check, if the whole table has one scope.
CREATE OR REPLACE FUNCTION @schema@._protect_named(p_table oid, p_mode text, p_scope text, p_snapshot pg_snapshot) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_parent boolean;
BEGIN
  PERFORM @schema@._cover(p_table);
  SELECT c.relkind = 'r' AND c.relhassubclass INTO v_parent FROM pg_class c WHERE c.oid = p_table;
  IF v_parent THEN
    PERFORM @schema@._not_registered(t) FROM @schema@._tree(p_table) t WHERE NOT EXISTS (SELECT FROM @schema@.protected p WHERE p.table_oid = t);
  END IF;
  IF p_scope <> '' THEN
    PERFORM @schema@._guard_whole(p_table, p_mode, p_scope, p_snapshot);
  END IF;
END $$;
CREATE OR REPLACE FUNCTION @schema@._guard_whole(p_table oid, p_mode text, p_scope text, p_snapshot pg_snapshot) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_scope = '*' THEN
    PERFORM @schema@._guard_any(p_table, p_mode, p_snapshot);
  ELSE
    PERFORM @schema@._guard(p_table, p_scope, p_mode, p_snapshot);
  END IF;
END $$;
CREATE OR REPLACE FUNCTION @schema@._protect_statement() RETURNS trigger
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
  v_parent pg_catalog.bool := false;
BEGIN
  -- An INSERT puts no row into an inheritance child.
  IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' THEN
    SELECT c.relhassubclass AND c.relkind OPERATOR(pg_catalog.=) 'r' INTO v_parent FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) TG_RELID;
  END IF;
  -- With a scope column the row triggers check each row, and also that the table is covered.
  IF NOT v_parent AND (TG_ARGV[2] OPERATOR(pg_catalog.=) '' OR @schema@._pass(TG_RELID, TG_ARGV[2], TG_ARGV[0], pg_catalog.pg_current_snapshot())) THEN
    RETURN NULL;
  END IF;
  PERFORM @schema@._protect_named(TG_RELID, TG_ARGV[0], TG_ARGV[2], pg_catalog.pg_current_snapshot());
  RETURN NULL;
END $$;

-- A statement trigger fires for the table that a statement names. Rows that come by way of a parent (a partition's root, an inheritance
-- parent, a move from another partition) do not fire the statement trigger of their own table. So if a partition or child has one scope,
-- the WHEN of its row trigger runs the check.
-- The function is declared IMMUTABLE, which it is not, so that PostgreSQL computes the call (its arguments are constants) when it prepares
-- the trigger for a statement's first row in the table (TriggerEnabled, ExecPrepareQual). So it runs once for each statement and table,
-- under that statement's snapshot, and not for every row. It always returns false: the trigger itself never fires.
-- No check is needed if every table by whose name rows can be routed there has the same statement trigger, because that has run.
-- pg_partition_ancestors() sees what is attached now. A writer has locked the table that it names since before its snapshot, so `protected`
-- is right about that table; an older snapshot (REPEATABLE READ) may be wrong. For inheritance no function shows the present state, only a
-- table. No SET search_path, because this runs with every statement: every name is qualified.
CREATE OR REPLACE FUNCTION @schema@._guard_rows(p_table regclass, p_mode text, p_scope text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER AS $$
BEGIN
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed'
     AND (SELECT pg_catalog.bool_and(EXISTS (SELECT FROM @schema@.protected p WHERE p.table_oid OPERATOR(pg_catalog.=) a.relid::pg_catalog.oid
                                                AND p.scope OPERATOR(pg_catalog.=) p_scope AND p.mode OPERATOR(pg_catalog.=) p_mode))
            FROM pg_catalog.pg_partition_ancestors(p_table) a) THEN
    RETURN false;
  END IF;
  -- A caller by hand must not record anything about other owners' tables: a statement that writes has locked its table in this mode.
  IF p_mode OPERATOR(pg_catalog.<>) 'observe' OR EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND l.granted
       AND l.relation OPERATOR(pg_catalog.=) p_table::pg_catalog.oid AND l.mode OPERATOR(pg_catalog.=) 'RowExclusiveLock') AND EXISTS (SELECT FROM @schema@.protected p WHERE p.table_oid OPERATOR(pg_catalog.=) p_table::pg_catalog.oid
                                                            AND p.scope OPERATOR(pg_catalog.=) p_scope AND p.mode OPERATOR(pg_catalog.=) 'observe') THEN
    PERFORM @schema@._guard_whole(p_table, p_mode, p_scope, pg_catalog.pg_current_snapshot());
  END IF;
  RETURN false;
END $$;
CREATE OR REPLACE FUNCTION @schema@._protect_below() RETURNS trigger
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._guard_whole(TG_RELID, TG_ARGV[0], TG_ARGV[2], pg_current_snapshot());
  RETURN NULL;
END $$;

-- TRUNCATE removes the rows of every scope in the table. The first trigger collects the scopes as the role that truncates, because the
-- owner of layer 1 must not read other owners' tables. The second, whose name sorts later, checks them.
CREATE OR REPLACE FUNCTION @schema@._protect_scopes() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  v_scopes jsonb;
BEGIN
  EXECUTE format('SELECT coalesce(jsonb_agg(DISTINCT (%L || t.%I::text) COLLATE pg_catalog."C"), ''[]'') FROM ONLY %s t', coalesce(TG_ARGV[3], ''), TG_ARGV[1], TG_RELID::regclass)
    INTO v_scopes;
  PERFORM set_config('termgate.truncating', jsonb_build_object('table', TG_RELID::text, 'scopes', v_scopes)::text, true);
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION @schema@._guard_truncate(p_table oid, p_mode text, p_scope text, p_snapshot pg_snapshot) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_found jsonb;
  v_scope text;
BEGIN
  IF p_scope <> '' THEN
    PERFORM @schema@._guard_whole(p_table, p_mode, p_scope, p_snapshot);
    RETURN;
  END IF;
  -- TRUNCATE removes all rows, but at these levels the snapshot may not show rows of other scopes.
  IF p_mode <> 'observe' AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'TG005 TRUNCATE of table %, protected by scope, needs READ COMMITTED: at % it would remove rows of scopes that this transaction cannot see',
      p_table::regclass, upper(current_setting('transaction_isolation')) USING ERRCODE = 'TG005', TABLE = p_table::regclass::text,
      HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED; or DELETE the rows of your scope instead.';
  END IF;
  v_found := nullif(current_setting('termgate.truncating', true), '')::jsonb;
  IF v_found ->> 'table' IS DISTINCT FROM p_table::text THEN
    PERFORM @schema@._not_registered(p_table);
  END IF;
  PERFORM set_config('termgate.truncating', '', true);
  FOR v_scope IN SELECT jsonb_array_elements_text(v_found -> 'scopes') LOOP
    PERFORM @schema@._guard(p_table, v_scope, p_mode, p_snapshot);
  END LOOP;
END $$;
CREATE OR REPLACE FUNCTION @schema@._protect_truncate() RETURNS trigger
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._guard_truncate(TG_RELID, TG_ARGV[0], TG_ARGV[2], pg_current_snapshot());
  RETURN NULL;
END $$;

-- Row triggers of a partitioned table are copied to a partition that is attached later. This one fires only there, because its WHEN
-- excludes the covered tables, and refuses the row.
CREATE OR REPLACE FUNCTION @schema@._protect_attached() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._not_registered(TG_RELID);
  RETURN NULL;
END $$;

-- Creates the row trigger function for a column name. Naming the column is the fastest way to read its value. The fourth trigger argument,
-- if there is one, is the prefix.
CREATE OR REPLACE FUNCTION @schema@._make_protected_row(p_column name) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  v_name text := '_protected_row_' || @schema@._short_hash(quote_ident(p_column));
BEGIN
  EXECUTE format('CREATE OR REPLACE FUNCTION @schema@.%I() RETURNS trigger LANGUAGE plpgsql STABLE SECURITY DEFINER AS %L', v_name, format($body$
DECLARE
  v_done pg_catalog.text;
  v_was pg_catalog.text COLLATE pg_catalog."C";
  v_is pg_catalog.text COLLATE pg_catalog."C";
BEGIN
  -- The types that a scope may have, by OID: text, varchar, smallint, integer, bigint, uuid. The common case in one expression.
  IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' AND pg_catalog.pg_typeof(NEW.%1$I)::pg_catalog.oid OPERATOR(pg_catalog.=) ANY ('{25,1043,21,23,20,2950}'::pg_catalog.oid[])
     AND @schema@._pass(TG_RELID, (coalesce(TG_ARGV[3], '') OPERATOR(pg_catalog.||) NEW.%1$I::pg_catalog.text) COLLATE pg_catalog."C", TG_ARGV[0], pg_catalog.pg_current_snapshot()) THEN
    RETURN NULL;
  END IF;
  IF TG_OP OPERATOR(pg_catalog.<>) 'INSERT' THEN
    IF pg_catalog.pg_typeof(OLD.%1$I)::pg_catalog.oid OPERATOR(pg_catalog.<>) ALL ('{25,1043,21,23,20,2950}'::pg_catalog.oid[]) THEN
      PERFORM @schema@._wrong_type(TG_RELID, %2$L, pg_catalog.pg_typeof(OLD.%1$I));
    END IF;
    v_was := coalesce(TG_ARGV[3], '') OPERATOR(pg_catalog.||) OLD.%1$I::pg_catalog.text;
    IF NOT @schema@._pass(TG_RELID, v_was, TG_ARGV[0], pg_catalog.pg_current_snapshot()) THEN
      v_done := @schema@._guard_covered(TG_RELID, v_was, TG_ARGV[0], pg_catalog.pg_current_snapshot());
    END IF;
  END IF;
  IF TG_OP OPERATOR(pg_catalog.<>) 'DELETE' THEN
    IF pg_catalog.pg_typeof(NEW.%1$I)::pg_catalog.oid OPERATOR(pg_catalog.<>) ALL ('{25,1043,21,23,20,2950}'::pg_catalog.oid[]) THEN
      PERFORM @schema@._wrong_type(TG_RELID, %2$L, pg_catalog.pg_typeof(NEW.%1$I));
    END IF;
    v_is := coalesce(TG_ARGV[3], '') OPERATOR(pg_catalog.||) NEW.%1$I::pg_catalog.text;
    IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' OR coalesce(v_is OPERATOR(pg_catalog.<>) v_was, (v_is IS NULL) OPERATOR(pg_catalog.<>) (v_was IS NULL)) AND NOT @schema@._pass(TG_RELID, v_is, TG_ARGV[0], pg_catalog.pg_current_snapshot()) THEN
      v_done := @schema@._guard_covered(TG_RELID, v_is, TG_ARGV[0], pg_catalog.pg_current_snapshot());
    END IF;
  END IF;
  RETURN NULL;
END $body$, p_column, p_column));
  PERFORM @schema@._close_function(v_name);
  EXECUTE format('GRANT EXECUTE ON FUNCTION @schema@.%I() TO PUBLIC', v_name);
  RETURN v_name;
END $$;

-- Calls _make_protected_row() once for each column name; returns the function's name. For a caller that is putting our triggers on a table.
CREATE OR REPLACE FUNCTION @schema@._protect_function(p_table regclass, p_column name) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
DECLARE
  v_name text := '_protected_row_' || @schema@._short_hash(quote_ident(p_column));
BEGIN
  PERFORM @schema@._need_proof(p_table, 'termgate_statement');
  PERFORM @schema@._need_column(p_table, p_column, '{text,varchar,smallint,integer,bigint,uuid}');
  IF to_regprocedure(format('%I.%I()', @schema_lit@, v_name)) IS NULL THEN
    PERFORM @schema@._take_turns();
    IF to_regprocedure(format('%I.%I()', @schema_lit@, v_name)) IS NULL THEN
      PERFORM @schema@._make_protected_row(p_column);
    END IF;
  END IF;
  RETURN v_name;
END $$;

-- The arguments of our triggers. A prefix makes them four; the library (guard/) leaves such triggers to these functions.
DROP FUNCTION IF EXISTS @schema@._protect_arguments(text, text, text);  -- as it was up to version 19
CREATE OR REPLACE FUNCTION @schema@._protect_arguments(p_mode text, p_column text, p_scope text, p_prefix text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY[p_mode, coalesce(p_column, ''), coalesce(p_scope, '')] OPERATOR(pg_catalog.||) CASE WHEN p_prefix OPERATOR(pg_catalog.=) '' THEN '{}'::pg_catalog.text[] ELSE ARRAY[p_prefix] END
$$;
-- The arguments of a trigger as pg_trigger stores them.
CREATE OR REPLACE FUNCTION @schema@._trigger_arguments(p_arguments text[]) RETURNS bytea LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(convert_to(a.value, 'UTF8') || decode('00', 'hex'), ''::bytea ORDER BY a.place) FROM unnest(p_arguments) WITH ORDINALITY AS a(value, place)
$$;

-- 'alone': a table without parents. 'child': a partition or an inheritance child. 'above': a partitioned table, which has no rows of its own.
CREATE OR REPLACE FUNCTION @schema@._place_in_tree(p_table oid) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN c.relkind = 'p' THEN 'above' WHEN EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid) THEN 'child' ELSE 'alone' END FROM pg_class c WHERE c.oid = p_table
$$;

-- The triggers that a covered relation must have and lacks.
DROP FUNCTION IF EXISTS @schema@._missing_triggers(oid, name, text, text);  -- as it was up to version 19
CREATE OR REPLACE FUNCTION @schema@._missing_triggers(p_table oid, p_column name, p_scope text, p_mode text, p_prefix text) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
  SELECT coalesce(array_agg(w.trigger ORDER BY w.trigger), '{}')
    FROM (VALUES ('termgate_statement', '_protect_statement', 30, false), ('termgate_truncate', '_protect_truncate', 34, false),
                 ('termgate_scopes', CASE WHEN p_column IS NOT NULL THEN '_protect_scopes' END, 34, false),
                 ('termgate_row', CASE WHEN @schema@._place_in_tree(p_table) <> 'above' THEN '_protected_row_' || @schema@._short_hash(quote_ident(p_column)) END, 29, false),
                 ('termgate_unprotect_first', CASE WHEN p_column IS NULL AND @schema@._place_in_tree(p_table) = 'alone' THEN '_protect_below' END, 9, true),
                 ('termgate_below', CASE WHEN p_column IS NULL AND @schema@._place_in_tree(p_table) = 'child' THEN '_protect_below' END, 29, true)) w(trigger, function, type, "when")
   WHERE w.function IS NOT NULL
     AND NOT EXISTS (SELECT FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
                      WHERE g.tgrelid = p_table AND g.tgname = w.trigger AND p.proname = w.function AND n.nspname = @schema_lit@
                        AND g.tgenabled IN ('O', 'A') AND g.tgtype = w.type AND g.tgattr = ''
                        AND CASE WHEN w."when" THEN g.tgoldtable IS NOT NULL OR strpos(pg_get_triggerdef(g.oid), '._guard_rows(') > 0 ELSE g.tgqual IS NULL END
                        AND g.tgargs = @schema@._trigger_arguments(@schema@._protect_arguments(p_mode, p_column, p_scope, p_prefix)))
$$;

-- For messages.
CREATE OR REPLACE FUNCTION @schema@._protected_for(p_column name, p_scope text, p_prefix text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN p_column IS NULL THEN format('scope "%s"', p_scope) ELSE format('scope column "%s"', p_column) || CASE WHEN p_prefix = '' THEN '' ELSE format(', prefix "%s"', p_prefix) END END
$$;

-- Records what the triggers show, which the caller has just created; returns how many relations are covered.
DROP FUNCTION IF EXISTS @schema@._protect_register(regclass, name, text, text);  -- as it was up to version 19
CREATE OR REPLACE FUNCTION @schema@._protect_register(p_root regclass, p_column name, p_scope text, p_mode text, p_prefix text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_rel oid;
  v_count integer := 0;
  v_was @schema@.protected;
BEGIN
  PERFORM @schema@._need_proof(p_root, 'termgate_statement');
  SELECT * INTO v_was FROM @schema@.protected p WHERE p.table_oid = p_root;
  IF (v_was.scope_column, v_was.scope, v_was.scope_prefix) IS DISTINCT FROM (p_column, p_scope, p_prefix) AND v_was.table_oid IS NOT NULL THEN
    RAISE WARNING 'table %: what it was protected for is replaced: % before, % now', p_root, @schema@._protected_for(v_was.scope_column, v_was.scope, v_was.scope_prefix),
      @schema@._protected_for(p_column, p_scope, p_prefix) USING HINT = 'A table has one scope, or a column that holds the scope of each row.';
  END IF;
  IF v_was.mode = 'enforce' AND p_mode = 'observe' THEN
    RAISE WARNING 'table %: nothing is refused there any more: mode observe replaces mode enforce', p_root;
  END IF;
  FOR v_rel IN SELECT t FROM @schema@._tree(p_root) t LOOP
    IF @schema@._missing_triggers(v_rel, p_column, p_scope, p_mode, p_prefix) <> '{}' THEN
      RAISE EXCEPTION 'TG005 table % lacks a trigger of protect()', v_rel::regclass USING ERRCODE = 'TG005';
    END IF;
    INSERT INTO @schema@.protected AS p (table_oid, root_oid, table_name, scope_column, scope, mode, scope_prefix)
    VALUES (v_rel, p_root, v_rel::regclass::text, p_column, p_scope, p_mode, p_prefix)
    ON CONFLICT (table_oid) DO UPDATE SET root_oid = EXCLUDED.root_oid, table_name = EXCLUDED.table_name, scope_column = EXCLUDED.scope_column,
       scope = EXCLUDED.scope, mode = EXCLUDED.mode, scope_prefix = EXCLUDED.scope_prefix, protected_at = clock_timestamp(), protected_by = session_user;
    v_count := v_count + 1;
  END LOOP;
  -- From now on checks leave marks. A transaction that passed a check before this commits can fail once with TG002.
  PERFORM @schema@._audit('protect', p_scope, NULL, jsonb_strip_nulls(jsonb_build_object('table', p_root::text, 'scope_column', p_column, 'prefix', nullif(p_prefix, ''), 'mode', p_mode,
    'previous', CASE WHEN v_was.table_oid IS NOT NULL THEN @schema@._protected_for(v_was.scope_column, v_was.scope, v_was.scope_prefix) || ', mode ' || v_was.mode END)));
  RETURN v_count;
END $$;

-- Forgets the relations of this tree that have no trigger of protect() any more, and any that no longer exist; returns how many.
CREATE OR REPLACE FUNCTION @schema@._protect_unregister(p_root regclass) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_count integer;
BEGIN
  PERFORM @schema@._need_proof(p_root, 'termgate_proof');
  WITH gone AS (
    DELETE FROM @schema@.protected p
     WHERE (p.root_oid = p_root OR p.table_oid IN (SELECT @schema@._tree(p_root)) OR NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = p.table_oid))
       AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = p.table_oid AND g.tgname IN ('termgate_statement', 'termgate_truncate', 'termgate_scopes', 'termgate_row', 'termgate_below', 'termgate_unprotect_first'))
    RETURNING p.table_oid, p.root_oid)
  SELECT count(*) INTO v_count FROM gone WHERE gone.root_oid = p_root OR gone.table_oid IN (SELECT @schema@._tree(p_root));
  IF v_count > 0 THEN
    PERFORM @schema@._audit('unprotect', NULL, NULL, jsonb_build_object('table', p_root::text));
  END IF;
  RETURN v_count;
END $$;

-- Drops our triggers from the tree; runs as the caller.
CREATE OR REPLACE FUNCTION @schema@._protect_drop(p_root regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  g record;
BEGIN
  FOR g IN SELECT t.tgname, t.tgrelid FROM pg_trigger t
            WHERE t.tgrelid IN (SELECT @schema@._tree(p_root)) AND t.tgparentid = 0 AND NOT t.tgisinternal
              AND t.tgname IN ('termgate_statement', 'termgate_truncate', 'termgate_scopes', 'termgate_row', 'termgate_below', 'termgate_unprotect_first',
                               'termgate_attached', 'termgate_attached_delete') LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', g.tgname, g.tgrelid::regclass);
  END LOOP;
END $$;

-- protect(target, scope_column, scope, mode, prefix) → how many tables, partitions and children are covered. Give either scope_column or
-- scope. Run it again after ATTACH PARTITION, or to change the mode.
DROP FUNCTION IF EXISTS @schema@.protect(regclass, name, text, text);  -- as it was up to version 19
CREATE OR REPLACE FUNCTION @schema@.protect(target regclass, scope_column name DEFAULT NULL, scope text DEFAULT NULL, mode text DEFAULT 'enforce', prefix text DEFAULT '') RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
<<protect>>
DECLARE
  scope_column name COLLATE pg_catalog."C" := scope_column;
  scope text COLLATE pg_catalog."C" := scope;
  mode text COLLATE pg_catalog."C" := mode;
  prefix text COLLATE pg_catalog."C" := prefix;
  v_arguments text;
  v_function text;
  v_tree oid[];
  v_rel oid;
BEGIN
  PERFORM @schema@._need_own_table(target);
  IF (scope_column IS NULL) = (scope IS NULL) THEN
    RAISE EXCEPTION 'TG005 protect needs either the column that holds a row''s scope or one scope for the whole table' USING ERRCODE = 'TG005';
  ELSIF mode IS NULL OR mode NOT IN ('enforce', 'observe') THEN
    RAISE EXCEPTION 'TG005 the mode is enforce or observe' USING ERRCODE = 'TG005';
  END IF;
  IF scope IS NOT NULL THEN
    PERFORM @schema@._need_scope(scope);
  END IF;
  PERFORM @schema@._need_prefix(prefix);
  IF prefix <> '' AND scope_column IS NULL THEN
    RAISE EXCEPTION 'TG005 a prefix is put in front of a scope column''s value: with one scope for the whole table there is none' USING ERRCODE = 'TG005';
  END IF;
  EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', target);
  IF scope_column IS NOT NULL THEN
    PERFORM @schema@._need_column(target, scope_column, '{text,varchar,smallint,integer,bigint,uuid}');
  END IF;
  PERFORM @schema@._protect_drop(target);
  v_tree := ARRAY(SELECT @schema@._tree(target));
  v_arguments := (SELECT string_agg(quote_literal(a.value), ', ' ORDER BY a.place) FROM unnest(@schema@._protect_arguments(mode, scope_column, scope, prefix)) WITH ORDINALITY AS a(value, place));
  FOREACH v_rel IN ARRAY v_tree LOOP
    EXECUTE format('CREATE TRIGGER termgate_statement BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION @schema@._protect_statement(%s)',
                   v_rel::regclass, v_arguments);
    IF v_function IS NULL AND scope_column IS NOT NULL THEN
      v_function := @schema@._protect_function(target, scope_column);  -- the root comes first, and has a trigger of ours by now
    END IF;
    EXECUTE format('CREATE TRIGGER termgate_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION @schema@._protect_truncate(%s)',
                   v_rel::regclass, v_arguments);
    IF scope_column IS NOT NULL THEN
      EXECUTE format('CREATE TRIGGER termgate_scopes BEFORE TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION @schema@._protect_scopes(%s)',
                     v_rel::regclass, v_arguments);
    END IF;
    IF scope IS NOT NULL THEN
      CASE @schema@._place_in_tree(v_rel)
        WHEN 'alone' THEN
          -- Never fires. PostgreSQL does not let a table with such a trigger become a partition or an inheritance child, whose rows no
          -- statement trigger would see.
          EXECUTE format('CREATE TRIGGER termgate_unprotect_first AFTER DELETE ON %s REFERENCING OLD TABLE AS termgate_old FOR EACH ROW WHEN (false) '
                         'EXECUTE FUNCTION @schema@._protect_below(%s)', v_rel::regclass, v_arguments);
        WHEN 'child' THEN
          EXECUTE format('CREATE TRIGGER termgate_below AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW WHEN (@schema@._guard_rows(%L::regclass, %L, %L)) '
                         'EXECUTE FUNCTION @schema@._protect_below(%s)', v_rel::regclass, v_rel::regclass, mode, scope, v_arguments);
        ELSE
          NULL;
      END CASE;
    END IF;
    -- On each table that has rows itself. PostgreSQL could copy it from the top of a tree, but removes the copies at DETACH.
    IF scope_column IS NOT NULL AND @schema@._place_in_tree(v_rel) <> 'above' THEN
      EXECUTE format('CREATE TRIGGER termgate_row AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION @schema@.%I(%s)',
                     v_rel::regclass, v_function, v_arguments);
    END IF;
    -- The next trigger is copied, also to partitions that are attached later.
    CONTINUE WHEN v_rel <> target AND (SELECT c.relispartition FROM pg_class c WHERE c.oid = v_rel);
    -- Below a protected root the root's copy exists already.
    CONTINUE WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = v_rel AND g.tgname = 'termgate_attached');
    IF (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = v_rel) THEN
      EXECUTE format('CREATE TRIGGER termgate_attached AFTER INSERT OR UPDATE ON %s FOR EACH ROW WHEN (NEW.tableoid <> ALL (%L::oid[])) '
                     'EXECUTE FUNCTION @schema@._protect_attached()', v_rel::regclass, v_tree);
      EXECUTE format('CREATE TRIGGER termgate_attached_delete AFTER DELETE ON %s FOR EACH ROW WHEN (OLD.tableoid <> ALL (%L::oid[])) '
                     'EXECUTE FUNCTION @schema@._protect_attached()', v_rel::regclass, v_tree);
    END IF;
  END LOOP;
  RETURN @schema@._protect_register(target, scope_column, scope, mode, prefix);
END $$;

-- unprotect(target) → how many tables, partitions and children are no longer covered.
CREATE OR REPLACE FUNCTION @schema@.unprotect(target regclass) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_count integer;
BEGIN
  PERFORM @schema@._need_own_table(target);
  PERFORM @schema@._prove(target, true);
  PERFORM @schema@._protect_drop(target);
  v_count := @schema@._protect_unregister(target);
  PERFORM @schema@._prove(target, false);
  RETURN v_count;
END $$;
