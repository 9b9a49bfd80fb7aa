-- Planned hand-over: the holder of a lease is asked to leave, drains, gives the lease back, and its successor takes it. The request affects
-- only acquisitions and renewals. As long as the drain lasts, only the successor that it names may take the lease, or, if it names none,
-- anybody but the holder. After the drain the holder's lease is renewed no more, ends, and is free as after a crash. The time is
-- clock_timestamp(), read after the locks. Keeps F2, F3: terms and fences are those of acquire_lease.

-- The last hand-over of each scope. It belongs to one term of the lease. The next acquisition ends it, and then the row is the receipt.
CREATE TABLE IF NOT EXISTS @schema@.hand_overs (
  scope        text COLLATE pg_catalog."C" PRIMARY KEY,
  owner_id     text NOT NULL,
  term         bigint NOT NULL,
  successor    text COLLATE pg_catalog."C",
  requested_at timestamptz NOT NULL,
  requested_by text NOT NULL,
  reason       text NOT NULL,
  leave_before timestamptz NOT NULL,
  left_at      timestamptz,
  ended_at     timestamptz,
  next_owner   text,
  next_term    bigint,
  taken_at     timestamptz
) WITH (fillfactor = 50);

-- Whether p_owner may take the lease now, whose term is p_term.
CREATE OR REPLACE FUNCTION @schema@._may_follow(p_scope text, p_term bigint, p_owner text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM @schema@.hand_overs h
                      WHERE h.scope = p_scope AND h.term = p_term AND h.taken_at IS NULL AND h.leave_before > clock_timestamp()
                        AND (h.owner_id = p_owner OR NOT coalesce(CASE WHEN right(h.successor, 1) = '*' THEN starts_with(p_owner, left(h.successor, -1)) ELSE p_owner = h.successor END, true)))
$$;
REVOKE ALL ON FUNCTION @schema@._may_follow(text, bigint, text) FROM PUBLIC;

