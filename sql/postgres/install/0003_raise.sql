-- The raise, and seal. Locks, all to the end of the transaction: turnstile, then queue, exclusively; then the fence row. Then it waits for
-- sessions that have a seat (0023). Sessions still in the way when the grace is over are evicted. Keeps F1, F2, F3, F4. Nothing here but
-- notify_raised notifies: a COMMIT that notifies waits for all others that do, on any database of the server, and fails if the server's
-- queue of notifications is full.

DROP FUNCTION IF EXISTS @schema@._announce_high(text);  -- as it was up to version 19
DROP FUNCTION IF EXISTS @schema@._announce_low(text);
DROP FUNCTION IF EXISTS @schema@._marks_wanted(text);

-- Announces a raise, so that seal(7) need not evict an uncommitted 9. The high and low 31 bits of the term minus one are the second numbers
-- of two shared locks, whose classes belong to the transaction (_announcement).
CREATE OR REPLACE FUNCTION @schema@._announce(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_class integer := (SELECT @schema@._announcement(p_scope, l.pid, l.virtualtransaction) FROM pg_locks l WHERE l.pid = pg_backend_pid() LIMIT 1);
BEGIN
  PERFORM pg_try_advisory_xact_lock_shared(v_class, ((p_term - 1) >> 31)::integer)
          AND pg_try_advisory_xact_lock_shared(v_class + 1, ((p_term - 1) & 2147483647)::integer);
END $$;

-- The pids that are in the way at a key each time that this reads the locks, three times within 40 ms. Once is not enough to end a session:
-- a session that waits for the turnstile holds it for a moment on its way through, and a transaction that ends releases its locks one by
-- one, so a raise may hold the turnstile for a moment without its announcement.
CREATE OR REPLACE FUNCTION @schema@._stay(p_key bigint, p_scope text) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_stay integer[];
BEGIN
  FOR i IN 1..3 LOOP
    PERFORM pg_sleep(CASE i WHEN 1 THEN 0 ELSE 0.02 END);
    v_stay := ARRAY(SELECT h.pid FROM @schema@._in_the_way(p_key, p_scope) h WHERE v_stay IS NULL OR h.pid = ANY (v_stay));
    EXIT WHEN v_stay = '{}';
  END LOOP;
  RETURN v_stay;
END $$;

-- Takes one key exclusively, or, if p_key is NULL, the fence's row (a raise holds both keys by then). Evicts after the grace; returns the
-- pids that it evicted.
CREATE OR REPLACE FUNCTION @schema@._take(p_key bigint, p_scope text, p_term bigint, p_grace_until timestamptz, p_until timestamptz)
RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_evicted integer[] := '{}';
  v_user text := current_setting('lock_timeout');
  v_wait_until timestamptz := p_grace_until;
  v_last timestamptz := p_until + interval '1 s';
  v_passing boolean := p_key IS NOT DISTINCT FROM @schema@._turnstile_key(p_scope);
  v_immovable text;
  v_stay integer[];
  v_ended boolean;
  -- Longer each time, so that sessions that are ahead of this raise and take turns can pass.
  v_pause interval := '50 ms';
  h record;
BEGIN
  LOOP
    BEGIN
      -- Try without a wait first: a wait can time out in the moment that grants the lock, and TG006 must not name a lock that nobody holds.
      IF p_key IS NULL THEN
        PERFORM 1 FROM @schema@.fences f WHERE f.scope = p_scope FOR UPDATE NOWAIT;
        RETURN v_evicted;
      ELSIF pg_try_advisory_xact_lock(p_key) THEN
        RETURN v_evicted;
      END IF;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
    IF clock_timestamp() >= p_grace_until THEN
      v_immovable := NULL;
      -- For half a second, sessions that hand the turnstile to each other are spared: only those that stay are evicted.
      v_stay := CASE WHEN v_passing AND clock_timestamp() < p_grace_until + interval '500 ms' THEN @schema@._stay(p_key, p_scope) END;
      FOR h IN SELECT * FROM @schema@._in_the_way(p_key, p_scope) w WHERE w.surely AND (w.raising < p_term) IS NOT FALSE LOOP
        IF h.pid IS NULL THEN
          v_immovable := h.who;
        ELSIF v_stay IS NULL OR h.pid = ANY (v_stay) THEN
          v_ended := @schema@._evict(p_key, p_scope, h.pid, h.who);
          IF NOT v_ended THEN
            v_immovable := h.who || format('; role %I may not signal it: GRANT pg_signal_backend TO %I (superusers stay beyond it)', current_user, current_user);
          ELSIF v_ended AND NOT h.pid = ANY (v_evicted) THEN
            v_evicted := v_evicted || h.pid;
            -- An evicted session releases its locks within moments. If the machine stood still until after p_until, giving up now would
            -- lose the session for nothing.
            p_until := least(v_last, greatest(p_until, clock_timestamp() + interval '500 ms'));
          END IF;
        END IF;
      END LOOP;
      IF v_immovable IS NOT NULL OR clock_timestamp() >= p_until THEN
        RAISE EXCEPTION 'TG006 raising scope "%" to % is blocked %by %', p_scope, p_term, CASE WHEN p_key IS NULL THEN 'at its fence row ' ELSE '' END,
                        coalesce(v_immovable, @schema@._blockers(p_key, p_scope))
          USING ERRCODE = 'TG006', HINT = 'The fence is unchanged. End what is named here, then raise again.';
      END IF;
      v_pause := least(v_pause * 2, interval '800 ms');
      v_wait_until := least(p_until, clock_timestamp() + v_pause);
    END IF;
    BEGIN
      PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM v_wait_until - clock_timestamp()) * 1000)::bigint)::text, true);
      IF p_key IS NULL THEN
        PERFORM 1 FROM @schema@.fences f WHERE f.scope = p_scope FOR UPDATE;
      ELSE
        PERFORM pg_advisory_xact_lock(p_key);
      END IF;
      PERFORM set_config('lock_timeout', v_user, true);
      RETURN v_evicted;
    EXCEPTION
      WHEN lock_not_available THEN
        NULL;
      WHEN deadlock_detected THEN
        IF EXISTS (SELECT FROM @schema@._in_the_way(p_key, p_scope) d WHERE d.raising IS NOT NULL) THEN
          RAISE;
        END IF;
    END;
  END LOOP;
