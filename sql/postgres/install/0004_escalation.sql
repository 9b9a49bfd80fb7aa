-- A transaction over very many scopes. Beyond some 60 of them a check keeps no more advisory locks (60,000 would fill the lock table of the whole server):
-- it tests turnstile and queue, then holds the fence row FOR SHARE, which costs no lock table at all; the pass is a row of
-- `passes`. A raise waits for the row after its own two locks; whom to evict it finds by the transaction ids that the row itself lists. Keeps F1, F2, F4.

-- A row locked inside a savepoint lists the savepoint's id, whose own lock is gone once the savepoint is released. So that the session is found all the same,
-- it holds a shared two-number lock of this class and that id, which ends with the row's lock: at ROLLBACK TO, else with the transaction.
CREATE OR REPLACE FUNCTION @schema@._savepoint_class() RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT (pg_catalog.hashtextextended(@schema_lit@ COLLATE pg_catalog."C", 6) OPERATOR(pg_catalog.>>) 32)::pg_catalog.int4 $$;

-- p_xid: what xmin of a row says that was written beside the row lock. At most 250 savepoints, for each costs a place in the lock table of the server; the count goes
-- back with ROLLBACK TO, as the locks do.
CREATE OR REPLACE FUNCTION @schema@._name_savepoint(p_xid xid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_id bigint := p_xid::text::bigint;
  v_named text := coalesce(nullif(current_setting('termgate.savepoints', true), ''), '0|0|0');
  v_top text := pg_current_xact_id()::xid::text;
  v_count integer;
BEGIN
  IF v_id::text = v_top THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock_shared(@schema@._savepoint_class(), (CASE WHEN v_id > 2147483647 THEN v_id - 4294967296 ELSE v_id END)::integer);
  IF split_part(v_named, '|', 1) <> v_id::text THEN
    v_count := CASE WHEN split_part(v_named, '|', 2) = v_top THEN left(split_part(v_named, '|', 3), 9)::integer ELSE 0 END + 1;
    IF v_count > 250 THEN
      RAISE EXCEPTION 'TG005 this transaction has passed very many scopes, each in a savepoint of its own' USING ERRCODE = 'TG005',
        HINT = 'Pass them before the first savepoint (check_term), or in several transactions. A block with EXCEPTION is a savepoint too.';
    END IF;
    PERFORM set_config('termgate.savepoints', concat_ws('|', v_id, v_top, v_count), true);
  END IF;
END $$;

-- For who changes or locks rows of fences without their advisory locks: call it in the same block, so that an eviction finds this session.
CREATE OR REPLACE FUNCTION @schema@._name_row_locks() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_xid xid;
BEGIN
  -- No scope is empty, so this is no pass.
  INSERT INTO @schema@.passes AS p (xid, scope, term) VALUES (pg_current_xact_id(), '', 0)
  ON CONFLICT (xid, scope) DO UPDATE SET term = 0 RETURNING p.xmin INTO v_xid;
  PERFORM @schema@._name_savepoint(v_xid);
END $$;

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
  v_xid xid;
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
  -- No subtransaction where the row is free: 10^5 of them, each with an id of its own, would slow down every snapshot of the server.
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE SKIP LOCKED;
  IF NOT FOUND THEN
    BEGIN
      PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
      SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE;
      PERFORM set_config('lock_timeout', v_user, true);
      -- In this block, which is a savepoint, as the lock was.
      PERFORM @schema@._name_row_locks();
    EXCEPTION WHEN lock_not_available THEN
      RAISE EXCEPTION 'TG006 blocked at the fence of scope "%" by a raise that is not finished: %', p_scope, @schema@._blockers(v_queue, p_scope)
        USING ERRCODE = 'TG006', HINT = 'Nothing was written.';
    END;
  END IF;
  PERFORM @schema@._need_trusted(p_scope, f.generation);
  IF f.term > p_term THEN
    PERFORM @schema@._stale(p_scope, p_term, f.term);
  ELSIF f.term IS NULL OR f.term < p_term THEN
    RAISE EXCEPTION 'TG005 term % is above the fence of scope "%" (%), and this transaction has passed too many scopes to raise one more', p_term, p_scope, coalesce(f.term, 0)
      USING ERRCODE = 'TG005', HINT = @schema@._how_to_raise(p_scope, p_term);
  END IF;
  INSERT INTO @schema@.passes AS p (xid, scope, term) VALUES (pg_current_xact_id(), p_scope, p_term)
  ON CONFLICT (xid, scope) DO UPDATE SET term = EXCLUDED.term RETURNING p.xmin INTO v_xid;
  PERFORM @schema@._name_savepoint(v_xid);
  RETURN f.term;
END $$;

-- Clears what finished transactions left in `passes`; whoever escalates for the first time does it, without waiting for another that is at it.
CREATE OR REPLACE FUNCTION @schema@._clear_passes() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM @schema@.passes p
   WHERE (p.xid, p.scope) IN (SELECT q.xid, q.scope FROM @schema@.passes q WHERE q.xid < pg_snapshot_xmin(pg_current_snapshot()) FOR UPDATE SKIP LOCKED);
END $$;

-- Who holds the fence row: found by the transaction ids in its xmax (one id, or a multixact of several). A number can be both; who holds no lock on
-- the table fences, which any lock of a row brings along, is not meant. `surely` false: nobody was found so, and it is one of these, who all may hold the row.
CREATE OR REPLACE FUNCTION @schema@._row_holders(p_scope text)
RETURNS TABLE (pid integer, virtualtransaction text, surely boolean, who text)
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
  WITH here AS (
    SELECT d.oid FROM pg_database d WHERE d.datname = current_database()
  ), locks AS MATERIALIZED (
    SELECT l.* FROM pg_locks l WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
  ), at_fences AS (
    SELECT DISTINCT l.pid, l.virtualtransaction FROM locks l, here
     WHERE l.locktype = 'relation' AND l.database = here.oid AND l.relation = format('%I.fences', @schema_lit@)::regclass AND l.mode <> 'AccessShareLock'
  ), holders AS (
    SELECT a.pid, a.virtualtransaction,
           EXISTS (SELECT FROM locks l, here
                    WHERE l.virtualtransaction = a.virtualtransaction AND l.pid IS NOT DISTINCT FROM a.pid
                      AND ((l.locktype = 'transactionid' AND l.transactionid = ANY (v_xids))
                           OR (l.locktype = 'advisory' AND l.objsubid = 2 AND l.database = here.oid
                               AND l.classid = (@schema@._savepoint_class()::bigint & 4294967295)::oid AND l.objid::text = ANY (v_xids::text[])))) AS surely
      FROM at_fences a
  )
  SELECT h.pid, h.virtualtransaction, h.surely,
         CASE WHEN h.pid IS NULL THEN
                coalesce((SELECT format('prepared transaction "%s" of %s, prepared at %s', x.gid, x.owner, x.prepared)
                            FROM locks l JOIN pg_prepared_xacts x ON x.transaction = l.transactionid
                           WHERE l.pid IS NULL AND l.virtualtransaction = h.virtualtransaction AND l.locktype = 'transactionid' LIMIT 1), 'a prepared transaction')
              ELSE (SELECT format('pid %s (user %s, application "%s", %s%s)', a.pid, a.usename, a.application_name,
                                  coalesce(a.state, 'state not shown'), ' since ' || a.state_change::text)
                      FROM pg_stat_activity a WHERE a.pid = h.pid)
         END
    FROM holders h
   WHERE h.surely OR NOT EXISTS (SELECT FROM holders o WHERE o.surely);
END $$;

-- The fence row FOR UPDATE, for a raise that already holds both keys: only escalated checks can hold it now, and no new one gets in; or who
-- changes fences without the keys (protect, declare_untrusted). All are evicted alike.
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
        v_seen := concat_ws(', ', v_seen, concat(CASE WHEN NOT h.surely THEN 'perhaps ' END, h.who));
        IF NOT h.surely THEN
          CONTINUE;
        ELSIF h.pid IS NULL THEN
          v_immovable := h.who;
        ELSE
          BEGIN
            -- Again at the last moment, as in _evict().
            PERFORM 1 FROM @schema@._row_holders(p_scope) r WHERE r.pid = h.pid AND r.virtualtransaction = h.virtualtransaction AND r.surely;
            IF FOUND THEN
              PERFORM pg_terminate_backend(h.pid);
              RAISE LOG 'Termgate evicts % from scope "%"', h.who, p_scope;
              IF NOT h.pid = ANY (v_evicted) THEN
                v_evicted := v_evicted || h.pid;
                -- As in _take().
                p_until := greatest(p_until, clock_timestamp() + interval '500 ms');
              END IF;
            END IF;
          EXCEPTION WHEN insufficient_privilege THEN
            v_immovable := h.who || format('; role %I may not signal it: GRANT pg_signal_backend TO %I (superusers stay beyond it)', current_user, current_user);
          END;
        END IF;
      END LOOP;
      IF v_immovable IS NOT NULL OR clock_timestamp() >= p_until THEN
        RAISE EXCEPTION 'TG006 raising scope "%" to % is blocked at its fence row by %', p_scope, p_term, coalesce(v_immovable, v_seen, 'a session that has just ended')
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