-- For acquire_lease, under the lease's row lock: writes the receipt. p_before (its term), p_released and p_expires: the lease as it was.
CREATE OR REPLACE FUNCTION @schema@._handed_over(p_scope text, p_before bigint, p_released timestamptz, p_expires timestamptz, p_owner text, p_term bigint, p_now timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  h @schema@.hand_overs;
BEGIN
  UPDATE @schema@.hand_overs t SET left_at = p_released, ended_at = coalesce(p_released, least(p_expires, p_now)), next_owner = p_owner, next_term = p_term, taken_at = p_now
   WHERE t.scope = p_scope AND t.term = p_before AND t.taken_at IS NULL RETURNING * INTO h;
  IF FOUND THEN
    PERFORM @schema@._audit('hand_over', h.scope, h.requested_by, jsonb_build_object('term', p_term, 'owner', p_owner, 'previous', h.term, 'previous_owner', h.owner_id, 'left', p_released IS NOT NULL,
      'gap_ms', greatest(round(extract(epoch FROM p_now - h.ended_at) * 1000), 0), 'reason', h.reason));
  END IF;
END $$;
REVOKE ALL ON FUNCTION @schema@._handed_over(text, bigint, timestamptz, timestamptz, text, bigint, timestamptz) FROM PUBLIC;

-- request_hand_over(scope, successor, drain, actor, reason) → (requested, owner_id, term, leave_before). Asks the holder to leave within
-- the drain. The holder finds out with its next renewal, or, if it listens, at once after notify_raised(scope). successor: an owner, or the
-- beginning of owners' names and a *. requested false: nobody holds the lease. A later request replaces this one. Locks: the lease's key
-- and row, as in renew_lease.
CREATE OR REPLACE FUNCTION @schema@.request_hand_over(scope text, successor text DEFAULT NULL, drain interval DEFAULT '30 s', actor text DEFAULT NULL, reason text DEFAULT NULL,
                                                      OUT requested boolean, OUT owner_id text, OUT term bigint, OUT leave_before timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<request_hand_over>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  successor text COLLATE pg_catalog."C" := successor;
  l @schema@.leases;
  v_now timestamptz;
  v_user text := current_setting('lock_timeout');
  v_actor text := coalesce(actor, session_user);
  v_reason text := coalesce(reason, 'planned');
BEGIN
  PERFORM @schema@._need_scope(scope);
  IF successor IS NOT NULL THEN
    PERFORM @schema@._need_owner(successor);
  END IF;
  IF drain IS NULL OR drain NOT BETWEEN interval '100 ms' AND interval '1 day' OR date_trunc('month', drain) <> interval '0' THEN
    RAISE EXCEPTION 'TG005 the drain must be from 100 ms to 1 day, not %', coalesce((extract(epoch FROM drain) * 1000)::bigint || ' ms', 'NULL') USING ERRCODE = 'TG005';
  END IF;
  PERFORM @schema@._need_reason(v_actor, v_reason);
  -- A renewal or an acquisition that holds the key usually ends within moments. _need_lease names or evicts a session that does not.
  BEGIN
    PERFORM @schema@._set_lock_timeout(clock_timestamp() + interval '1 s', v_user);
    PERFORM pg_advisory_xact_lock(@schema@._lease_key(scope));
    PERFORM set_config('lock_timeout', v_user, true);
  EXCEPTION WHEN lock_not_available THEN
    NULL;
  END;
  PERFORM @schema@._need_lease(scope, NULL);
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = request_hand_over.scope FOR UPDATE;
  v_now := clock_timestamp();
  requested := coalesce(l.released_at IS NULL AND l.expires_at > v_now, false);
  IF NOT requested THEN
    RETURN;
  ELSIF l.owner_id = successor THEN
    RAISE EXCEPTION 'TG005 "%" holds the lease of scope "%" itself: a hand-over goes to another', successor, scope USING ERRCODE = 'TG005';
  END IF;
  owner_id := l.owner_id;
  term := l.term;
  leave_before := v_now + drain;
  INSERT INTO @schema@.hand_overs AS h (scope, owner_id, term, successor, requested_at, requested_by, reason, leave_before)
  VALUES (l.scope, l.owner_id, l.term, request_hand_over.successor, v_now, v_actor, v_reason, request_hand_over.leave_before)
  ON CONFLICT ON CONSTRAINT hand_overs_pkey DO UPDATE
     SET owner_id = EXCLUDED.owner_id, term = EXCLUDED.term, successor = EXCLUDED.successor, requested_at = EXCLUDED.requested_at, requested_by = EXCLUDED.requested_by,
         reason = EXCLUDED.reason, leave_before = EXCLUDED.leave_before, left_at = NULL, ended_at = NULL, next_owner = NULL, next_term = NULL, taken_at = NULL;
  PERFORM @schema@._audit('request_hand_over', scope, v_actor, jsonb_strip_nulls(jsonb_build_object('owner', l.owner_id, 'term', l.term, 'to', successor, 'leave_before', leave_before, 'reason', v_reason)));
END $$;
REVOKE ALL ON FUNCTION @schema@.request_hand_over(text, text, interval, text, text) FROM PUBLIC;

-- state: asked (the holder has not left yet), left (the successor may take the lease), taken (by next_owner), over (nobody has taken it in
-- time). gap_ms: how long nobody held the lease.
CREATE OR REPLACE VIEW @schema@.hand_over_status AS
  SELECT h.scope, h.owner_id, h.term, h.successor, h.requested_at, h.requested_by, h.reason, h.leave_before, n.left_at, h.next_owner, h.next_term, h.taken_at,
         greatest(round(extract(epoch FROM h.taken_at - h.ended_at) * 1000), 0)::bigint AS gap_ms,
         CASE WHEN h.taken_at IS NOT NULL THEN 'taken' WHEN l.term IS DISTINCT FROM h.term OR h.leave_before <= clock_timestamp() THEN 'over' WHEN n.left_at IS NOT NULL THEN 'left' ELSE 'asked' END AS state
    FROM @schema@.hand_overs h LEFT JOIN @schema@.leases l ON l.scope = h.scope,
         LATERAL (SELECT coalesce(h.left_at, CASE WHEN h.taken_at IS NULL AND l.term = h.term THEN l.released_at END) AS left_at) n;