END $$;

-- The grace to use; NULL: the setting. TG005 if it is out of range.
CREATE OR REPLACE FUNCTION @schema@._grace(p_grace interval) RETURNS interval
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_grace IS NULL THEN
    RETURN @schema@._wait('eviction_grace_ms');
  ELSIF p_grace NOT BETWEEN interval '0' AND interval '1 hour' OR date_trunc('month', p_grace) <> interval '0' THEN  -- as in _need_ttl (0006)
    RAISE EXCEPTION 'TG005 the grace must be from 0 to 1 hour, not %', p_grace USING ERRCODE = 'TG005';
  END IF;
  RETURN p_grace;
END $$;

-- TG006 if the server's lock table is full, which any role of any database can do; then no session gets a lock. So this reads no view,
-- which would need locks.
CREATE OR REPLACE FUNCTION @schema@._lock_table_full(p_scope text, p_error text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'TG006 raising scope "%" is blocked: the lock table of this server is full (%); the most locks are held by %', p_scope, p_error,
      (SELECT string_agg(format('pid %s (%s)', m.pid, m.locks), ', ' ORDER BY m.locks DESC)
         FROM (SELECT l.pid, count(*) AS locks FROM pg_lock_status() l GROUP BY l.pid ORDER BY count(*) DESC LIMIT 3) m)
    USING ERRCODE = 'TG006', HINT = 'The fence is unchanged. End what is named here: SELECT pg_terminate_backend(pid).';
END $$;

-- The first lock of a raise to p_term: while it is held, nobody new passes or raises. Returns the evicted pids. Must come before any shared
-- lock on the scope.
CREATE OR REPLACE FUNCTION @schema@._take_turnstile(p_scope text, p_term bigint, p_grace_until timestamptz, p_until timestamptz) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_queue bigint := @schema@._queue_key(p_scope);
  v_evicted integer[];
BEGIN
  PERFORM @schema@._not_seated(p_scope);
  IF NOT @schema@._holds(v_queue, 'ExclusiveLock')
     AND (@schema@._holds(v_queue, 'ShareLock')
          OR @schema@._pass_of(p_scope) IS NOT NULL) THEN
    PERFORM @schema@._not_upgraded(p_scope, p_term, (SELECT f.term FROM @schema@.fences f WHERE f.scope = p_scope));
  END IF;
  IF (SELECT count(*) FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'advisory') > 1000 THEN
    RAISE EXCEPTION 'TG005 this transaction holds the locks of some hundred scopes: raise the others in a transaction of their own'
      USING ERRCODE = 'TG005', HINT = 'Four locks a raise; without a limit one transaction could fill the lock table of the whole server.';
  END IF;
  PERFORM @schema@._announce(p_scope, p_term);
  v_evicted := @schema@._take(@schema@._turnstile_key(p_scope), p_scope, p_term, p_grace_until, p_until);
  PERFORM @schema@._ring();
  RETURN v_evicted;
EXCEPTION WHEN out_of_memory THEN
  PERFORM @schema@._lock_table_full(p_scope, SQLERRM);
END $$;

-- The other locks of a raise, once it holds the turnstile. Returns the evicted pids.
CREATE OR REPLACE FUNCTION @schema@._take_queue(p_scope text, p_term bigint, p_grace_until timestamptz, p_until timestamptz) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_evicted integer[] := @schema@._take(@schema@._queue_key(p_scope), p_scope, p_term, p_grace_until, p_until) || @schema@._take(NULL, p_scope, p_term, p_grace_until, p_until);
BEGIN
  PERFORM @schema@._ring();  -- once more: a holder of the queue may have taken a seat since
  RETURN v_evicted || @schema@._sweep(p_scope, p_grace_until, p_until);
END $$;

-- Takes the exclusive lock of a scope, for a raise to p_term. Returns the evicted pids.
CREATE OR REPLACE FUNCTION @schema@._exclude(p_scope text, p_term bigint, p_grace interval) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_grace_until timestamptz := clock_timestamp() + @schema@._grace(p_grace);
  v_until timestamptz := v_grace_until + @schema@._wait('check_wait_ms');
  v_evicted integer[] := @schema@._take_turnstile(p_scope, p_term, v_grace_until, v_until);
BEGIN
  RETURN v_evicted || @schema@._take_queue(p_scope, p_term, v_grace_until, v_until);
END $$;

-- The highest term that layer 1's own tables show for the scope: fence, lease, stream writes and adopted terms. Waits for nobody, so it may
-- be called before the lock is held.
CREATE OR REPLACE FUNCTION @schema@._shown(p_scope text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_fence bigint := (SELECT f.term FROM @schema@.fences f WHERE f.scope = p_scope);
  v_lease bigint := (SELECT l.term FROM @schema@.leases l WHERE l.scope = p_scope);
BEGIN
  RETURN greatest(coalesce(v_fence, 0), coalesce(v_lease, 0), @schema@._stored_max(p_scope));
END $$;

-- The highest term that the fence, the stream writes and the adopted terms show for the scope: should the fence be too low, they are the
-- second line of defence. Called under the exclusive lock, after the eviction.
CREATE OR REPLACE FUNCTION @schema@._evidence(p_scope text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_fence bigint := (SELECT f.term FROM @schema@.fences f WHERE f.scope = p_scope);
BEGIN
  RETURN greatest(coalesce(v_fence, 0), @schema@._stored_max(p_scope));
END $$;

-- The term that an acquisition announces: above p_known, and above the announcement of another one that does not end. Acquisitions take
-- turns within moments. So one that has not ended after the grace and a second is frozen in its client's transaction, and this one
-- overtakes it.
CREATE OR REPLACE FUNCTION @schema@._next_term(p_scope text, p_known bigint, p_grace interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_until timestamptz := clock_timestamp() + @schema@._grace(p_grace) + interval '1 s';
  v_turnstile bigint := @schema@._turnstile_key(p_scope);
  v_raising bigint;
BEGIN
  WHILE NOT (pg_try_advisory_lock_shared(v_turnstile) AND pg_advisory_unlock_shared(v_turnstile)) LOOP
    SELECT max(h.raising) INTO v_raising FROM @schema@._in_the_way(v_turnstile, p_scope) h WHERE h.raising > p_known;
    IF v_raising IS NULL THEN
      RETURN p_known + 1;
    ELSIF clock_timestamp() >= v_until THEN
      RETURN v_raising + 1;
    END IF;
    BEGIN
      PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM v_until - clock_timestamp()) * 1000)::bigint)::text, true);
      PERFORM pg_advisory_xact_lock_shared(v_turnstile);
      RAISE EXCEPTION 'through' USING ERRCODE = 'TGTHR';  -- gives it back, and puts the setting back
    EXCEPTION WHEN SQLSTATE 'TGTHR' OR lock_not_available OR deadlock_detected THEN
      NULL;
    END;
  END LOOP;
  RETURN p_known + 1;
