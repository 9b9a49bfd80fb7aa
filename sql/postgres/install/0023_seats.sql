-- Seats: the right of one server session to write under (scope, term) without a check, until the seat is given back or the session ends
-- (docs/reference/lock-protocol.md, seats). A seat is a row, written after a check in the check's own transaction. A raise of the scope
-- waits until no living session has one, and after the grace ends those that do. Locks: sit() takes the check's, and the key of all seats,
-- shared; stand() takes the rows; a raise takes none besides its own (0003). Keeps F1, F2, F4.

-- A crash empties the table and ends every session; after a clean restart no session has the start that a row names. `session` is a number
-- that the server session itself remembers (_session_number).
CREATE UNLOGGED TABLE IF NOT EXISTS @schema@.seats (
  scope   text COLLATE pg_catalog."C" NOT NULL,
  pid     integer NOT NULL,
  started timestamptz NOT NULL,
  session bigint NOT NULL,
  term    bigint NOT NULL,
  -- Names the seat. Random, because a number could be used again after a crash: an old stand() that arrives late must not remove a newer
  -- seat.
  nonce   uuid NOT NULL UNIQUE,
  -- SHA-256 of the holder's secret.
  secret  bytea NOT NULL,
  since   timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (scope, pid)
) WITH (fillfactor = 70);

-- Every raise moves it, at once and whatever becomes of its transaction. The holders of seats read it.
CREATE SEQUENCE IF NOT EXISTS @schema@.bell;
CREATE SEQUENCE IF NOT EXISTS @schema@.seat_sessions;

-- When `seats` was created. A dump has only the definition. So in a database that was restored in place, this is later than the start of
-- sessions that may still have a seat from before.
DO $$
BEGIN
  IF to_regclass(format('%I.seats_made', @schema_lit@)) IS NULL THEN
    CREATE MATERIALIZED VIEW @schema@.seats_made AS SELECT clock_timestamp() AS at;
  ELSIF NOT (SELECT c.relispopulated FROM pg_class c WHERE c.oid = to_regclass(format('%I.seats_made', @schema_lit@))) THEN
    REFRESH MATERIALIZED VIEW @schema@.seats_made;
  END IF;
END $$;

-- A raise that began under an older version does not wait for seats. at, xid: when the new version was first seen to be installed. Nobody
-- gets a seat until all older transactions have ended.
CREATE TABLE IF NOT EXISTS @schema@.seats_from (
  one     boolean PRIMARY KEY DEFAULT true CHECK (one),
  at      timestamptz,
  xid     xid8,
  settled boolean NOT NULL DEFAULT false
);
-- If `fences` was created in this transaction there is no older version.
INSERT INTO @schema@.seats_from (settled)
  SELECT c.xmin = pg_current_xact_id()::xid FROM pg_class c WHERE c.oid = format('%I.fences', @schema_lit@)::regclass
ON CONFLICT DO NOTHING;

-- A row removed by hand would let a raise overtake a session that goes on writing.
CREATE OR REPLACE FUNCTION @schema@._seats_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP <> 'TRUNCATE' AND current_setting('termgate.changes_seats', true) = 'layer 1' THEN
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
  END IF;
  RAISE EXCEPTION 'TG005 seats are given up by who has them: % refused', TG_OP
    USING ERRCODE = 'TG005', HINT = 'A raise of the scope waits for a session that has one, and ends it when the grace is over; so does pg_terminate_backend(pid).';
END $$;

-- Between a call with true and one with false, layer 1 itself changes seats.
CREATE OR REPLACE FUNCTION @schema@._change_seats(p_begins boolean) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT set_config('termgate.changes_seats', CASE WHEN p_begins THEN 'layer 1' ELSE '' END, true) $$;

-- As in _flush_raise (0001): a prepared transaction has no session that a raise could wait for.
CREATE OR REPLACE FUNCTION @schema@._seat_not_prepared() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('max_prepared_transactions') <> '0' AND current_query() ~* 'prepare([[:space:]]|--.*|/[*].*[*]/)+transaction' THEN
    RAISE EXCEPTION 'cannot PREPARE a transaction that has taken a seat in scope "%"', NEW.scope
      USING ERRCODE = '0A000', HINT = 'Pass the check there by check_term, which takes no seat.';
  END IF;
  RETURN NULL;
