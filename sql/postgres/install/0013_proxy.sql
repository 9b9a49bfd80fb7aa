-- What the proxy sends. check_session: the check with what the session has declared. hold_session and release_session: the check's lock for the session, around
-- a statement that cannot run inside a transaction block (VACUUM, CREATE INDEX CONCURRENTLY, a CALL that commits). Locks: the check's; hold_session the
-- queue besides, shared, at session level. A raise waits for such a holder and after the grace evicts it, whatever transaction it is in by then.
-- Keeps F1, F2, F4, F5.

-- Raises TG002 unless both are there. p_scope, p_term: what is known of each.
CREATE OR REPLACE FUNCTION @schema@._need_declared(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_scope IS NULL OR p_term IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'TG002',
      MESSAGE = CASE WHEN p_term IS NOT NULL THEN format('TG002 no scope declared for term %s: a write needs both', p_term)
                     WHEN p_scope IS NOT NULL THEN format('TG002 no term declared for scope "%s": a write needs both', p_scope)
                     ELSE 'TG002 no term declared: a write needs a scope and a term' END,
      HINT = 'Declare both: SET LOCAL termgate.scope = ''…''; SET LOCAL termgate.term = ''…'' in the transaction; or PGOPTIONS ''-c termgate.scope=… -c termgate.term=…''; '
             'or application_name ''termgate.scope=…;termgate.term=…;''; or the comment /*termgate.scope=''…'',termgate.term=''…''*/ at the statement.';
  END IF;
END $$;

-- check_session(scope, term) → scope, term, fence: the check with the arguments or, where one is NULL, what the session has declared; each by itself. Returns
-- what it passed. TG002 where either is missing, TG005 where it is malformed, else what check_term raises. Qualified names, as in check_term.
CREATE OR REPLACE FUNCTION @schema@.check_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_term pg_catalog.text;
BEGIN
  IF scope IS NULL THEN
    scope := @schema@._declared_scope();
    IF pg_catalog.char_length(scope) OPERATOR(pg_catalog.>) 200 THEN
      PERFORM @schema@._need_scope(scope, 'declared termgate.scope');
    END IF;
  END IF;
  IF term IS NULL THEN
    v_term := pg_catalog.current_setting('termgate.term', true);
    IF v_term OPERATOR(pg_catalog.~) '^[0-9]{1,18}$' AND v_term OPERATOR(pg_catalog.<>) '0' THEN
      term := v_term;
    ELSE
      term := @schema@._declared_term();
    END IF;
  END IF;
  IF scope IS NULL OR term IS NULL THEN
    PERFORM @schema@._need_declared(scope, term);
  END IF;
  fence := @schema@.check_term(scope, term);
END $$;

-- hold_session(scope, term) → scope, term, fence: check_session, then the scope's queue shared until release_session, or until the session ends. The transaction holds it
-- already, so it is granted at once and no raise gets in between. Scope and term become the session's declared ones, so that the triggers of protect()
-- pass in the transactions to come. A statement that calls pg_advisory_unlock_all() gives the lock up too: it is then as stale as any other.
-- Call it in a transaction of its own. A rolled back one keeps the lock: call release_session whatever the outcome.
CREATE OR REPLACE FUNCTION @schema@.hold_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_queue bigint;
  v_before text := nullif(current_setting('termgate.held_session', true), '');
BEGIN
  SELECT c.scope, c.term, c.fence INTO scope, term, fence FROM @schema@.check_session(scope, term) c;
  IF v_before IS NOT NULL THEN
    RAISE EXCEPTION 'TG005 this session already holds the lock of a scope: release_session() first' USING ERRCODE = 'TG005';
  END IF;
  v_queue := @schema@._queue_key(scope);
  IF NOT @schema@._holds(v_queue, 'ShareLock') AND NOT @schema@._holds(v_queue, 'ExclusiveLock') THEN
    RAISE EXCEPTION 'TG005 this transaction has passed very many scopes: hold_session needs one of its own' USING ERRCODE = 'TG005';
  END IF;
  -- What release_session puts back; NULL and '' both mean not declared.
  PERFORM set_config('termgate.held_session',
                     json_build_object('queue', v_queue::text, 'scope', coalesce(current_setting('termgate.scope', true), ''),
                                       'term', coalesce(current_setting('termgate.term', true), ''))::text, false);
  PERFORM set_config('termgate.scope', scope, false), set_config('termgate.term', term::text, false);
  PERFORM pg_advisory_lock_shared(v_queue);
END $$;

-- release_session(scope) → whether the lock was held. Gives back what hold_session took and puts back what was declared before. Safe to call when nothing is held (without
-- a warning), when the transaction of hold_session was rolled back, and when the scope has moved on. No privilege is in it: the lock is this session's own.
CREATE OR REPLACE FUNCTION @schema@.release_session(scope text DEFAULT NULL, OUT released boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
  v_held json;
  v_kept bigint;
  v_queue bigint;
BEGIN
  BEGIN
    v_held := nullif(current_setting('termgate.held_session', true), '')::json;
    v_kept := (v_held ->> 'queue')::bigint;
  EXCEPTION WHEN OTHERS THEN
    NULL;  -- somebody wrote over it: the lock must go all the same
  END;
  v_queue := coalesce(@schema@._queue_key(nullif(scope, '')), v_kept);
  released := v_queue IS NOT NULL AND pg_advisory_unlock_shared(v_queue);
  IF v_kept = v_queue THEN
    PERFORM set_config('termgate.scope', coalesce(v_held ->> 'scope', ''), false), set_config('termgate.term', coalesce(v_held ->> 'term', ''), false),
            set_config('termgate.held_session', '', false);
  END IF;
END $$;

-- As in 0003, but a session that holds the queue is the one that was seen whatever transaction it is in by now: hold_session outlives transactions, and while a raise
-- has the turnstile nobody new gets at the queue.
CREATE OR REPLACE FUNCTION @schema@._evict(p_key bigint, p_scope text, p_pid integer, p_vxid text, p_who text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM 1 FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.granted AND l.pid = p_pid AND l.objsubid = 1
      AND (l.virtualtransaction = p_vxid OR p_key = @schema@._queue_key(p_scope))
      AND l.classid = ((p_key >> 32) & 4294967295)::oid AND l.objid = (p_key & 4294967295)::oid
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
  IF FOUND THEN
    PERFORM pg_terminate_backend(p_pid);
    -- The server's log keeps this even where the raise fails in the end and its audit row with it.
    RAISE LOG 'Termgate evicts % from scope "%"', p_who, p_scope;
    RETURN true;
  END IF;
  RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
  RETURN false;
END $$;

-- As in 0003, and besides: CREATE INDEX CONCURRENTLY waits for every older snapshot, the raise's own included, while the raise waits for the lock that hold_session took
-- for it. PostgreSQL may name the raise as the victim of that deadlock; it waits on, and evicts when the grace is over. Between two raises the victim stays one.
CREATE OR REPLACE FUNCTION @schema@._take(p_key bigint, p_scope text, p_term bigint, p_grace_until timestamptz, p_until timestamptz)
RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_evicted integer[] := '{}';
  v_user text := current_setting('lock_timeout');
  v_wait_until timestamptz;
  v_immovable text;
  v_ended boolean;
  h record;
BEGIN
  LOOP
    -- Every time: a wait can run out in the moment that grants it, and TG006 must not name a lock that nobody holds.
    IF pg_try_advisory_xact_lock(p_key) THEN
      RETURN v_evicted;
    END IF;
    v_wait_until := p_grace_until;
    IF clock_timestamp() >= p_grace_until THEN
      v_immovable := NULL;
      FOR h IN SELECT * FROM @schema@._holders(p_key, p_scope) LOOP
        IF h.raising >= p_term THEN
          CONTINUE;
        ELSIF h.pid IS NULL THEN
          v_immovable := h.who;
        ELSE
          v_ended := @schema@._evict(p_key, p_scope, h.pid, h.virtualtransaction, h.who);
          IF NOT v_ended THEN
            v_immovable := h.who || format('; role %I may not signal it: GRANT pg_signal_backend TO %I (superusers stay beyond it)', current_user, current_user);
          ELSIF v_ended AND NOT h.pid = ANY (v_evicted) THEN
            v_evicted := v_evicted || h.pid;
            -- It lets go of its locks within moments, also where a machine that stood still has used up p_until: giving up now would cost it and the raise.
            p_until := greatest(p_until, clock_timestamp() + interval '500 ms');
          END IF;
        END IF;
      END LOOP;
      IF v_immovable IS NOT NULL OR clock_timestamp() >= p_until THEN
        RAISE EXCEPTION 'TG006 raising scope "%" to % is blocked by %', p_scope, p_term, coalesce(v_immovable, @schema@._blockers(p_key, p_scope))
          USING ERRCODE = 'TG006', HINT = 'The fence is unchanged. End what is named here, then raise again.';
      END IF;
      v_wait_until := least(p_until, clock_timestamp() + interval '100 ms');
    END IF;
    BEGIN
      PERFORM set_config('lock_timeout', greatest(1, ceil(extract(epoch FROM v_wait_until - clock_timestamp()) * 1000)::bigint)::text, true);
      PERFORM pg_advisory_xact_lock(p_key);
      PERFORM set_config('lock_timeout', v_user, true);
      RETURN v_evicted;
    EXCEPTION
      WHEN lock_not_available THEN
        NULL;
      WHEN deadlock_detected THEN
        IF EXISTS (SELECT FROM @schema@._holders(p_key, p_scope) d WHERE d.raising IS NOT NULL) THEN
          RAISE;
        END IF;
    END;
  END LOOP;
END $$;

DO $$ BEGIN PERFORM @schema@._settle_grants(); END $$;

-- Until version 12 nullif() in these two looked up its `=` on the caller's path, and ran it as the owner of layer 1. Fresh ones have it right already.
CREATE OR REPLACE FUNCTION @schema@._declared_scope() RETURNS text LANGUAGE sql STABLE AS
$$ SELECT CASE WHEN pg_catalog.current_setting('termgate.scope', true) OPERATOR(pg_catalog.<>) '' THEN pg_catalog.current_setting('termgate.scope', true) END $$;
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('@schema@.check_term(text, bigint)'::regprocedure), 'nullif(pg_catalog.current_setting(''termgate.held'', true), '''')',
                  'CASE WHEN pg_catalog.current_setting(''termgate.held'', true) OPERATOR(pg_catalog.<>) '''' THEN pg_catalog.current_setting(''termgate.held'', true) END');
END $$;