EXCEPTION WHEN out_of_memory THEN
  PERFORM @schema@._lock_table_full(p_scope, SQLERRM);
END $$;

-- Sets the fence to p_term, under the exclusive lock: row and audit. p_generation NULL keeps the row's; a new row gets the database's.
CREATE OR REPLACE FUNCTION @schema@._set_fence(p_scope text, p_term bigint, p_action text, p_actor text, p_detail jsonb, p_generation bigint DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_at timestamptz := clock_timestamp();
  v_user text := current_setting('lock_timeout');
  v_made boolean;
BEGIN
  UPDATE @schema@.fences f
     SET term = p_term, raised_at = v_at, raised_by = session_user, raised_xid = pg_current_xact_id(), generation = greatest(f.generation, p_generation), vouched = f.tableoid
   WHERE f.scope = p_scope;
  IF NOT FOUND THEN
    -- An adopt() that is still open may be creating this fence, and holds no lock of the scope for it (0009).
    BEGIN
      PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
      INSERT INTO @schema@.fences (scope, term, raised_at, raised_xid, raise_by, generation, vouched)
      VALUES (p_scope, p_term, v_at, pg_current_xact_id(), @schema@._setting('default_raise_by'), coalesce(p_generation, (SELECT i.generation FROM @schema@.incarnation i)),
              format('%I.fences', @schema_lit@)::regclass)
      ON CONFLICT DO NOTHING;
      v_made := FOUND;
      PERFORM set_config('lock_timeout', v_user, true);
    EXCEPTION WHEN lock_not_available THEN
      RAISE EXCEPTION 'TG006 raising scope "%" to % is blocked by a transaction that makes its fence by adopt() and is still open: %', p_scope, p_term,
        coalesce((SELECT string_agg(format('pid %s (user %s, application "%s")', a.pid, a.usename, a.application_name), ', ')
                    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
                   WHERE l.locktype = 'relation' AND l.relation = format('%I.adopted', @schema_lit@)::regclass AND l.granted AND l.mode = 'RowExclusiveLock'), 'it has just ended')
        USING ERRCODE = 'TG006', HINT = 'The fence is unchanged. End what is named here, then raise again.';
    END;
    IF NOT v_made THEN
      RAISE EXCEPTION 'could not serialize access: the fence of scope "%" has just been made by another session', p_scope USING ERRCODE = '40001';
    END IF;
  END IF;
  PERFORM @schema@._audit(p_action, p_scope, p_actor, jsonb_build_object('term', p_term) || p_detail);
  RETURN v_at;
END $$;

-- notify_raised(scope): notifies proxies, waiters and holders that the scope's fence has risen, that its lease was given back, or that its
-- holder shall hand it over. Without it they find out a little later. Call it in a transaction of its own, after the COMMIT of the raise.
-- The server lets one transaction at a time notify, to the end of its COMMIT. If this one must wait for that longer than 50 ms, its COMMIT
-- fails (55P03), and the caller ignores it.
CREATE OR REPLACE FUNCTION @schema@.notify_raised(scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f @schema@.fences;
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM set_config('lock_timeout', '50', true), set_config('synchronous_commit', 'off', true);
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = notify_raised.scope;
  PERFORM @schema@._guard_own_call(true);
  PERFORM pg_notify('termgate', json_build_object('scope', f.scope, 'term', f.term, 'schema', @schema_lit@)::text) WHERE f.scope IS NOT NULL;
  PERFORM pg_notify('termgate_leases', l.scope) FROM @schema@.leases l WHERE l.scope = notify_raised.scope
     AND (l.released_at IS NOT NULL OR EXISTS (SELECT FROM @schema@.hand_overs h WHERE h.scope = l.scope AND h.term = l.term));
  PERFORM @schema@._guard_own_call(false);
END $$;

CREATE OR REPLACE FUNCTION @schema@._audit_evictions(p_scope text, p_term bigint, p_evicted integer[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- A check may run in a read-only transaction; then only the server's log has the eviction.
  IF p_evicted <> '{}' AND current_setting('transaction_read_only') = 'off' THEN
    PERFORM @schema@._audit('evict', p_scope, NULL, jsonb_strip_nulls(jsonb_build_object('term', p_term, 'pids', to_jsonb(p_evicted))));
  END IF;
END $$;

-- TG005 if the scope has a lease, and the term is above both lease and fence: its terms come from leases.
CREATE OR REPLACE FUNCTION @schema@._need_issued(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_issued bigint := (SELECT greatest(l.term, f.term) FROM @schema@.leases l LEFT JOIN @schema@.fences f ON f.scope = l.scope WHERE l.scope = p_scope);
BEGIN
  IF p_term > v_issued THEN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      -- 40001 if the snapshot hides a newer lease; otherwise the error below releases the lock.
      PERFORM 1 FROM @schema@.leases l WHERE l.scope = p_scope FOR SHARE SKIP LOCKED;
    END IF;
    RAISE EXCEPTION 'TG005 term % was never issued for scope "%": its leases stand at %', p_term, p_scope, v_issued
      USING ERRCODE = 'TG005', HINT = format('Terms of this scope come from leases, since acquire_lease was called for it once: SELECT * FROM @schema@.acquire_lease(%L, ...) issues the next one. '
                                             'Terms of your own need a scope of another name, which nobody leases.', p_scope);
  END IF;
END $$;

-- For a holder of the turnstile: 40001 if the transaction's snapshot hides a raise, before any session is evicted because of what the
-- snapshot shows. Waits for a millisecond at most.
CREATE OR REPLACE FUNCTION @schema@._need_snapshot(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
    RETURN;
  END IF;
  PERFORM 1 FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE SKIP LOCKED;
  IF EXISTS (SELECT FROM @schema@.fences t WHERE t.scope = p_scope) THEN
    RETURN;
  END IF;
  -- Only an INSERT detects a row that the snapshot does not show. This one is taken back.
  BEGIN
    PERFORM set_config('lock_timeout', '1', true);
    INSERT INTO @schema@.fences (scope, term) VALUES (p_scope, 0) ON CONFLICT DO NOTHING;
    RAISE EXCEPTION 'taken back' USING ERRCODE = 'TGTHR';
  EXCEPTION WHEN SQLSTATE 'TGTHR' OR lock_not_available THEN
    NULL;
  END;
END $$;

-- Raises the fence to p_term and returns it. p_how: 'check' (append too), 'again' (see _raise_again) or 'seal'; the first two need raise_by
-- = writer. TG001 if, under the lock, the fence or the stored terms turn out to be higher; TG004, TG005, TG006. evicted and previous are
-- for a seal's receipt, p_actor and p_reason for its audit row. Another session may have raised the fence to p_term meanwhile, and those
-- that hold the queue may be its writers. So this reads the fence again once it has the turnstile; if it is there, a check goes on with the
-- shared lock.
DROP FUNCTION IF EXISTS @schema@._raise(text, bigint, text, interval);  -- as it was before a seal had a reason
CREATE OR REPLACE FUNCTION @schema@._raise(p_scope text, p_term bigint, p_how text, p_grace interval, p_actor text DEFAULT NULL, p_reason text DEFAULT NULL,
                                           OUT fence bigint, OUT previous bigint, OUT evicted integer, OUT sealed_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  f @schema@.fences;
  v_evicted integer[];
  v_grace_until timestamptz;
  v_until timestamptz;
  v_raised boolean := false;
BEGIN
  PERFORM @schema@._need_issued(p_scope, p_term);
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope;
  IF p_how <> 'seal' AND coalesce(f.raise_by, @schema@._setting('default_raise_by')) = 'seal' THEN
    RAISE EXCEPTION 'TG005 term % is above the fence of scope "%" (%), which only a seal may raise', p_term, p_scope, coalesce(f.term, 0)
      USING ERRCODE = 'TG005', HINT = @schema@._how_to_raise(p_scope, p_term);
  END IF;
  IF p_how = 'check' AND @schema@._holds(@schema@._queue_key(p_scope), 'ExclusiveLock') THEN
    -- This transaction has raised the scope before: the term of its first check is its only one.
    PERFORM @schema@._not_upgraded(p_scope, p_term, f.term);
  END IF;
  PERFORM @schema@._need_trusted(p_scope, f.generation);
  v_grace_until := clock_timestamp() + @schema@._grace(p_grace);
  v_until := v_grace_until + @schema@._wait('check_wait_ms');
  BEGIN
    v_evicted := @schema@._take_turnstile(p_scope, p_term, v_grace_until, v_until);
    PERFORM @schema@._need_snapshot(p_scope);
    SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope;
    IF f.term >= p_term THEN
      RAISE EXCEPTION 'raised' USING ERRCODE = 'TGTHR';  -- gives the turnstile back
    END IF;
  EXCEPTION WHEN SQLSTATE 'TGTHR' THEN
    v_raised := true;
  END;
  IF v_raised THEN
    PERFORM @schema@._audit_evictions(p_scope, p_term, v_evicted);
    evicted := cardinality(v_evicted);
    IF p_how <> 'seal' THEN
      fence := @schema@._check(p_scope, p_term);
      RETURN;
    END IF;
    PERFORM @schema@._need_trusted(p_scope, f.generation);
    IF f.term > p_term THEN
      PERFORM @schema@._stale(p_scope, p_term, f.term);
    END IF;
    fence := f.term; previous := f.term; sealed_at := f.raised_at;
    RETURN;
  END IF;
  v_evicted := v_evicted || @schema@._take_queue(p_scope, p_term, v_grace_until, v_until);
  evicted := cardinality(v_evicted);
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR UPDATE;
  previous := greatest(coalesce(f.term, 0), @schema@._stored_max(p_scope));
  IF previous > p_term THEN
    PERFORM @schema@._stale(p_scope, p_term, previous);
  END IF;
  PERFORM @schema@._need_issued(p_scope, p_term);
  PERFORM @schema@._audit_evictions(p_scope, p_term, v_evicted);
  fence := p_term;
  IF f.term = p_term THEN
    sealed_at := f.raised_at;
  ELSE
    sealed_at := @schema@._set_fence(p_scope, p_term, CASE p_how WHEN 'seal' THEN 'seal' ELSE 'raise' END, p_actor,
                                      jsonb_strip_nulls(jsonb_build_object('previous', previous, 'evicted', evicted, 'reason', p_reason)));
  END IF;
  IF p_how <> 'seal' THEN
    PERFORM @schema@._mark(p_scope, p_term);
  END IF;
END $$;

-- For a check that took the shared lock because its session remembers the term, and then found a lower fence: a reset has lowered it. The
-- lock is made exclusive only if no other session holds it, so nobody waits for anybody. NULL if the fence is not lower, if the transaction
-- itself has raised it, or if others hold the lock.
CREATE OR REPLACE FUNCTION @schema@._raise_again(p_scope text, p_term bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM @schema@.fences f WHERE f.scope = p_scope AND f.term < p_term) OR @schema@._holds(@schema@._queue_key(p_scope), 'ExclusiveLock')
     OR NOT pg_try_advisory_xact_lock(@schema@._turnstile_key(p_scope)) OR NOT pg_try_advisory_xact_lock(@schema@._queue_key(p_scope)) THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT r.fence FROM @schema@._raise(p_scope, p_term, 'again', NULL) r);
END $$;

-- seal(scope, term, grace, actor, reason) → the receipt. The same term again changes nothing and keeps no lock. TG001 if the fence is
-- higher. actor and reason go to the audit: both or neither.
DROP FUNCTION IF EXISTS @schema@.seal(text, bigint, interval);  -- as it was before a seal had a reason
CREATE OR REPLACE FUNCTION @schema@.seal(scope text, term bigint, grace interval DEFAULT NULL, actor text DEFAULT NULL, reason text DEFAULT NULL,
                                         OUT fence bigint, OUT previous bigint, OUT evicted integer, OUT sealed_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<seal>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  actor text COLLATE pg_catalog."C" := actor;
  reason text COLLATE pg_catalog."C" := reason;
  f @schema@.fences;
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_term(term);
  PERFORM @schema@._grace(grace);
  IF actor IS NOT NULL OR reason IS NOT NULL THEN
    PERFORM @schema@._need_reason(actor, reason);
  END IF;
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = seal.scope;
  IF f.term >= term THEN
    PERFORM @schema@._need_trusted(scope, f.generation);
    IF f.term > term THEN
      PERFORM @schema@._stale(scope, term, f.term);
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      BEGIN
        -- 40001 if the snapshot hides a raise. The row's lock ends with the subtransaction.
        PERFORM @schema@._share_row(scope);
        RAISE EXCEPTION 'through' USING ERRCODE = 'TGTHR';
      EXCEPTION WHEN SQLSTATE 'TGTHR' THEN
        NULL;
      END;
    END IF;
    fence := f.term; previous := f.term; evicted := 0; sealed_at := f.raised_at;
    RETURN;
  END IF;
  SELECT r.fence, r.previous, r.evicted, r.sealed_at INTO fence, previous, evicted, sealed_at
    FROM @schema@._raise(scope, term, 'seal', grace, actor, reason) r;
END $$;