END $$;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = format('%I.seats', @schema_lit@)::regclass AND tgname = 'seats_guard') THEN
    CREATE TRIGGER seats_guard BEFORE UPDATE OR DELETE ON @schema@.seats
      FOR EACH ROW EXECUTE FUNCTION @schema@._seats_guard();
    CREATE TRIGGER seats_guard_truncate BEFORE TRUNCATE ON @schema@.seats
      FOR EACH STATEMENT EXECUTE FUNCTION @schema@._seats_guard();
    CREATE CONSTRAINT TRIGGER seats_not_prepared AFTER INSERT OR UPDATE ON @schema@.seats
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION @schema@._seat_not_prepared();
  END IF;
  IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = format('%I.seats', @schema_lit@)::regclass AND g.tgname LIKE 'seats%' AND g.tgenabled <> 'A') THEN
    ALTER TABLE @schema@.seats ENABLE ALWAYS TRIGGER seats_guard;
    ALTER TABLE @schema@.seats ENABLE ALWAYS TRIGGER seats_guard_truncate;
    ALTER TABLE @schema@.seats ENABLE ALWAYS TRIGGER seats_not_prepared;
  END IF;
END $$;

-- sit() takes it shared, and declare_untrusted() exclusively.
CREATE OR REPLACE FUNCTION @schema@._all_seats_key() RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.hashtextextended(@schema_lit@ COLLATE pg_catalog."C", 5) $$;

-- Distinguishes this server session from all others, even from an earlier one with its pid: no client can set what currval() remembers.
-- DISCARD ALL and DISCARD SEQUENCES make the session forget it. Then it cannot prove its seats any more, whose rows stay.
CREATE OR REPLACE FUNCTION @schema@._session_number() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN currval(format('%I.seat_sessions', @schema_lit@)::regclass);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
  -- Not nextval(), which would change what lastval() returns to the client.
  RETURN setval(format('%I.seat_sessions', @schema_lit@)::regclass, 1 + ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint);
END $$;

CREATE OR REPLACE FUNCTION @schema@._ring() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._guard_own_call(true);
  PERFORM nextval(format('%I.bell', @schema_lit@)::regclass);
  PERFORM @schema@._guard_own_call(false);
END $$;

-- Whether all transactions have ended in which a raise of an older version may be running.
CREATE OR REPLACE FUNCTION @schema@._seats_settled() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_at timestamptz;
  v_xid xid8;
BEGIN
  IF (SELECT f.settled FROM @schema@.seats_from f) THEN
    RETURN true;
  END IF;
  SELECT f.at, f.xid INTO v_at, v_xid FROM @schema@.seats_from f FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN false;
  ELSIF v_at IS NULL THEN
    -- This session sees the new version, so every transaction that begins after this moment runs it.
    UPDATE @schema@.seats_from SET at = clock_timestamp(), xid = pg_current_xact_id();
    RETURN false;
  END IF;
  PERFORM pg_stat_clear_snapshot();
  IF pg_snapshot_xmin(pg_current_snapshot()) <= v_xid
     OR EXISTS (SELECT FROM pg_stat_get_activity(NULL) a
                 WHERE a.pid <> pg_backend_pid() AND a.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                   AND (a.xact_start <= v_at OR age(a.backend_xmin) >= age(v_xid::xid))) THEN
    RETURN false;
  END IF;
  UPDATE @schema@.seats_from SET settled = true;
  RETURN true;
END $$;

-- Why the session with this login role cannot have a seat, or NULL. A raise must be able to see that the session has gone, and to end it.
CREATE OR REPLACE FUNCTION @schema@._why_no_seat(p_started timestamptz, p_login oid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_started IS NULL THEN
    RETURN format('role %I, which owns layer 1, may not see this session: GRANT pg_read_all_stats TO %I', current_user, current_user);
  ELSIF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user)
        AND ((SELECT r.rolsuper FROM pg_roles r WHERE r.oid = p_login) OR NOT (pg_has_role(p_login, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))) THEN
    RETURN format('role %I, which owns layer 1, may not end this session: GRANT pg_signal_backend TO %I (superusers stay beyond it)', current_user, current_user);
  END IF;
  RETURN NULL;
