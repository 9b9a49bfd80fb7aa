-- Transactions over very many scopes. After about 60 of them a check keeps no more advisory locks, except for scopes that the session
-- remembers: 60,000 locks would fill the lock table of the whole server. It tests turnstile and queue, then holds the fence row FOR SHARE,
-- which takes no place in the lock table. Its pass is a row of `passes`. A raise waits for the row after its own two locks, and finds the
-- sessions to evict by the transaction ids that the row lists. Keeps F1, F2, F4.

-- A row locked inside a savepoint lists the savepoint's id, whose own lock ends when the savepoint is released. So the session also holds a
-- shared lock of a key for that id, which ends when the row's lock does: at ROLLBACK TO, or with the transaction. The key is signed:
-- otherwise somebody could hold the keys of ids to come.
DROP FUNCTION IF EXISTS @schema@._savepoint_class();  -- as it was up to version 19
CREATE OR REPLACE FUNCTION @schema@._savepoint_key(p_xid text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT @schema@._signed_key('savepoint ' || p_xid) $$;

-- Takes the shared lock of that key. p_xid: the xmin of a row that was written in the same savepoint as the row lock. At most 250
-- savepoints, because each takes a place in the server's lock table. ROLLBACK TO sets the count back, and releases the locks.
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
  PERFORM pg_advisory_xact_lock_shared(@schema@._savepoint_key(v_id::text));
  IF split_part(v_named, '|', 1) <> v_id::text THEN
    v_count := CASE WHEN split_part(v_named, '|', 2) = v_top THEN left(split_part(v_named, '|', 3), 9)::integer ELSE 0 END + 1;
    IF v_count > 250 THEN
      RAISE EXCEPTION 'TG005 this transaction has passed very many scopes, each in a savepoint of its own' USING ERRCODE = 'TG005',
        HINT = 'Pass them before the first savepoint (check_term), or in several transactions. A block with EXCEPTION is a savepoint too.';
    END IF;
    PERFORM set_config('termgate.savepoints', concat_ws('|', v_id, v_top, v_count), true);
  END IF;
END $$;

-- For functions that change or lock rows of fences without the scopes' advisory locks: takes such a lock for the savepoint that is open
-- now. Call it in the same block, so that an eviction finds this session.
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

-- The term under which this transaction has passed the scope by a row of `passes`; NULL: it has not.
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
  v_xid xid;
BEGIN
  IF @schema@._pass_of(p_scope) = p_term THEN
    RETURN p_term;  -- the row lock is held: the row of `passes` goes with it at ROLLBACK TO
  END IF;
  IF NOT (pg_try_advisory_lock_shared(v_turnstile) AND pg_advisory_unlock_shared(v_turnstile)
          AND pg_try_advisory_lock_shared(v_queue) AND pg_advisory_unlock_shared(v_queue)) THEN
    -- A raise is under way: wait for its end, holding both only in a subtransaction that is rolled back.
    BEGIN
      PERFORM @schema@._share(p_scope);
      RAISE EXCEPTION 'through' USING ERRCODE = 'TGTHR';
    EXCEPTION WHEN SQLSTATE 'TGTHR' THEN
      NULL;
    END;
  END IF;
  IF NOT EXISTS (SELECT FROM @schema@.passes p WHERE p.xid = pg_current_xact_id_if_assigned()) THEN
    PERFORM @schema@._clear_passes();
  END IF;
  -- No subtransaction if the row is free: 10^5 of them, each with an id of its own, would slow down every snapshot of the server.
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE SKIP LOCKED;
  IF NOT FOUND THEN
    BEGIN
      PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
      SELECT * INTO f FROM @schema@.fences t WHERE t.scope = p_scope FOR SHARE;
      PERFORM set_config('lock_timeout', v_user, true);
      -- In this block, which is a savepoint: the lock was taken in it.
      PERFORM @schema@._name_row_locks();
    EXCEPTION WHEN lock_not_available THEN
      PERFORM @schema@._count_refusal('TG006');
      RAISE EXCEPTION 'TG006 blocked at the fence row of scope "%" by %', p_scope, @schema@._blockers(NULL, p_scope)
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

-- Clears what finished transactions left in `passes`. A transaction's first escalated check calls it. It skips rows that another session is
-- clearing.
CREATE OR REPLACE FUNCTION @schema@._clear_passes() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM @schema@.passes p
   WHERE (p.xid, p.scope) IN (SELECT q.xid, q.scope FROM @schema@.passes q WHERE q.xid < pg_snapshot_xmin(pg_current_snapshot()) FOR UPDATE SKIP LOCKED);
END $$;

-- The sessions that hold the fence row, found by the transaction ids in its xmax (one id, or a multixact of several). A number can be an id
-- and a multixact at once, so a session counts only if it holds a lock on the table fences, which every row lock needs. If none is found by
-- its ids, all sessions with such a lock are listed, because each of them may hold the row: `surely` is false.
DROP FUNCTION IF EXISTS @schema@._take_row(text, bigint, timestamptz, timestamptz);  -- as they were up to version 19
DO $$
BEGIN
  IF (SELECT 'who' = ANY (p.proargnames) FROM pg_proc p WHERE p.oid = to_regprocedure(format('%I._row_holders(text)', @schema_lit@))) THEN
    DROP FUNCTION @schema@._row_holders(text);
  END IF;
END $$;
CREATE OR REPLACE FUNCTION @schema@._row_holders(p_scope text) RETURNS TABLE (pid integer, virtualtransaction text, surely boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_xmax xid := (SELECT f.xmax FROM @schema@.fences f WHERE f.scope = p_scope);
  v_xids xid[] := ARRAY[v_xmax];
  v_keys bigint[];
BEGIN
  BEGIN
    v_xids := v_xids || ARRAY(SELECT m.xid FROM pg_get_multixact_members(v_xmax) m);
  EXCEPTION WHEN OTHERS THEN
    NULL;  -- not a multixact
  END;
  v_keys := ARRAY(SELECT @schema@._savepoint_key(x::text) FROM unnest(v_xids) x);
  RETURN QUERY
  WITH here AS (
    SELECT d.oid FROM pg_database d WHERE d.datname = current_database()
  ), locks AS MATERIALIZED (
    SELECT l.* FROM pg_locks l WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
  ), holders AS (
    SELECT DISTINCT a.pid, a.virtualtransaction,
           EXISTS (SELECT FROM locks l, here
                    WHERE l.virtualtransaction = a.virtualtransaction AND l.pid IS NOT DISTINCT FROM a.pid
                      AND ((l.locktype = 'transactionid' AND l.transactionid = ANY (v_xids))
                           OR (l.locktype = 'advisory' AND l.objsubid = 1 AND l.database = here.oid
                               AND (l.classid::bigint << 32) | l.objid::bigint = ANY (v_keys)))) AS surely
      FROM locks a, here
     WHERE a.locktype = 'relation' AND a.database = here.oid AND a.relation = format('%I.fences', @schema_lit@)::regclass AND a.mode <> 'AccessShareLock'
  )
  SELECT h.* FROM holders h WHERE h.surely OR NOT EXISTS (SELECT FROM holders o WHERE o.surely);
END $$;
