-- A transaction over very many scopes. Beyond some 60 of them a check keeps no more advisory locks (60,000 would fill the lock table of the whole server):
-- it tests turnstile and queue, then holds the fence row FOR SHARE, which costs no lock table at all; the pass is a row of
-- `passes`. A raise waits for the row after its own two locks. One shared "bucket" lock (hash modulo 64) tells it where to look for
-- whom to evict; the row's own locker list decides. Keeps F1, F2, F4.

CREATE OR REPLACE FUNCTION @schema@._bucket_class() RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT (pg_catalog.hashtextextended(@schema_lit@ COLLATE pg_catalog."C", 6) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 $$;

-- The term under which this transaction has passed the scope in the escalated way; NULL: it has not.
CREATE OR REPLACE FUNCTION @schema@._pass_of(p_scope text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
  RETURN (SELECT p.term FROM @schema@.passes p WHERE p.xid = pg_current_xact_id_if_assigned() AND p.scope = p_scope);
END $$;

CREATE OR REPLACE FUNCTION @schema@._check_escalated(p_scope text, p_term bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
  f @schema@.fences;
  v_queue bigint := @schema@._queue_key(p_scope);
  v_turnstile bigint := @schema@._turnstile_key(p_scope);
  v_user text := current_setting('lock_timeout');
  v_until timestamptz;
  v_key bigint := v_turnstile;
BEGIN
  IF @schema@._pass_of(p_scope) = p_term THEN
    RETURN p_term;  -- the row lock is held: the row of `passes` goes with it at ROLLBACK TO
  END IF;
  IF NOT (pg_try_advisory_lock_shared(v_turnstile) AND pg_advisory_unlock_shared(v_turnstile)
          AND pg_try_advisory_lock_shared(v_queue) AND pg_advisory_unlock_shared(v_queue)) THEN
    -- A raise is under way: wait for its end, holding both only in a subtransaction that is rolled back.
    v_until := clock_timestamp() + @schema@._wait('check_wait_ms');
    BEGIN
      PERFORM @schema@._set_lock_timeout(v_until, v_user);
      PERFORM pg_advisory_xact_lock_shared(v_turnstile);
      v_key := v_queue;
      PERFORM @schema@._set_lock_timeout(v_until, v_user);
      PERFORM pg_advisory_xact_lock_shared(v_queue);
      RAISE EXCEPTION 'through' USING ERRCODE = 'TGTHR';
    EXCEPTION
      WHEN SQLSTATE 'TGTHR' THEN NULL;
      WHEN lock_not_available THEN
        RAISE EXCEPTION 'TG006 blocked at the fence of scope "%" by %', p_scope, @schema@._blockers(v_key, p_scope)
          USING ERRCODE = 'TG006', DETAIL = format('check_wait is %s ms', @schema@._setting('check_wait_ms')), HINT = 'Nothing was written.';
    END;
  END IF;
  IF NOT EXISTS (SELECT FROM @schema@.passes p WHERE p.xid = pg_current_xact_id_if_assigned()) THEN
    PERFORM @schema@._clear_passes();
  END IF;
  -- The bucket first: whoever holds the row can be found.
  PERFORM pg_advisory_xact_lock_shared(@schema@._bucket_class(), (v_queue & 63)::integer);
  -- No subtransaction where the row is free: 10^5 of them, each with an id of its own, would slow down every snapshot of the server.
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE SKIP LOCKED;
  IF NOT FOUND THEN
    BEGIN
      PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
      SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE;
      PERFORM set_config('lock_timeout', v_user, true);
    EXCEPTION WHEN lock_not_available THEN
      RAISE EXCEPTION 'TG006 blocked at the fence of scope "%" by a raise that is not finished: %', p_scope, @schema@._blockers(v_queue, p_scope)
        USING ERRCODE = 'TG006', HINT = 'Nothing was written.';
    END;
  END IF;
  PERFORM @schema@._need_no_doubt(p_scope, f.generation);
  IF f.term > p_term THEN
    PERFORM @schema@._stale(p_scope, p_term, f.term);
  ELSIF f.term IS NULL OR f.term < p_term THEN
    RAISE EXCEPTION 'TG005 term % is above the fence of scope "%" (%), and this transaction has passed too many scopes to raise one more', p_term, p_scope, coalesce(f.term, 0)
      USING ERRCODE = 'TG005', HINT = 'Raise first, in transactions of some hundred scopes: SELECT seal(scope, term).';
  END IF;
  INSERT INTO @schema@.passes (xid, scope, term) VALUES (pg_current_xact_id(), p_scope, p_term) ON CONFLICT DO NOTHING;
  RETURN f.term;
END $$;

-- Clears what finished transactions left in `passes`; whoever escalates for the first time does it, without waiting for another that is at it.
CREATE OR REPLACE FUNCTION @schema@._clear_passes() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM @schema@.passes p
   WHERE (p.xid, p.scope) IN (SELECT q.xid, q.scope FROM @schema@.passes q WHERE q.xid < pg_snapshot_xmin(pg_current_snapshot()) FOR UPDATE SKIP LOCKED);
END $$;

-- Who of the bucket's holders holds the fence row: found by the transaction ids in the row's xmax (one id, or a multixact of several).
CREATE OR REPLACE FUNCTION @schema@._row_holders(p_scope text)
RETURNS TABLE (pid integer, virtualtransaction text, who text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_xmax xid := (SELECT f.xmax FROM @schema@.fences f WHERE f.scope = p_scope);
  v_xids xid[] := ARRAY[v_xmax];
BEGIN
  BEGIN
    v_xids := v_xids || ARRAY(SELECT m.xid FROM pg_get_multixact_members(v_xmax) m);
  EXCEPTION WHEN OTHERS THEN
    NULL;  -- not a multixact
  END;
  RETURN QUERY
  WITH locks AS MATERIALIZED (SELECT l.* FROM pg_locks l WHERE l.granted)
  SELECT DISTINCT b.pid, b.virtualtransaction,
         CASE WHEN b.pid IS NULL THEN
                coalesce((SELECT format('prepared transaction "%s" of %s, prepared at %s', x.gid, x.owner, x.prepared)
                            FROM pg_prepared_xacts x WHERE x.transaction = t.transactionid LIMIT 1), 'a prepared transaction')
              ELSE (SELECT format('pid %s (user %s, application "%s", %s%s)', a.pid, a.usename, a.application_name,
                                  coalesce(a.state, 'state not shown'), ' since ' || a.state_change::text)
                      FROM pg_stat_activity a WHERE a.pid = b.pid)
         END
    FROM locks b JOIN locks t ON t.virtualtransaction = b.virtualtransaction AND t.locktype = 'transactionid'
   WHERE b.locktype = 'advisory' AND b.objsubid = 2
     AND b.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
     AND b.classid = (@schema@._bucket_class()::bigint & 4294967295)::oid AND b.objid = (@schema@._queue_key(p_scope) & 63)::oid
     AND b.pid IS DISTINCT FROM pg_backend_pid()
     AND t.transactionid = ANY (v_xids);
END $$;

-- The fence row FOR UPDATE, for a raise that already holds both keys: only escalated checks can hold it now, and no new one gets in.
CREATE OR REPLACE FUNCTION @schema@._take_row(p_scope text, p_term bigint, p_grace_until timestamptz, p_until timestamptz) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_evicted integer[] := '{}';
  v_user text := current_setting('lock_timeout');
  v_wait_until timestamptz;
  v_immovable text;
  v_seen text;
  h record;
BEGIN
  LOOP
    BEGIN
      PERFORM 1 FROM @schema@.fences f WHERE f.scope = p_scope FOR UPDATE NOWAIT;
      RETURN v_evicted;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
    v_wait_until := p_grace_until;
    IF clock_timestamp() >= p_grace_until THEN
      v_immovable := NULL;
      v_seen := NULL;
      FOR h IN SELECT * FROM @schema@._row_holders(p_scope) LOOP
        v_seen := concat_ws(', ', v_seen, h.who);
        IF h.pid IS NULL THEN
          v_immovable := h.who;
        ELSE
          BEGIN
            -- Again at the last moment, as in _evict().
            PERFORM 1 FROM @schema@._row_holders(p_scope) r WHERE r.pid = h.pid AND r.virtualtransaction = h.virtualtransaction;
            IF FOUND THEN
              PERFORM pg_terminate_backend(h.pid);
              RAISE LOG 'Termgate evicts % from scope "%"', h.who, p_scope;
              IF NOT h.pid = ANY (v_evicted) THEN
                v_evicted := v_evicted || h.pid;
              END IF;
            END IF;
          EXCEPTION WHEN insufficient_privilege THEN
            v_immovable := h.who || format('; role %I may not signal it: GRANT pg_signal_backend TO %I (superusers stay beyond it)', current_user, current_user);
          END;
        END IF;
      END LOOP;
      IF v_immovable IS NOT NULL OR clock_timestamp() >= p_until THEN
        RAISE EXCEPTION 'TG006 raising scope "%" to % is blocked at its fence row by %', p_scope, p_term, coalesce(v_immovable, v_seen, 'a session that locked the row by hand')
          USING ERRCODE = 'TG006', HINT = 'The fence is unchanged. End what is named here, then raise again.';
      END IF;
      v_wait_until := least(p_until, clock_timestamp() + interval '20 ms');
    END IF;
    BEGIN
      PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM v_wait_until - clock_timestamp()) * 1000)::bigint)::text, true);
      PERFORM 1 FROM @schema@.fences f WHERE f.scope = p_scope FOR UPDATE;
      PERFORM set_config('lock_timeout', v_user, true);
      RETURN v_evicted;
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END LOOP;
END $$;
