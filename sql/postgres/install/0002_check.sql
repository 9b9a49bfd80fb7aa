-- The check: shared lock, then the comparison (docs/reference/lock-protocol.md). Everything that waits or refuses is in helpers, so that
-- the common case, a writer whose session remembers its term, runs a few plpgsql expressions and one query by index.
-- Locks: a test of the scope's turnstile, a shared transaction lock on its queue; a raise takes both exclusively (0003).
-- Keeps F1, F2, F5.

-- Up to version 14 "untrusted" was called "in doubt". A renamed function keeps its grants, and what calls it goes on working.
DO $$
DECLARE
  f record;
BEGIN
  FOR f IN SELECT * FROM (VALUES ('_doubt', 'bigint', '_why_untrusted'), ('_need_no_doubt', 'text,bigint', '_need_trusted'), ('_in_doubt', 'bigint', '_untrusted'),
                                 ('_doubtful', '', '_untrusted_scopes'), ('declare_in_doubt', 'text,text', 'declare_untrusted')) AS renamed (was, arguments, name) LOOP
    IF to_regprocedure(format('%I.%I(%s)', @schema_lit@, f.was, f.arguments)) IS NOT NULL
       AND to_regprocedure(format('%I.%I(%s)', @schema_lit@, f.name, f.arguments)) IS NULL THEN
      EXECUTE format('ALTER FUNCTION @schema@.%I(%s) RENAME TO %I', f.was, f.arguments, f.name);
    END IF;
  END LOOP;
END $$;

DROP FUNCTION IF EXISTS @schema@._evict(bigint, text, integer, text, text);  -- as they were up to version 19
DROP FUNCTION IF EXISTS @schema@._holders(bigint, text);
DROP FUNCTION IF EXISTS @schema@._place(text);  -- as they were up to version 22
DROP FUNCTION IF EXISTS @schema@._seen(text, bigint);

