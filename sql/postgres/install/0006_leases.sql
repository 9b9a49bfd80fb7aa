-- Leases. Locks of an acquisition: the fence's (as any raise), then the lease's key and row. A renewal or a release takes the lease's key
-- without waiting for acquisitions or other renewals, so that it never deadlocks with one. The time is clock_timestamp(), read after the
-- locks. Keeps F2, F3, F4.

-- No months: an interval compares a month as 30 days but adds a calendar month, so '1200 months -36000 days 1 s' would be years.
CREATE OR REPLACE FUNCTION @schema@._need_ttl(p_ttl interval) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_ttl IS NULL OR p_ttl NOT BETWEEN interval '100 ms' AND interval '1 day' OR date_trunc('month', p_ttl) <> interval '0' THEN
    RAISE EXCEPTION 'TG005 the TTL must be from 100 ms to 1 day, not %', coalesce((extract(epoch FROM p_ttl) * 1000)::bigint || ' ms', 'NULL') USING ERRCODE = 'TG005';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION @schema@._need_owner(p_owner text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(p_owner, '') = '' OR char_length(p_owner) > 200 THEN
    RAISE EXCEPTION 'TG005 the owner of a lease must be named, in 1 to 200 characters' USING ERRCODE = 'TG005';
  END IF;
END $$;

-- Whether this very transaction has acquired the lease as it is now, and the fence is still at its term. The row has the transaction's id,
-- and ROLLBACK TO removes both. That the row is not committed yet distinguishes it from a restored row, if this server has come to the same
-- id.
CREATE OR REPLACE FUNCTION @schema@._acquired_here(p_scope text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_here bigint := pg_current_xact_id_if_assigned()::text::bigint;
  v_xmin bigint;
BEGIN
  IF v_here IS NULL THEN
    RETURN false;
  END IF;
  SELECT l.xmin::text::bigint INTO v_xmin FROM @schema@.leases l JOIN @schema@.fences f ON f.scope = l.scope AND f.term = l.term
   WHERE l.scope = p_scope AND l.acquired_xid::text = v_here::text;
  -- The row's own id may be a savepoint's; both ids are taken to be of the same 2^32.
  v_xmin := (v_here & ~4294967295::bigint) | v_xmin;
  RETURN coalesce(v_xmin >= v_here AND pg_xact_status(v_xmin::text::xid8) = 'in progress', false);
EXCEPTION WHEN invalid_parameter_value THEN
  RETURN false;  -- an id in the future: not of this server
END $$;

-- acquire_lease(scope, owner, ttl, endpoint, grace): takes a free or expired lease, or the caller's own, under a new term, and seals it in
-- the same transaction. If another owner's lease is live: acquired = false at once, without a lock (but for _bound_lease, 0021). Afterwards
-- an untrusted scope is trusted again: its term jumps by 2^32 to 2^33. Called again in the same transaction with the same owner, TTL and
-- endpoint it returns the first call's row, because SELECT (acquire_lease(...)).* calls it once for each column.
CREATE OR REPLACE FUNCTION @schema@.acquire_lease(scope text, owner text, ttl interval, endpoint text DEFAULT NULL, grace interval DEFAULT NULL,
                                                  OUT acquired boolean, OUT term bigint, OUT expires_at timestamptz, OUT owner_id text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<acquire_lease>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  owner text COLLATE pg_catalog."C" := owner;
  endpoint text COLLATE pg_catalog."C" := endpoint;
  l @schema@.leases;
  f @schema@.fences;
  v_untrusted text;
  v_known bigint;
  v_next bigint;
  v_now timestamptz;
  v_generation bigint;
  v_evicted integer[];
  v_grace interval := @schema@._grace(grace);
  v_grace_until timestamptz;
  v_until timestamptz;
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_owner(owner);
  PERFORM @schema@._need_ttl(ttl);
  IF char_length(endpoint) > 1000 THEN
    RAISE EXCEPTION 'TG005 the endpoint has % characters: at most 1000 are allowed', char_length(endpoint) USING ERRCODE = 'TG005';
  END IF;
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = acquire_lease.scope;
  -- Only in the first statement of a transaction, which is mostly its only one: a transaction that stays open would keep the row from the
  -- holder's renewals. The first 10 ms count as that, because PostgreSQL 18 reads the clock again between the messages of one statement.
  IF l.owner_id <> owner AND l.released_at IS NULL AND l.renewed_at > clock_timestamp()
     AND statement_timestamp() - transaction_timestamp() < interval '10 ms' THEN
    PERFORM @schema@._bound_lease(scope);
    SELECT * INTO l FROM @schema@.leases t WHERE t.scope = acquire_lease.scope;
  END IF;
  IF l.owner_id <> owner AND l.released_at IS NULL AND l.expires_at > clock_timestamp() THEN
    acquired := false; term := l.term; expires_at := l.expires_at; owner_id := l.owner_id;
    RETURN;
  END IF;
  IF l.owner_id = owner AND l.released_at IS NULL AND l.expires_at > clock_timestamp() AND @schema@._acquired_here(scope) THEN
    IF l.acquired_ttl IS DISTINCT FROM ttl OR l.endpoint IS DISTINCT FROM endpoint THEN
      RAISE EXCEPTION 'TG005 this transaction has acquired the lease of scope "%" already, with another TTL or endpoint', scope
        USING ERRCODE = 'TG005', HINT = format('Use renew_lease: SELECT @schema@.renew_lease(%L, %L, %s, %L).', scope, owner, l.term, ttl);
    END IF;
    acquired := true; term := l.term; expires_at := l.expires_at; owner_id := l.owner_id;
    RETURN;
  END IF;
  IF NOT @schema@._may_follow(scope, l.term, owner) THEN
    acquired := false; term := l.term; expires_at := l.expires_at; owner_id := l.owner_id;
    RETURN;
  END IF;
  IF grace IS NULL AND l.released_at IS NULL AND l.expires_at <= clock_timestamp() THEN
    v_grace := least(v_grace, @schema@._wait('grace_after_expiry_ms'));  -- the lease's own time was the grace, but giving a seat back takes a moment
  END IF;
  v_known := @schema@._shown(scope);
  IF v_known >= 4611686018427387904 THEN
    PERFORM @schema@._out_of_terms(scope, v_known);
  END IF;
  v_next := @schema@._next_term(scope, v_known, v_grace);
  IF v_next > 4611686018427387904 THEN
    PERFORM @schema@._out_of_terms(scope, v_next - 1);
  END IF;
  -- A competitor may have acquired the lease while this one waited in _next_term.
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = acquire_lease.scope;
  IF l.owner_id <> owner AND l.released_at IS NULL AND l.expires_at > clock_timestamp() THEN
    acquired := false; term := l.term; expires_at := l.expires_at; owner_id := l.owner_id;
    RETURN;
  END IF;
  IF v_next > v_known + 1 THEN
    v_grace := interval '0';  -- the other acquisition has had its grace
  END IF;
  v_grace_until := clock_timestamp() + v_grace;
  v_until := v_grace_until + @schema@._wait('check_wait_ms');
  BEGIN
    v_evicted := @schema@._take_turnstile(scope, v_next, v_grace_until, v_until);
    PERFORM @schema@._need_snapshot(scope);
    -- Read again, now that nobody else can acquire: the writers of another owner that has won must not be evicted for nothing.
    SELECT * INTO l FROM @schema@.leases t WHERE t.scope = acquire_lease.scope;
    IF l.owner_id <> owner AND l.released_at IS NULL AND l.expires_at > clock_timestamp() THEN
      RAISE EXCEPTION 'lost' USING ERRCODE = 'TGTHR';  -- gives the turnstile back
    END IF;
  EXCEPTION WHEN SQLSTATE 'TGTHR' THEN
    PERFORM @schema@._audit_evictions(scope, v_next, v_evicted);
    acquired := false; term := l.term; expires_at := l.expires_at; owner_id := l.owner_id;
    RETURN;
  END;
  v_evicted := v_evicted || @schema@._take_queue(scope, v_next, v_grace_until, v_until);
  v_evicted := v_evicted || @schema@._take(@schema@._lease_key(scope), scope, v_next, v_grace_until, v_until);
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = acquire_lease.scope FOR UPDATE;
  v_now := clock_timestamp();
  IF (l.owner_id <> owner AND l.released_at IS NULL AND l.expires_at > v_now) OR NOT @schema@._may_follow(scope, l.term, owner) THEN
    acquired := false; term := l.term; expires_at := l.expires_at; owner_id := l.owner_id;
    RETURN;
  END IF;
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = acquire_lease.scope FOR UPDATE;
  v_known := greatest(l.term, v_next - 1, @schema@._evidence(scope));
  v_untrusted := @schema@._why_untrusted(f.generation);
  IF v_untrusted IS NOT NULL THEN
    -- Above whatever was lost. The next failover may lose this very acquisition, and its successor must not issue the same term again. So a
    -- later timeline jumps farther, and a random part distinguishes two promotions that chose the same timeline number.
    v_known := v_known + 4294967296 + (('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint % 1024) * 4194304 + floor(random() * 4194304)::bigint;
    v_generation := @schema@._admit_incarnation(NULL);
  END IF;
  term := v_known + 1;
  IF term > 4611686018427387904 THEN
    PERFORM @schema@._out_of_terms(scope, v_known);
  END IF;
  -- A competitor that won meanwhile may have left a higher term than the one announced.
  PERFORM @schema@._announce(scope, term);
  expires_at := v_now + ttl;
  owner_id := owner;
  acquired := true;
  INSERT INTO @schema@.leases AS t (scope, owner_id, term, expires_at, acquired_at, renewed_at, released_at, endpoint, acquired_xid, acquired_ttl)
  VALUES (acquire_lease.scope, acquire_lease.owner, acquire_lease.term, acquire_lease.expires_at, v_now, v_now, NULL, acquire_lease.endpoint, pg_current_xact_id(), ttl)
  ON CONFLICT ON CONSTRAINT leases_pkey DO UPDATE
     SET owner_id = EXCLUDED.owner_id, term = EXCLUDED.term, expires_at = EXCLUDED.expires_at, acquired_at = EXCLUDED.acquired_at,
         renewed_at = EXCLUDED.renewed_at, released_at = NULL, endpoint = EXCLUDED.endpoint, acquired_xid = EXCLUDED.acquired_xid, acquired_ttl = EXCLUDED.acquired_ttl;
  PERFORM @schema@._audit_evictions(scope, term, v_evicted);
  PERFORM @schema@._handed_over(scope, l.term, l.released_at, l.expires_at, owner, term, v_now);
  PERFORM @schema@._set_fence(scope, term, 'acquire', owner,
    jsonb_strip_nulls(jsonb_build_object('owner', owner, 'previous_owner', l.owner_id, 'previous', f.term, 'evicted', cardinality(v_evicted),
                                         'expires_at', expires_at, 'endpoint', endpoint, 'was_untrusted', v_untrusted)), v_generation);
END $$;

CREATE OR REPLACE FUNCTION @schema@._out_of_terms(p_scope text, p_known bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'TG005 scope "%" stands at %: no term is left above it', p_scope, p_known
    USING ERRCODE = 'TG005', HINT = 'A term mistyped this high is taken back by an operator: reset_fence(scope, term, actor, reason).';
END $$;

DROP FUNCTION IF EXISTS @schema@._lease_nowait(text);  -- as it was up to version 19

-- Takes the keys of leases, exclusively, for a renewal, a release or a request of a hand-over; returns which of them it got. It does not
-- wait for an acquisition, which has announced itself, or for another renewal, which holds a lock on the table of leases. Nobody else needs
-- such a key: any other holder is evicted after p_patience, or after the eviction grace if that is less (p_patience NULL: after the grace).
CREATE OR REPLACE FUNCTION @schema@._take_leases(p_scopes text[], p_patience interval) RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_got boolean[] := array_fill(false, ARRAY[cardinality(p_scopes)]);
  v_patience interval := least(p_patience, @schema@._wait('eviction_grace_ms'));
  v_grace_until timestamptz := clock_timestamp() + v_patience;
  v_until timestamptz := v_grace_until + greatest(4 * v_patience, interval '500 ms');
  v_strangers integer := 0;
  v_pause_ms integer := 10;
  v_user text := current_setting('lock_timeout');
  h record;
BEGIN
  LOOP
    SELECT array_agg(a.got OR pg_try_advisory_xact_lock(@schema@._lease_key(a.scope)) ORDER BY a.place) INTO v_got
      FROM unnest(p_scopes, v_got) WITH ORDINALITY AS a(scope, got, place);
    IF NOT false = ANY (v_got) OR clock_timestamp() >= v_until THEN
      RETURN v_got;
    END IF;
    v_strangers := 0;
    FOR h IN SELECT a.scope, w.* FROM unnest(p_scopes, v_got) AS a(scope, got), LATERAL @schema@._in_the_way(@schema@._lease_key(a.scope), a.scope) w
              WHERE NOT a.got AND w.pid IS NOT NULL AND w.raising IS NULL
                AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = w.pid AND l.locktype = 'relation' AND l.relation = format('%I.leases', @schema_lit@)::regclass AND l.mode <> 'AccessShareLock') LOOP
      v_strangers := v_strangers + 1;
      CONTINUE WHEN clock_timestamp() < v_grace_until;
      CASE @schema@._evict(@schema@._lease_key(h.scope), h.scope, h.pid, h.who)
        WHEN true THEN PERFORM @schema@._audit_evictions(h.scope, NULL, ARRAY[h.pid]);
        WHEN false THEN v_strangers := v_strangers - 1;  -- it may not be signalled
        ELSE NULL;
      END CASE;
    END LOOP;
    IF v_strangers = 0 THEN
      RETURN v_got;
    END IF;
    -- Waits in the queue of one of them, so that nobody else gets it first.
    BEGIN
      v_pause_ms := CASE WHEN clock_timestamp() < v_grace_until THEN 10 ELSE greatest(2 * v_pause_ms, 100) END;  -- as in _take()
      PERFORM set_config('lock_timeout', v_pause_ms::text, true);
      PERFORM pg_advisory_xact_lock(@schema@._lease_key(p_scopes[array_position(v_got, false)]));
      PERFORM set_config('lock_timeout', v_user, true);
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END LOOP;
END $$;

-- Takes the key of one lease. TG006 names the sessions in the way.
CREATE OR REPLACE FUNCTION @schema@._need_lease(p_scope text, p_patience interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT (@schema@._take_leases(ARRAY[p_scope], p_patience))[1] THEN
    RAISE EXCEPTION 'TG006 the lease of scope "%" is being worked on by %', p_scope, @schema@._blockers(@schema@._lease_key(p_scope), p_scope)
      USING ERRCODE = 'TG006', HINT = 'Nothing was changed. Try again at once.';
  END IF;
END $$;

-- renew_lease(scope, owner, term, ttl) → (renewed, expires_at, leave_before). Only the holder can renew, under the same term, before
-- expiry. leave_before: the holder is asked to give the lease back by then (0024); after that it is renewed no more.
DROP FUNCTION IF EXISTS @schema@.renew_lease(text, text, bigint, interval);  -- up to version 23 without leave_before
CREATE FUNCTION @schema@.renew_lease(scope text, owner text, term bigint, ttl interval, OUT renewed boolean, OUT expires_at timestamptz, OUT leave_before timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<renew_lease>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  owner text COLLATE pg_catalog."C" := owner;
  l @schema@.leases;
  v_now timestamptz;
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_owner(owner);
  PERFORM @schema@._need_term(term);
  PERFORM @schema@._need_ttl(ttl);
  PERFORM @schema@._need_lease(scope, ttl / 10);
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = renew_lease.scope FOR UPDATE;
  PERFORM @schema@._need_trusted(scope, (SELECT f.generation FROM @schema@.fences f WHERE f.scope = renew_lease.scope));
  SELECT h.leave_before INTO leave_before FROM @schema@.hand_overs h WHERE h.scope = l.scope AND h.term = l.term;
  v_now := clock_timestamp();
  renewed := coalesce(l.owner_id = owner AND l.term = renew_lease.term AND l.released_at IS NULL AND l.expires_at > v_now AND coalesce(leave_before > v_now, true), false);
  expires_at := l.expires_at;
  IF renewed THEN
    expires_at := v_now + ttl;
    UPDATE @schema@.leases t SET expires_at = renew_lease.expires_at, renewed_at = v_now WHERE t.scope = renew_lease.scope;
  END IF;
END $$;

-- release_lease(scope, owner, term) → whether there was such a lease to release. Row, term and fence stay.
CREATE OR REPLACE FUNCTION @schema@.release_lease(scope text, owner text, term bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<release_lease>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  owner text COLLATE pg_catalog."C" := owner;
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_owner(owner);
  PERFORM @schema@._need_term(term);
  PERFORM @schema@._need_lease(scope, NULL);
  UPDATE @schema@.leases l SET released_at = clock_timestamp()
   WHERE l.scope = release_lease.scope AND l.owner_id = release_lease.owner AND l.term = release_lease.term AND l.released_at IS NULL;
  IF FOUND THEN
    PERFORM @schema@._audit('release', scope, owner, jsonb_build_object('term', term, 'owner', owner));
  END IF;
  RETURN FOUND;
END $$;

-- force_release(scope, actor, reason) → whether there was a lease to end. Seals the next term, which shuts the holder out at once.
CREATE OR REPLACE FUNCTION @schema@.force_release(scope text, actor text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<force_release>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  actor text COLLATE pg_catalog."C" := actor;
  reason text COLLATE pg_catalog."C" := reason;
  l @schema@.leases;
  f @schema@.fences;
  v_known bigint;
  v_term bigint;
  v_evicted integer[];
  v_start timestamptz;
  v_grace interval := @schema@._grace(NULL);
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_reason(actor, reason);
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = force_release.scope;
  IF l.scope IS NULL OR l.released_at IS NOT NULL THEN
    RETURN false;
  END IF;
  v_known := @schema@._shown(scope);
  v_term := @schema@._next_term(scope, v_known, NULL);
  IF v_term > v_known + 1 THEN
    v_grace := interval '0';  -- as in acquire_lease
  END IF;
  v_start := clock_timestamp();
  v_evicted := @schema@._exclude(scope, least(v_term, 4611686018427387904), v_grace);
  v_evicted := v_evicted || @schema@._take(@schema@._lease_key(scope), scope, least(v_term, 4611686018427387904), v_start + v_grace,
                                           v_start + v_grace + @schema@._wait('check_wait_ms'));
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = force_release.scope FOR UPDATE;
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = force_release.scope FOR UPDATE;
  IF l.released_at IS NOT NULL THEN
    RETURN false;
  END IF;
  PERFORM @schema@._need_trusted(scope, f.generation);
  v_term := greatest(l.term, v_term - 1, @schema@._evidence(scope)) + 1;
  IF v_term > 4611686018427387904 THEN
    PERFORM @schema@._out_of_terms(scope, v_term - 1);
  END IF;
  -- The lease keeps the term that its holder had; the fence is above it.
  UPDATE @schema@.leases t SET released_at = clock_timestamp() WHERE t.scope = force_release.scope;
  PERFORM @schema@._audit_evictions(scope, v_term, v_evicted);
  PERFORM @schema@._set_fence(scope, v_term, 'force_release', actor,
    jsonb_build_object('owner', l.owner_id, 'previous', f.term, 'reason', reason, 'evicted', cardinality(v_evicted)));
  RETURN true;
END $$;