END $$;

-- sit(scope, term, secret_hash) → fence, nonce, why: the check, and a seat for this session once the transaction has committed. secret_hash
-- is the SHA-256 of a secret; whoever knows the secret can give the seat back by stand(). nonce NULL: the check has passed, but there is no
-- seat, for the reason in `why`. Not in a savepoint (TG005). Otherwise raises what the check raises.
CREATE OR REPLACE FUNCTION @schema@.sit(scope text, term bigint, secret_hash bytea, OUT fence bigint, OUT nonce uuid, OUT why text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<sit>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  v_user text := current_setting('lock_timeout');
  v_started timestamptz;
  v_login oid;
  v_xid xid;
  v_exists boolean;
BEGIN
  IF octet_length(secret_hash) IS DISTINCT FROM 32 THEN
    RAISE EXCEPTION 'TG005 the hash of the secret has 32 bytes: sha256(secret)' USING ERRCODE = 'TG005';
  END IF;
  IF current_setting('termgate.guarded', true) = 'on' THEN
    fence := @schema@.check_term(scope, term);
    why := 'the guard checks this session';
    RETURN;
  END IF;
  -- The check that always locks: a seat does not satisfy it.
  fence := @schema@._check(scope, term);
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    why := 'a seat is taken at READ COMMITTED';
  ELSIF current_setting('transaction_read_only') = 'on' THEN
    why := 'this transaction is read only';
  ELSE
    SELECT a.backend_start, a.usesysid INTO v_started, v_login FROM pg_stat_get_activity(pg_backend_pid()) a;
    why := @schema@._why_no_seat(v_started, v_login);
  END IF;
  IF why IS NULL AND NOT @schema@._seats_settled() THEN
    why := 'transactions from before an upgrade of layer 1 are still running';
  END IF;
  IF why IS NULL AND NOT pg_try_advisory_xact_lock_shared(@schema@._all_seats_key()) THEN
    why := 'all scopes are being made untrusted';
  END IF;
  IF why IS NOT NULL THEN
    RETURN;
  END IF;
  -- A stand() in a transaction that is still open may hold the row of an earlier seat.
  v_exists := EXISTS (SELECT FROM @schema@.seats s WHERE s.scope = sit.scope AND s.pid = pg_backend_pid());
  PERFORM 1 FROM @schema@.seats s WHERE s.scope = sit.scope AND s.pid = pg_backend_pid() FOR UPDATE SKIP LOCKED;
  IF v_exists AND NOT FOUND THEN
    why := 'an earlier seat is just being given back';
    RETURN;
  END IF;
  -- Removes the rows of sessions that ended without a stand(). Seldom, because each raise does it too.
  IF random() < 0.02 THEN
    PERFORM @schema@._clear_seats(scope);
  END IF;
  nonce := gen_random_uuid();
  PERFORM @schema@._set_lock_timeout(clock_timestamp() + interval '100 ms', v_user), @schema@._change_seats(true);
  INSERT INTO @schema@.seats AS s (scope, pid, started, session, term, nonce, secret)
  VALUES (sit.scope, pg_backend_pid(), v_started, @schema@._session_number(), sit.term, sit.nonce, secret_hash)
  ON CONFLICT ON CONSTRAINT seats_pkey DO UPDATE
     SET started = EXCLUDED.started, session = EXCLUDED.session, term = EXCLUDED.term, nonce = EXCLUDED.nonce, secret = EXCLUDED.secret, since = EXCLUDED.since
  RETURNING s.xmin INTO v_xid;
  PERFORM set_config('lock_timeout', v_user, true), @schema@._change_seats(false);
  -- ROLLBACK TO would release the check's lock.
  IF v_xid <> pg_current_xact_id()::xid THEN
    RAISE EXCEPTION 'TG005 a seat is not taken in a savepoint' USING ERRCODE = 'TG005', HINT = 'A block with EXCEPTION is a savepoint too.';
  END IF;
  PERFORM set_config('termgate.seat', 'on', false);
END $$;

-- stand(nonces, secret) → the nonces whose seats it has removed, which counts from its COMMIT. For sessions that have nothing outstanding;
-- a session must not be used until this is answered. Safe to call again.
CREATE OR REPLACE FUNCTION @schema@.stand(nonces uuid[], secret bytea) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_gone uuid[];
BEGIN
  PERFORM @schema@._change_seats(true);
  WITH mine AS (
    SELECT s.nonce FROM @schema@.seats s WHERE s.nonce = ANY (stand.nonces) AND s.secret = sha256(stand.secret) ORDER BY s.nonce FOR UPDATE
  ), gone AS (
    DELETE FROM @schema@.seats s WHERE s.nonce IN (SELECT m.nonce FROM mine m) RETURNING s.nonce
  )
  SELECT coalesce(array_agg(g.nonce), '{}') INTO v_gone FROM gone g;
  PERFORM @schema@._change_seats(false);
  RETURN v_gone;
END $$;

-- seats_wanted(secret, bell_seen) → bell, place, wanted, nonces: the holder of seats calls this again and again. place: which server and
-- database has answered; if it has changed, all the seats are gone. If the bell has moved: wanted are the scopes in which the holder has
-- seats and whose raise is under way, and nonces are all its seats there.
CREATE OR REPLACE FUNCTION @schema@.seats_wanted(secret bytea, bell_seen bigint, OUT bell bigint, OUT place text, OUT wanted text[], OUT nonces uuid[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  SELECT b.last_value INTO bell FROM @schema@.bell b;
  SELECT concat_ws('/', extract(epoch FROM pg_postmaster_start_time()), d.oid, format('%I.seats', @schema_lit@)::regclass::oid, i.generation, i.trusted_since) INTO place
    FROM pg_database d, @schema@.incarnation i WHERE d.datname = current_database();
  IF bell IS NOT DISTINCT FROM bell_seen THEN
    RETURN;
  END IF;
  WITH held AS MATERIALIZED (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS key FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.mode = 'ExclusiveLock' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  )
  SELECT coalesce(array_agg(DISTINCT s.scope), '{}'), coalesce(array_agg(s.nonce), '{}') INTO wanted, nonces FROM @schema@.seats s
   WHERE s.secret = sha256(seats_wanted.secret) AND EXISTS (SELECT FROM held h WHERE h.key IN (@schema@._turnstile_key(s.scope), @schema@._all_seats_key()));
END $$;

-- The seats of a scope as they are now; p_pid NULL: of all sessions. Above READ COMMITTED the snapshot hides seats that were taken since
-- (40001), and still shows some that were given back. Only the primary key has the present state, so for each session an INSERT is tried
-- and taken back.
CREATE OR REPLACE FUNCTION @schema@._seats_now(p_scope text, p_pid integer DEFAULT NULL) RETURNS SETOF @schema@.seats
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_absent integer[] := '{}';
BEGIN
  IF pg_relation_size(format('%I.seats', @schema_lit@)::regclass) = 0 THEN
    RETURN;
  ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM pg_stat_clear_snapshot();
    BEGIN
      PERFORM set_config('lock_timeout', '100', true);
      WITH tried AS (
        INSERT INTO @schema@.seats (scope, pid, started, session, term, nonce, secret)
        SELECT p_scope, c.pid, '-infinity', 0, 0, gen_random_uuid(), ''
          FROM (SELECT a.pid FROM pg_stat_get_activity(NULL) a UNION SELECT s.pid FROM @schema@.seats s WHERE s.scope = p_scope) c WHERE p_pid IS NULL OR c.pid = p_pid
        ON CONFLICT ON CONSTRAINT seats_pkey DO NOTHING RETURNING pid
      )
      SELECT array_agg(t.pid) INTO v_absent FROM tried t;
      RAISE EXCEPTION 'taken back' USING ERRCODE = 'TGTHR';
    EXCEPTION WHEN SQLSTATE 'TGTHR' THEN
      NULL;
    WHEN lock_not_available THEN
      v_absent := '{}';  -- a stand() is not committed yet
    END;
  END IF;
  RETURN QUERY SELECT s.* FROM @schema@.seats s WHERE s.scope = p_scope AND (p_pid IS NULL OR s.pid = p_pid) AND s.pid <> ALL (coalesce(v_absent, '{}'));
END $$;

-- TG005 if this session itself has a seat in the scope: its row would outlive the raise.
CREATE OR REPLACE FUNCTION @schema@._not_seated(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM @schema@._seats_now(p_scope, pg_backend_pid()) s, pg_stat_get_activity(pg_backend_pid()) a WHERE a.backend_start IS NULL OR a.backend_start = s.started) THEN
    RAISE EXCEPTION 'TG005 this session has a seat in scope "%", which it must give back before that scope is raised here', p_scope
      USING ERRCODE = 'TG005', HINT = 'SELECT @schema@.stand(nonces, secret), by its holder; or raise the scope in another session.';
  END IF;
END $$;

-- Removes the rows of sessions that have ended; skips rows that another session has locked.
CREATE OR REPLACE FUNCTION @schema@._clear_seats(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._change_seats(true);
  DELETE FROM @schema@.seats d WHERE d.nonce IN (
    SELECT s.nonce FROM @schema@.seats s
     WHERE s.scope = p_scope AND NOT EXISTS (SELECT FROM pg_stat_get_activity(NULL) a WHERE a.pid = s.pid AND (a.backend_start IS NULL OR a.backend_start = s.started))
       FOR UPDATE SKIP LOCKED);
  PERFORM @schema@._change_seats(false);
END $$;

-- Who a session is, for messages.
CREATE OR REPLACE FUNCTION @schema@._who_is(p_pid integer) RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT format('pid %s (user %s, application "%s", %s%s)', a.pid, a.usename, a.application_name, coalesce(a.state, 'state not shown'), ' since ' || a.state_change::text)
                     FROM pg_stat_activity a WHERE a.pid = p_pid), 'pid ' || p_pid)
$$;

-- Ends a session that still has this seat, which it verifies once more in a statement of its own. As in _evict (0002), false: layer 1's
-- owner may not signal it; NULL: it has given the seat back, or has ended.
CREATE OR REPLACE FUNCTION @schema@._end_seated(s @schema@.seats) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_stat_clear_snapshot();
  PERFORM 1 FROM pg_stat_get_activity(s.pid) a, @schema@._seats_now(s.scope, s.pid) n WHERE a.backend_start = s.started AND n.nonce = s.nonce;
  IF FOUND THEN
    PERFORM pg_terminate_backend(s.pid);
    RAISE LOG 'Termgate evicts % from its seat in scope "%"', @schema@._who_is(s.pid), s.scope;
    RETURN true;
  END IF;
  RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
  RETURN false;
END $$;

-- Waits until no living session but this one has a seat in the scope, and ends those that have one when the grace is over; returns the pids
-- that it ended. The caller holds turnstile and queue, or the key of all seats, so nobody takes a seat meanwhile. A session is gone when it
-- is not shown any more: by then its transaction has been rolled back or committed. A session whose start the owner of layer 1 may not see
-- counts as living.
CREATE OR REPLACE FUNCTION @schema@._sweep(p_scope text, p_grace_until timestamptz, p_until timestamptz) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_evicted integer[] := '{}';
  v_last timestamptz := p_until + interval '1 s';
  v_rounds integer := 0;
  v_tried boolean := false;
  v_ended boolean;
  v_immovable text;
  v_living @schema@.seats[];
  s @schema@.seats;
BEGIN
  IF NOT EXISTS (SELECT FROM @schema@._seats_now(p_scope)) THEN
    RETURN v_evicted;
  END IF;
  LOOP
    PERFORM pg_stat_clear_snapshot();  -- otherwise the view of sessions stays the same within a transaction
    v_living := ARRAY(SELECT n FROM @schema@._seats_now(p_scope) n JOIN pg_stat_get_activity(NULL) a ON a.pid = n.pid AND (a.backend_start IS NULL OR a.backend_start = n.started)
                       WHERE n.pid <> pg_backend_pid());
    EXIT WHEN v_living = '{}';
    IF clock_timestamp() >= p_grace_until THEN
      v_immovable := CASE WHEN v_tried AND clock_timestamp() >= p_until THEN @schema@._who_is(v_living[1].pid) END;
      v_tried := true;
      FOREACH s IN ARRAY v_living LOOP
        IF (SELECT a.backend_start IS NULL FROM pg_stat_get_activity(s.pid) a) THEN
          v_immovable := format('%s; role %I may not see whether it is the same session still: GRANT pg_read_all_stats TO %I', @schema@._who_is(s.pid), current_user, current_user);
          CONTINUE;
        END IF;
        CONTINUE WHEN s.pid = ANY (v_evicted);
        v_ended := @schema@._end_seated(s);
        IF NOT v_ended THEN
          v_immovable := format('%s; role %I may not signal it: GRANT pg_signal_backend TO %I (superusers stay beyond it)', @schema@._who_is(s.pid), current_user, current_user);
        ELSIF v_ended THEN
          v_evicted := v_evicted || s.pid;
          p_until := least(v_last, greatest(p_until, clock_timestamp() + interval '500 ms'));
        END IF;
      END LOOP;
      IF v_immovable IS NOT NULL THEN
        RAISE EXCEPTION 'TG006 raising scope "%" is blocked by a session that has a seat in it: %', p_scope, v_immovable
          USING ERRCODE = 'TG006', HINT = 'The fence is unchanged. End what is named here, then raise again.';
      END IF;
    END IF;
    v_rounds := v_rounds + 1;
    PERFORM pg_sleep(CASE WHEN v_rounds < 50 THEN 0.001 ELSE 0.005 END);
  END LOOP;
  IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
    PERFORM @schema@._clear_seats(p_scope);
  END IF;
  RETURN v_evicted;
END $$;

-- Like _sweep(), for all scopes, before they all become untrusted. Nobody can take a seat until the end of this transaction.
CREATE OR REPLACE FUNCTION @schema@._sweep_all() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_user text := current_setting('lock_timeout');
  v_grace_until timestamptz := clock_timestamp() + @schema@._wait('eviction_grace_ms');
  v_until timestamptz := v_grace_until + @schema@._wait('check_wait_ms');
  v_scope text;
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'TG005 this needs READ COMMITTED: at % a transaction cannot see who sits where', upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'TG005', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
  END IF;
  BEGIN
    PERFORM @schema@._set_lock_timeout(v_until, v_user);
    PERFORM pg_advisory_xact_lock(@schema@._all_seats_key());
    PERFORM set_config('lock_timeout', v_user, true);
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'TG006 a session is just sitting down, and has not ended its transaction' USING ERRCODE = 'TG006', HINT = 'End the sessions of applications first: they may still be writing.';
  END;
  PERFORM @schema@._ring();
  FOR v_scope IN SELECT DISTINCT s.scope FROM @schema@.seats s LOOP
    PERFORM @schema@._not_seated(v_scope);
    PERFORM @schema@._audit_evictions(v_scope, NULL, @schema@._sweep(v_scope, v_grace_until, v_until));
  END LOOP;
END $$;

-- After a restore in place: sessions that are older than `seats` may have had a seat in the earlier table, which this one does not show.
-- They are ended when the grace is over. Layer 1 gives no seat to a session whose start its owner may not see. But if the owner could see
-- it before the restore and cannot now, the session may have a seat from then: hence the warning.
CREATE OR REPLACE FUNCTION @schema@._end_older_sessions() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_made timestamptz := (SELECT m.at FROM @schema@.seats_made m);
  v_database oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
  v_grace_until timestamptz := clock_timestamp() + @schema@._wait('eviction_grace_ms');
  v_until timestamptz := v_grace_until + @schema@._wait('check_wait_ms');
  v_older integer[];
  v_unseen bigint;
  p integer;
BEGIN
  LOOP
    PERFORM pg_stat_clear_snapshot();
    SELECT array_agg(a.pid) FILTER (WHERE a.backend_start < v_made AND a.backend_type = 'client backend'), count(*) FILTER (WHERE a.backend_start IS NULL) INTO v_older, v_unseen
      FROM pg_stat_get_activity(NULL) a WHERE a.datid = v_database AND a.pid <> pg_backend_pid();
    EXIT WHEN v_older IS NULL;
    IF clock_timestamp() >= v_grace_until THEN
      FOREACH p IN ARRAY v_older LOOP
        BEGIN
          PERFORM pg_stat_clear_snapshot();
          PERFORM 1 FROM pg_stat_get_activity(p) a WHERE a.backend_start < v_made;
          CONTINUE WHEN NOT FOUND;
          PERFORM pg_terminate_backend(p);
          RAISE LOG 'Termgate ends %, which is older than the restored database', @schema@._who_is(p);
        EXCEPTION WHEN insufficient_privilege THEN
          v_until := '-infinity';
          EXIT;
        END;
      END LOOP;
      IF clock_timestamp() >= v_until THEN
        RAISE EXCEPTION 'TG006 this database was restored in place beside % of older sessions, which may be writing without a check: %', cardinality(v_older), @schema@._who_is(p)
          USING ERRCODE = 'TG006', HINT = 'Nothing was changed. End what is named here, then try again.';
      END IF;
    END IF;
    PERFORM pg_sleep(0.01);
  END LOOP;
  IF v_unseen > 0 AND pg_relation_size(format('%I.seats', @schema_lit@)::regclass) > 0 THEN
    RAISE WARNING '% sessions may not be seen by role %: if they are older than the restored database, and had seats in it, they write without a check', v_unseen, current_user
      USING HINT = format('GRANT pg_read_all_stats TO %I, or end them.', current_user);
  END IF;
END $$;

-- Rows for doctor(), by _doctor_layer1 (0014).
CREATE OR REPLACE FUNCTION @schema@._doctor_seats() RETURNS TABLE (severity text, object text, problem text, remedy text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
    SELECT 'error', format('trigger %I on seats', w.name), 'it is gone or not ENABLE ALWAYS: a raise could pass over sessions that sit', 'run termgate init again'
      FROM unnest(ARRAY['seats_guard', 'seats_guard_truncate', 'seats_not_prepared']) w(name)
     WHERE NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = format('%I.seats', @schema_lit@)::regclass AND g.tgname = w.name AND g.tgenabled = 'A');
  RETURN QUERY
    SELECT 'info', 'role ' || quote_ident(current_user), 'it owns the functions but may not see other roles'' sessions: their sessions get no seats, so every write is checked, which costs time and nothing else',
           format('GRANT pg_read_all_stats TO %I', current_user)
     WHERE NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) AND NOT pg_has_role('pg_read_all_stats', 'USAGE');
  IF pg_is_in_recovery() THEN
    RETURN;  -- nobody has a seat on a standby, and it cannot read such a table
  END IF;
  RETURN QUERY
    SELECT 'warning', format('scope "%s"', s.scope), format('a raise of it ends with TG006: %s has a seat in it, and %s', @schema@._who_is(s.pid),
             coalesce(@schema@._why_no_seat(a.backend_start, a.usesysid), 'may not be ended')), format('let it stand up, or end it: SELECT pg_terminate_backend(%s)', s.pid)
      FROM @schema@.seats s JOIN pg_stat_get_activity(NULL) a ON a.pid = s.pid AND (a.backend_start IS NULL OR a.backend_start = s.started)
     WHERE @schema@._why_no_seat(a.backend_start, a.usesysid) IS NOT NULL ORDER BY s.scope LIMIT 100;
  RETURN QUERY
    SELECT 'info', 'seats', format('the table has %s MB: sessions sit down and stand up beside a long transaction, which keeps the rows that are gone', pg_relation_size(c.oid) / 1048576),
           'end that transaction: SELECT pid, xact_start FROM pg_stat_activity ORDER BY xact_start LIMIT 1; then VACUUM @schema@.seats'
      FROM pg_class c WHERE c.oid = format('%I.seats', @schema_lit@)::regclass AND pg_relation_size(c.oid) > 16777216;
END $$;