-- The advisory keys of a scope. The seed keeps kinds and schemas apart.
CREATE OR REPLACE FUNCTION @schema@._queue_key(p_scope text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.hashtextextended(p_scope COLLATE pg_catalog."C", pg_catalog.hashtextextended(@schema_lit@ COLLATE pg_catalog."C", 1)) $$;
CREATE OR REPLACE FUNCTION @schema@._turnstile_key(p_scope text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.hashtextextended(p_scope COLLATE pg_catalog."C", pg_catalog.hashtextextended(@schema_lit@ COLLATE pg_catalog."C", 2)) $$;
CREATE OR REPLACE FUNCTION @schema@._lease_key(p_scope text) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.hashtextextended(p_scope COLLATE pg_catalog."C", pg_catalog.hashtextextended(@schema_lit@ COLLATE pg_catalog."C", 3)) $$;

-- Takes the shared lock of a scope if that needs no wait. The turnstile is taken and given back in one expression, so that no cancel can
-- come in between.
CREATE OR REPLACE FUNCTION @schema@._try_share(p_scope text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
  SELECT pg_catalog.pg_try_advisory_lock_shared(@schema@._turnstile_key(p_scope)) AND pg_catalog.pg_advisory_unlock_shared(@schema@._turnstile_key(p_scope))
     AND pg_catalog.pg_try_advisory_xact_lock_shared(@schema@._queue_key(p_scope))
$$;

CREATE OR REPLACE FUNCTION @schema@._setting(p_name text) RETURNS text LANGUAGE sql STABLE AS
$$ SELECT s.value FROM @schema@.settings s WHERE s.name OPERATOR(pg_catalog.=) p_name $$;

-- A setting of milliseconds, as an interval.
CREATE OR REPLACE FUNCTION @schema@._wait(p_name text) RETURNS interval LANGUAGE sql STABLE AS
$$ SELECT @schema@._setting(p_name)::pg_catalog.int8 OPERATOR(pg_catalog.*) pg_catalog.make_interval(secs => 0.001) $$;

-- TG005 unless p_scope is a valid scope.
CREATE OR REPLACE FUNCTION @schema@._need_scope(p_scope text, p_what text DEFAULT 'scope') RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_scope IS NULL THEN
    RAISE EXCEPTION 'TG005 the % is NULL', p_what USING ERRCODE = 'TG005';
  ELSIF p_scope = '' THEN
    RAISE EXCEPTION 'TG005 the % is empty: it needs 1 to 200 characters', p_what USING ERRCODE = 'TG005';
  ELSIF char_length(p_scope) > 200 THEN
    RAISE EXCEPTION 'TG005 the % has % characters: at most 200 are allowed', p_what, char_length(p_scope) USING ERRCODE = 'TG005';
  END IF;
END $$;

-- TG005 unless p_term is a valid term.
CREATE OR REPLACE FUNCTION @schema@._need_term(p_term bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_term IS NULL THEN
    RAISE EXCEPTION 'TG005 the term is NULL' USING ERRCODE = 'TG005';
  ELSIF p_term NOT BETWEEN 1 AND 4611686018427387904 THEN
    RAISE EXCEPTION 'TG005 term % is out of range: terms run from 1 to 4611686018427387904 (2^62)', p_term USING ERRCODE = 'TG005';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION @schema@._need_reason(p_actor text, p_reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(btrim(p_actor), '') = '' OR char_length(p_actor) > 200 THEN
    RAISE EXCEPTION 'TG005 the actor must be named, in 1 to 200 characters: it is audited' USING ERRCODE = 'TG005';
  ELSIF coalesce(btrim(p_reason), '') = '' OR char_length(p_reason) > 2000 THEN
    RAISE EXCEPTION 'TG005 a reason must be given, in 1 to 2000 characters: it is audited' USING ERRCODE = 'TG005';
  END IF;
END $$;

-- Counts a refusal by a sequence, because a sequence keeps its value when the refused transaction is rolled back. There is one for each
-- code. A read-only transaction cannot move it, so its refusals are not counted.
CREATE OR REPLACE FUNCTION @schema@._count_refusal(p_code text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('transaction_read_only') = 'off' THEN
    PERFORM @schema@._guard_own_call(true);
    PERFORM nextval(to_regclass(format('%I.refused_%s', @schema_lit@, lower(p_code))));
    PERFORM @schema@._guard_own_call(false);
  END IF;
END $$;

-- If the guard (guard/) is loaded and guards this session: the statements between a call with true and a call with false are layer 1's own,
-- and need no check.
CREATE OR REPLACE FUNCTION @schema@._guard_own_call(p_begins boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('termgate.guarded', true) = 'on' AND current_setting('termgate.guard_checks', true) = @schema_lit@ THEN
    PERFORM @schema@.guard_layer1_call(p_begins);
  END IF;
END $$;

-- The role that calls, after SET ROLE: in these functions current_user is their owner.
CREATE OR REPLACE FUNCTION @schema@._caller() RETURNS name LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END $$;

-- For hints: how the caller can raise the fence of this scope to this term, by a function that it may call.
CREATE OR REPLACE FUNCTION @schema@._how_to_raise(p_scope text, p_term bigint) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_role name := @schema@._caller();
BEGIN
  IF EXISTS (SELECT FROM @schema@.leases l WHERE l.scope = p_scope) THEN
    RETURN format('Terms of this scope are issued by leases: SELECT * FROM @schema@.acquire_lease(%L, ...).', p_scope);
  ELSIF has_function_privilege(v_role, '@schema@.seal(text, bigint, interval, text, text)', 'EXECUTE') THEN
    RETURN format('Seal it first, in a transaction of its own: SELECT * FROM @schema@.seal(%L, %s);', p_scope, p_term);
  ELSIF coalesce((SELECT f.raise_by FROM @schema@.fences f WHERE f.scope = p_scope), @schema@._setting('default_raise_by')) = 'writer' THEN
    RETURN format('Raise it first, in a transaction of its own: SELECT @schema@.check_term(%L, %s);', p_scope, p_term);
  END IF;
  RETURN format('Only a seal raises this fence, and role %I may not seal: termgate init --grant %I=lead', v_role, v_role);
END $$;

CREATE OR REPLACE FUNCTION @schema@._stale(p_scope text, p_term bigint, p_fence bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._note_refused(p_scope, p_term);
  PERFORM @schema@._count_refusal('TG001');
  RAISE EXCEPTION 'TG001 stale term % for scope "%": the fence stands at %', p_term, p_scope, p_fence
    USING ERRCODE = 'TG001', HINT = 'Another leader holds the scope: stop writing. Trying again with this term cannot succeed.';
END $$;

-- A raise in a transaction that already holds the shared lock would upgrade it in place: two such transactions deadlock.
CREATE OR REPLACE FUNCTION @schema@._not_upgraded(p_scope text, p_term bigint, p_fence bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'TG005 term % is above the fence of scope "%" (%), and this transaction already holds the lock of that scope', p_term, p_scope, p_fence
    USING ERRCODE = 'TG005', HINT = @schema@._how_to_raise(p_scope, p_term) || ' The term of a transaction is fixed by its first check.';
END $$;

CREATE OR REPLACE FUNCTION @schema@._audit(p_action text, p_scope text, p_actor text, p_detail jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO @schema@.audit (actor, client, action, scope, detail)
  VALUES (coalesce(p_actor, session_user),
          nullif(concat_ws(' ', host(inet_client_addr()), nullif(current_setting('application_name'), '')), ''),
          p_action, p_scope, p_detail);
$$;

-- The mark of a passed check, for the triggers of protect(): which scope and term this very transaction has passed. It is in a
-- transaction-local setting, so that ROLLBACK TO removes it together with the lock. It is signed with a secret, so that no SET can make one
-- up (_mark has the exception). One mark is: '|S', the scope with '\' and '|' escaped, '|', the term, '|', the signature.
-- A backslash is chr(92) in these files, because its meaning in a literal depends on the caller's standard_conforming_strings, and each
-- session parses a function's text for itself. No concat() in _escape and _unescape: it is only STABLE, and they could no longer be
-- inlined.
CREATE OR REPLACE FUNCTION @schema@._escape(p_scope text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.replace(pg_catalog.replace(p_scope, pg_catalog.chr(92), pg_catalog.chr(92) OPERATOR(pg_catalog.||) 'b'), '|', pg_catalog.chr(92) OPERATOR(pg_catalog.||) 'p') $$;
CREATE OR REPLACE FUNCTION @schema@._unescape(p_token text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.replace(pg_catalog.replace(p_token, pg_catalog.chr(92) OPERATOR(pg_catalog.||) 'p', '|'), pg_catalog.chr(92) OPERATOR(pg_catalog.||) 'b', pg_catalog.chr(92)) $$;
CREATE OR REPLACE FUNCTION @schema@._sign(p_scope text, p_term bigint, p_key uuid) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.textsend(
    pg_catalog.concat_ws('/', p_key, pg_catalog.pg_backend_pid(), pg_catalog.encode(pg_catalog.timestamptz_send(pg_catalog.transaction_timestamp()), 'hex'),
                         p_term, p_scope))), 'hex')
$$;

-- Why the fences of this database cannot be trusted, or NULL. A mere restart is recorded by the first session that can, and no session
-- waits for that.
CREATE OR REPLACE FUNCTION @schema@._changed_incarnation() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  i @schema@.incarnation;
  v_fences oid := format('%I.fences', @schema_lit@)::regclass;
  v_system bigint;
  v_timeline text;
  v_database oid;
  v_why text[] := '{}';
BEGIN
  SELECT * INTO i FROM @schema@.incarnation;
  IF NOT FOUND THEN
    RETURN 'the row of table incarnation is gone';
  END IF;
  IF i.postmaster_start = pg_postmaster_start_time() AND i.fences_path = pg_relation_filepath(v_fences) THEN
    RETURN NULL;
  END IF;
  v_system := @schema@._system_identifier();
  SELECT d.oid INTO v_database FROM pg_database d WHERE d.datname = current_database();
  -- A standby cannot read its timeline, and cannot write; the first check after a promotion detects it.
  v_timeline := CASE WHEN pg_is_in_recovery() THEN i.timeline ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END;
  IF v_system <> i.system_identifier AND v_system <> 0 AND i.system_identifier <> 0 THEN
    v_why := v_why || format('system identifier %s, was %s', v_system, i.system_identifier);
  END IF;
  IF v_timeline <> i.timeline AND @schema@._setting('failover') <> 'synchronous' THEN
    v_why := v_why || format('WAL timeline %s, was %s', v_timeline, i.timeline);
  END IF;
  IF v_database <> i.database_oid THEN
    v_why := v_why || format('database OID %s, was %s', v_database, i.database_oid);
  END IF;
  IF v_fences <> i.fences_oid THEN
    v_why := v_why || format('OID of fences %s, was %s', v_fences, i.fences_oid);
  END IF;
  IF v_why <> '{}' THEN
    RETURN array_to_string(v_why, '; ');
  END IF;
  IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
     AND current_setting('transaction_read_only') = 'off' THEN
    PERFORM 1 FROM @schema@.incarnation FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE @schema@.incarnation SET postmaster_start = pg_postmaster_start_time(), timeline = v_timeline,
                                      system_identifier = CASE v_system WHEN 0 THEN i.system_identifier ELSE v_system END,
                                      fences_path = pg_relation_filepath(v_fences);
    END IF;
  END IF;
  RETURN NULL;
END $$;

-- Why the scope's fence is untrusted, or NULL. p_generation is that of its row; NULL: it has no row. _need_trusted raises the reason as
-- TG004.
CREATE OR REPLACE FUNCTION @schema@._why_untrusted(p_generation bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_why text := @schema@._changed_incarnation();
  v_since bigint;
BEGIN
  IF v_why IS NULL THEN
    SELECT i.trusted_since INTO v_since FROM @schema@.incarnation i;
    IF coalesce(p_generation, 0) < v_since THEN
      v_why := 'this database was restored or promoted, and nobody has vouched for this scope since';
    END IF;
  END IF;
  RETURN v_why;
END $$;
CREATE OR REPLACE FUNCTION @schema@._need_trusted(p_scope text, p_generation bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_why text := @schema@._why_untrusted(p_generation);
BEGIN
  IF v_why IS NOT NULL THEN
    PERFORM @schema@._count_refusal('TG004');
    RAISE EXCEPTION 'TG004 the fence of scope "%" is untrusted: %', p_scope, v_why
      USING ERRCODE = 'TG004', DETAIL = 'A restored or promoted database may have forgotten a raise, so that a stale leader could pass.',
      HINT = 'acquire_lease makes it trusted again where terms come from leases; else an operator: termgate fence declare-restored ' || format('--scope %L --above N, ', p_scope)
             || 'or --nothing-lost when no raise is missing.';
  END IF;
END $$;

-- The highest term of the scope's stream writes and of what adopted tables have reported, without what a reset has taken back. Each step is
-- one index probe.
CREATE OR REPLACE FUNCTION @schema@._stored_max(p_scope text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_max bigint;
  v_below bigint;
BEGIN
  -- There is no term above 2^62, and a row that has one must not close the scope for good.
  SELECT max(w.term) INTO v_max FROM @schema@.stream_writes w WHERE w.scope = p_scope;
  IF v_max > 4611686018427387904 THEN
    v_max := 4611686018427387904;
  END IF;
  LOOP
    SELECT min(r.to_term) INTO v_below FROM @schema@.resets r
     WHERE r.scope = p_scope AND v_max > r.to_term AND v_max <= r.from_term;
    EXIT WHEN v_below IS NULL;
    SELECT max(w.term) INTO v_max FROM @schema@.stream_writes w WHERE w.scope = p_scope AND w.term <= v_below;
  END LOOP;
  -- What adopted tables have reported. A reset lowers it (0007).
  RETURN greatest(coalesce(v_max, 0), (SELECT least(a.term, 4611686018427387904) FROM @schema@.adopted_terms a WHERE a.scope = p_scope));
END $$;

-- Sets lock_timeout to the time that is left until p_until, unless the user's own (p_user) is shorter.
CREATE OR REPLACE FUNCTION @schema@._set_lock_timeout(p_until timestamptz, p_user text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_ms bigint := greatest(1, ceil(extract(epoch FROM p_until - clock_timestamp()) * 1000)::bigint);
  -- Not from pg_settings: any role may lock that view, even exclusively.
  v_user bigint := extract(epoch FROM current_setting('lock_timeout')::interval) * 1000;
BEGIN
  IF p_user <> '0' AND v_user BETWEEN 1 AND v_ms THEN
    RETURN;
  END IF;
  PERFORM set_config('lock_timeout', v_ms::text, true);
END $$;

-- Whether this session holds an advisory key in that mode, for the session or for its transaction.
CREATE OR REPLACE FUNCTION @schema@._holds(p_key bigint, p_mode text) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.granted AND l.mode = p_mode AND l.objsubid = 1
       AND l.classid = ((p_key >> 32) & 4294967295)::oid AND l.objid = (p_key & 4294967295)::oid)
$$;

-- A number that only layer 1 can compute. So nobody can forge an advisory lock on such a key, or take it first. While the lock is held,
-- everybody can see it.
CREATE OR REPLACE FUNCTION @schema@._signed_key(p_text text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT ('x' || left(encode(sha256(convert_to(concat_ws('/', s.key, p_text), 'UTF8')), 'hex'), 16))::bit(64)::bigint FROM @schema@.pass_secret s
$$;

-- A transaction that raises the scope announces its term by two-number advisory locks (0003). This is the class of the first. It is even:
-- the class of the second, for the term's other half, is the next number. It belongs to one transaction (p_transaction: its virtual id),
-- because everybody can read a class while it is held, and it must be of no use to a later session with the same pid.
DROP FUNCTION IF EXISTS @schema@._announcement(text, integer);  -- as it was when it belonged to a session
CREATE OR REPLACE FUNCTION @schema@._announcement(p_scope text, p_pid integer, p_transaction text) RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT (@schema@._signed_key(concat_ws('/', encode(timestamptz_send(pg_postmaster_start_time()), 'hex'), p_pid, p_transaction, p_scope)) >> 32)::integer & -2
$$;

-- The sessions in the way at an advisory key of the scope: those that hold it, and those that wait for it exclusively without an
-- announcement, because they stop all who come after them. If p_key is NULL: those that hold the fence's row. One row for each session,
-- which is known by its pid alone, because a lock of a session outlives its transactions. A prepared transaction has no pid. raising: the
-- term that the session has announced for this scope. shared: it holds the key in no other mode. surely: false if it only may hold the row
-- (0004).
CREATE OR REPLACE FUNCTION @schema@._in_the_way(p_key bigint, p_scope text) RETURNS TABLE (pid integer, raising bigint, shared boolean, surely boolean, who text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_stat_clear_snapshot();  -- otherwise the view of sessions stays the same within a transaction
  RETURN QUERY
  WITH locks AS MATERIALIZED (
    SELECT l.* FROM pg_locks l WHERE l.pid IS DISTINCT FROM pg_backend_pid()
  ), here AS (
    SELECT d.oid FROM pg_database d WHERE d.datname = current_database()
  ), seen AS (
    SELECT l.pid, max(l.virtualtransaction) AS virtualtransaction, bool_or(l.granted) AS holds, bool_and(l.mode = 'ShareLock') AS shared, true AS surely
      FROM locks l, here
     WHERE l.locktype = 'advisory' AND l.database = here.oid AND l.objsubid = 1 AND (l.granted OR l.mode = 'ExclusiveLock')
       AND l.classid = ((p_key >> 32) & 4294967295)::oid AND l.objid = (p_key & 4294967295)::oid
     GROUP BY l.pid, CASE WHEN l.pid IS NULL THEN l.virtualtransaction END
    UNION ALL
    SELECT r.pid, r.virtualtransaction, true, false, r.surely FROM @schema@._row_holders(p_scope) r WHERE p_key IS NULL
  ), sessions AS (
    -- If a transaction has announced two terms, the halves may not belong together: this is the least that the higher one can be.
    SELECT s.*, (SELECT (max(l.objid::bigint) FILTER (WHERE l.classid = (a.class & 4294967295)::oid) << 31)
                        + min(l.objid::bigint) FILTER (WHERE l.classid = ((a.class + 1) & 4294967295)::oid) + 1
                   FROM locks l, here, (SELECT @schema@._announcement(p_scope, s.pid, s.virtualtransaction)::bigint AS class) a
                  WHERE l.pid = s.pid AND l.locktype = 'advisory' AND l.database = here.oid AND l.objsubid = 2 AND l.granted) AS raising
      FROM seen s
  )
  SELECT s.pid, s.raising, s.shared, s.surely,
         CASE WHEN s.pid IS NULL THEN
                coalesce((SELECT format('prepared transaction "%s" of %s, prepared at %s', x.gid, x.owner, x.prepared)
                            FROM locks l JOIN pg_prepared_xacts x ON x.transaction = l.transactionid
                           WHERE l.pid IS NULL AND l.virtualtransaction = s.virtualtransaction AND l.locktype = 'transactionid' LIMIT 1),
                         'a prepared transaction')
              ELSE coalesce((SELECT format('pid %s (user %s, application "%s", %s%s)', a.pid, a.usename, a.application_name,
                                           coalesce(a.state, 'state not shown'), ' since ' || a.state_change::text)
                               FROM pg_stat_activity a WHERE a.pid = s.pid), 'pid ' || s.pid)
         END
    FROM sessions s WHERE s.holds OR s.raising IS NULL;  -- a raise that only waits is in nobody's way yet
END $$;

-- The text for TG006: who is in the way at the key.
CREATE OR REPLACE FUNCTION @schema@._blockers(p_key bigint, p_scope text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(string_agg(concat(CASE WHEN NOT h.surely THEN 'perhaps ' END, h.who), ', '), 'a session that has just ended') FROM @schema@._in_the_way(p_key, p_scope) h
$$;

-- Ends one session if it is still in the way. That is verified at the last moment, in a statement of its own: in a WHERE clause the planner
-- could end a session before it filters. False: the owner of layer 1 may not signal it. NULL: it was no longer in the way.
CREATE OR REPLACE FUNCTION @schema@._evict(p_key bigint, p_scope text, p_pid integer, p_who text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM 1 FROM @schema@._in_the_way(p_key, p_scope) h WHERE h.pid = p_pid AND h.surely;
  IF FOUND THEN
    PERFORM pg_terminate_backend(p_pid);
    -- The server's log keeps this even if the transaction fails later and its audit row is rolled back.
    RAISE LOG 'Termgate evicts % from scope "%"', p_who, p_scope;
    RETURN true;
  END IF;
  RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
  RETURN false;
END $$;

-- For a check, so that no stranger holds it up: ends every session that holds the key (turnstile or queue) exclusively, or waits for it so,
-- and has announced no raise. Only raises need it in that mode.
CREATE OR REPLACE FUNCTION @schema@._evict_strangers(p_key bigint, p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_stay integer[] := @schema@._stay(p_key, p_scope);
  h record;
BEGIN
  FOR h IN SELECT * FROM @schema@._in_the_way(p_key, p_scope) w WHERE w.pid = ANY (v_stay) AND w.raising IS NULL AND NOT w.shared LOOP
    IF @schema@._evict(p_key, p_scope, h.pid, h.who) THEN
      PERFORM @schema@._audit_evictions(p_scope, NULL, ARRAY[h.pid]);
    END IF;
  END LOOP;
END $$;

-- Takes the shared lock of a scope, waiting for it. The wait for the turnstile is in a subtransaction that is rolled back, which releases
-- it in every case, a cancelled query included. A session that already holds the queue does not wait for the turnstile: it would deadlock
-- with the raise that waits for it. Strangers are ended after the eviction grace, or after half of the wait if that is less.
CREATE OR REPLACE FUNCTION @schema@._share(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_queue bigint := @schema@._queue_key(p_scope);
  v_turnstile bigint := @schema@._turnstile_key(p_scope);
  v_user text := current_setting('lock_timeout');
  v_wait interval := least(@schema@._wait('check_wait_ms'), nullif(v_user::interval, interval '0'));
  v_look timestamptz := clock_timestamp() + least(@schema@._wait('eviction_grace_ms'), v_wait / 2);
  v_until timestamptz := clock_timestamp() + v_wait;
  v_pause interval := '50 ms';
  v_key bigint := v_turnstile;
BEGIN
  IF @schema@._try_share(p_scope) THEN
    RETURN;
  END IF;
  IF @schema@._holds(v_queue, 'ShareLock') OR @schema@._holds(v_queue, 'ExclusiveLock') THEN
    PERFORM pg_advisory_xact_lock_shared(v_queue);
    RETURN;
  END IF;
  LOOP
    BEGIN
      PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM least(v_look, v_until) - clock_timestamp()) * 1000)::bigint)::text, true);
      PERFORM pg_advisory_xact_lock_shared(v_key);
      IF v_key = v_queue THEN
        PERFORM set_config('lock_timeout', v_user, true);
        RETURN;
      END IF;
      RAISE EXCEPTION 'through' USING ERRCODE = 'TGTHR';
    EXCEPTION
      WHEN SQLSTATE 'TGTHR' THEN
        v_key := v_queue;
      WHEN lock_not_available THEN
        IF clock_timestamp() >= v_until THEN
          PERFORM @schema@._count_refusal('TG006');
          RAISE EXCEPTION 'TG006 blocked at the fence of scope "%" by %', p_scope, @schema@._blockers(v_key, p_scope)
            USING ERRCODE = 'TG006', DETAIL = format('check_wait is %s ms', @schema@._setting('check_wait_ms')),
            HINT = 'Nothing was written. A raise of this scope is not finished, or somebody holds its lock by hand.';
        END IF;
        PERFORM @schema@._evict_strangers(v_key, p_scope);
        v_pause := least(v_pause * 2, interval '800 ms');  -- as in _take()
        v_look := clock_timestamp() + v_pause;
    END;
  END LOOP;
END $$;

-- Reads the fence row FOR SHARE, and waits for it no longer than a check may wait. 40001 if the row has changed since the transaction's
-- snapshot.
CREATE OR REPLACE FUNCTION @schema@._share_row(p_scope text) RETURNS @schema@.fences
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f @schema@.fences;
  v_user text := current_setting('lock_timeout');
BEGIN
  PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE;
  PERFORM set_config('lock_timeout', v_user, true);
  RETURN f;
EXCEPTION WHEN lock_not_available THEN
  PERFORM @schema@._count_refusal('TG006');
  RAISE EXCEPTION 'TG006 blocked at the fence row of scope "%" by %', p_scope, @schema@._blockers(NULL, p_scope)
    USING ERRCODE = 'TG006', DETAIL = format('check_wait is %s ms', @schema@._setting('check_wait_ms')), HINT = 'Nothing was written: try again when that transaction has ended.';
END $$;

-- Everything about a check that is not the common case. enable_seqscan = off: a session keeps its plans, and one made while a table had a
-- single page must not scan it when there are 10^5 scopes. jit = off: if only a scan is possible, its cost must not start the compiler.
CREATE OR REPLACE FUNCTION @schema@._check(p_scope text, p_term bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  f @schema@.fences;
  v_committed boolean := current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
  v_sure boolean := false;
BEGIN
  IF p_scope IS NULL OR p_term IS NULL OR char_length(p_scope) NOT BETWEEN 1 AND 200 OR p_term NOT BETWEEN 1 AND 4611686018427387904 THEN
    PERFORM @schema@._need_scope(p_scope);
    PERFORM @schema@._need_term(p_term);
  END IF;
  IF @schema@._many_scopes(p_scope) THEN
    RETURN @schema@._check_escalated(p_scope, p_term);
  END IF;
  -- Shared or exclusive is decided before any lock is taken: a lock is never upgraded in place.
  SELECT t.term INTO f.term FROM @schema@.fences t WHERE t.scope = p_scope;
  IF f.term IS NULL OR f.term < p_term THEN
    RETURN (SELECT r.fence FROM @schema@._raise(p_scope, p_term, 'check', NULL) r);
  END IF;
  IF NOT @schema@._try_share(p_scope) THEN
    PERFORM @schema@._share(p_scope);
  END IF;
  -- In a new statement, which has a new snapshot. If the snapshot belongs to the transaction, a locking read fails with 40001 on a raise
  -- that it hides.
  IF v_committed THEN
    SELECT t.scope, t.term, t.generation, t.vouched = t.tableoid AND t.generation >= i.trusted_since AND i.postmaster_start = pg_postmaster_start_time() AND i.fences_path = pg_relation_filepath(t.tableoid)
      INTO f.scope, f.term, f.generation, v_sure
      FROM @schema@.fences t, @schema@.incarnation i WHERE t.scope = p_scope AND i.one;
  ELSE
    f := @schema@._share_row(p_scope);
  END IF;
  IF v_sure IS NOT TRUE THEN
    PERFORM @schema@._need_trusted(p_scope, f.generation);
  END IF;
  IF f.term > p_term THEN
    PERFORM @schema@._stale(p_scope, p_term, f.term);
  ELSIF f.term < p_term THEN
    PERFORM @schema@._not_upgraded(p_scope, p_term, f.term);
  END IF;
  PERFORM @schema@._mark(p_scope, p_term);
  RETURN f.term;
END $$;

-- Leaves the mark of a pass, once for each scope and term. For functions that already run as the owner. No signature if the session
-- declares the same scope and term, as in _pass (0010), and its marks are still few. The secret is found by an index: a scan would cost a
-- system call.
DROP FUNCTION IF EXISTS @schema@._mark(text, bigint, uuid);  -- as it was up to version 22
CREATE OR REPLACE FUNCTION @schema@._mark(p_scope text, p_term bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  v_passed pg_catalog.text := coalesce(pg_catalog.current_setting('termgate.passed', true), '');
  v_mark pg_catalog.text := '|S' OPERATOR(pg_catalog.||) @schema@._escape(p_scope) OPERATOR(pg_catalog.||) '|' OPERATOR(pg_catalog.||) p_term::pg_catalog.text OPERATOR(pg_catalog.||) '|';
  v_key pg_catalog.uuid;
BEGIN
  IF pg_catalog.strpos(v_passed, v_mark) OPERATOR(pg_catalog.=) 0 THEN
    IF pg_catalog.octet_length(v_passed) OPERATOR(pg_catalog.>) 1000 OR coalesce(pg_catalog.current_setting('termgate.scope', true), '') COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) p_scope COLLATE pg_catalog."C"
       OR coalesce(pg_catalog.current_setting('termgate.term', true), '') OPERATOR(pg_catalog.<>) p_term::pg_catalog.text THEN
      SELECT s.key INTO v_key FROM @schema@.pass_secret s ORDER BY s.key LIMIT 1;
      v_mark := v_mark OPERATOR(pg_catalog.||) @schema@._sign(p_scope, p_term, v_key);
    END IF;
    v_passed := pg_catalog.set_config('termgate.passed', v_passed OPERATOR(pg_catalog.||) v_mark, true);
  END IF;
  RETURN v_passed;
END $$;

-- Whether the transaction has passed so many other scopes that it must not take another advisory lock: 5,000 bytes of marks, about 60
-- scopes.
CREATE OR REPLACE FUNCTION @schema@._many_scopes(p_scope text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_passed pg_catalog.text := pg_catalog.current_setting('termgate.passed', true);
BEGIN
  RETURN coalesce(pg_catalog.octet_length(v_passed) OPERATOR(pg_catalog.>) 5000
                  AND pg_catalog.strpos(v_passed, pg_catalog.concat('|S', @schema@._escape(p_scope), '|')) OPERATOR(pg_catalog.=) 0, false);
END $$;

-- What a session remembers: the scopes and terms that it has passed. For these the next check takes the lock without reading the fence
-- first, and does not test again whether the database was restored: a restart ends the session, and every other way to lose trust shows in
-- fences.vouched. At most about 60 (1,500 bytes), because these checks do not count their locks (_many_scopes).
CREATE OR REPLACE FUNCTION @schema@._knows(p_scope text, p_term text) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT coalesce(pg_catalog.strpos(pg_catalog.current_setting('termgate.known', true), '|' OPERATOR(pg_catalog.||) (p_term COLLATE pg_catalog."C") OPERATOR(pg_catalog.||) '|' OPERATOR(pg_catalog.||)
                                    @schema@._escape(p_scope COLLATE pg_catalog."C") OPERATOR(pg_catalog.||) '|') OPERATOR(pg_catalog.>) 0, false)
$$;
CREATE OR REPLACE FUNCTION @schema@._remember(p_scope text, p_term text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_known pg_catalog.text := coalesce(pg_catalog.current_setting('termgate.known', true), '');
BEGIN
  -- A session on a standby may survive the promotion, after which scopes can be untrusted.
  IF NOT @schema@._knows(p_scope, p_term) AND NOT pg_catalog.pg_is_in_recovery() THEN
    v_known := pg_catalog.set_config('termgate.known', CASE WHEN pg_catalog.octet_length(v_known) OPERATOR(pg_catalog.>) 1500 THEN '' ELSE v_known END OPERATOR(pg_catalog.||) '|'
                                       OPERATOR(pg_catalog.||) p_term OPERATOR(pg_catalog.||) '|' OPERATOR(pg_catalog.||) @schema@._escape(p_scope) OPERATOR(pg_catalog.||) '|', false);
  END IF;
END $$;

-- check_term() in a guarded session (guard/). The common case is in C. The guard is notified of a check that passes here, so that the
-- writes that follow need no declaration.
CREATE OR REPLACE FUNCTION @schema@._check_guarded(p_scope text, p_term bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_fence pg_catalog.int8;
BEGIN
  -- The guard uses no layer 1, or that of another schema.
  IF pg_catalog.current_setting('termgate.guard_checks', true) OPERATOR(pg_catalog.<>) @schema_lit@ THEN
    RETURN @schema@._check(p_scope, p_term);
  END IF;
  IF @schema@.guard_check(p_scope, p_term) OPERATOR(pg_catalog.=) 'passed' THEN
    RETURN p_term;
  END IF;
  v_fence := @schema@._check(p_scope, p_term);
  PERFORM @schema@.guard_passed(p_scope, p_term);
  RETURN v_fence;
END $$;

-- check_term(scope, term) → the fence afterwards. Shared lock to the end of the transaction. A term above the fence raises it, if the
-- transaction holds no lock on the scope yet. TG001, TG004, TG005, TG006; 40001 if the snapshot hides a raise. Qualified names instead of
-- SET search_path, and few expressions, because each is prepared again in every transaction. Without SET search_path IN, IS DISTINCT FROM,
-- NULLIF, LIKE and BETWEEN would find the caller's operators, and run them as the owner (tests/live/postgres/pg_names.cpp).
CREATE OR REPLACE FUNCTION @schema@.check_term(scope text, term bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_fence pg_catalog.int8;
  v_protected pg_catalog.oid;
BEGIN
  -- coalesce: if this were NULL, the function after AND would be called all the same.
  IF coalesce(pg_catalog.current_setting('termgate.seat', true), '') OPERATOR(pg_catalog.=) 'on' AND @schema@._seated(scope, term) THEN
    RETURN term;
  END IF;
  -- The session remembers the term, so this is hardly ever a raise, and the shared lock can be taken before the fence is read.
  IF @schema@._knows(scope, term::pg_catalog.text) AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed'
     AND coalesce(pg_catalog.current_setting('termgate.guarded', true), '') OPERATOR(pg_catalog.<>) 'on' AND @schema@._try_share(scope) THEN
    -- A new statement, which has a new snapshot.
    SELECT (SELECT p.table_oid FROM @schema@.protected p ORDER BY p.table_oid LIMIT 1) INTO v_protected FROM @schema@.fences f
     WHERE f.scope OPERATOR(pg_catalog.=) check_term.scope COLLATE pg_catalog."C" AND f.term OPERATOR(pg_catalog.=) check_term.term AND f.vouched OPERATOR(pg_catalog.=) f.tableoid;
    IF FOUND THEN
      IF v_protected IS NOT NULL THEN
        PERFORM @schema@._mark(scope COLLATE pg_catalog."C", term);
      END IF;
      RETURN term;
    END IF;
    -- If a reset has lowered the fence since, this is a raise after all, and the shared lock has been taken already.
    v_fence := @schema@._raise_again(scope COLLATE pg_catalog."C", term);
  ELSIF pg_catalog.current_setting('termgate.guarded', true) OPERATOR(pg_catalog.=) 'on' THEN
    RETURN @schema@._check_guarded(scope COLLATE pg_catalog."C", term);
  END IF;
  IF v_fence IS NULL THEN
    v_fence := @schema@._check(scope COLLATE pg_catalog."C", term);
  END IF;
  PERFORM @schema@._remember(scope COLLATE pg_catalog."C", term::pg_catalog.text);
  RETURN v_fence;
END $$;

-- Whether `seats.session` is the number of this server session. After DISCARD SEQUENCES a session has none, and currval() fails (55000).
CREATE OR REPLACE FUNCTION @schema@._is_this_session(p_session bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN p_session OPERATOR(pg_catalog.=) pg_catalog.currval('@schema@.seat_sessions'::pg_catalog.regclass);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
  RETURN false;
END $$;

-- Whether this session has a seat in the scope under that term (NULL: any), which is as good as a check. Only at READ COMMITTED, because an
-- older snapshot may show a seat that was given up. A seat that this very transaction takes does not count: the transaction is judged by
-- its check.
CREATE OR REPLACE FUNCTION @schema@._seated(p_scope text, p_term bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.<>) 'read committed' THEN
    RETURN false;
  END IF;
  PERFORM FROM @schema@.seats s
    WHERE s.scope OPERATOR(pg_catalog.=) p_scope COLLATE pg_catalog."C" AND s.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND (p_term IS NULL OR s.term OPERATOR(pg_catalog.=) p_term)
      AND @schema@._is_this_session(s.session)
      AND coalesce(s.xmin OPERATOR(pg_catalog.<>) pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.xid, true);
  RETURN FOUND;
END $$;
