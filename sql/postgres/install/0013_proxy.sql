-- What the proxy sends, and what that is built on. check_session: the check with what the session has declared. hold_session and
-- release_session: the check's lock for the session, around a statement that cannot run inside a transaction block (VACUUM, CREATE INDEX
-- CONCURRENTLY, a CALL that commits). Locks: the check's; hold_session also takes the queue, shared, at session level. A raise waits for
-- such a holder, and after the grace evicts it, whatever transaction it is in by then. Keeps F1, F2, F4, F5.

-- TG002 unless both scope and term are known.
CREATE OR REPLACE FUNCTION @schema@._need_declared(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_scope IS NULL OR p_term IS NULL THEN
    PERFORM @schema@._count_refusal('TG002');
    RAISE EXCEPTION USING ERRCODE = 'TG002',
      MESSAGE = CASE WHEN p_term IS NOT NULL THEN format('TG002 no scope declared for term %s: a write needs both', p_term)
                     WHEN p_scope IS NOT NULL THEN format('TG002 no term declared for scope "%s": a write needs both', p_scope)
                     ELSE 'TG002 no term declared: a write needs a scope and a term' END,
      HINT = 'Declare both: SET LOCAL termgate.scope = ''...''; SET LOCAL termgate.term = ''...'' in the transaction; or PGOPTIONS ''-c termgate.scope=... -c termgate.term=...''; '
             'or application_name ''termgate.scope=...;termgate.term=...;''; or the comment /*termgate.scope=''...'',termgate.term=''...''*/ at the statement.';
  END IF;
END $$;

-- check_session(scope, term) → scope, term, fence: the check with the arguments; for one that is NULL, with what the session has declared.
-- Returns what it passed. TG002 if either is missing, TG005 if it is malformed, otherwise what check_term raises. Qualified names, as in
-- check_term.
CREATE OR REPLACE FUNCTION @schema@.check_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_term pg_catalog.text;
BEGIN
  IF scope IS NULL THEN
    scope := @schema@._declared_scope();
    IF pg_catalog.char_length(scope) OPERATOR(pg_catalog.>) 200 THEN
      PERFORM @schema@._need_scope(scope COLLATE pg_catalog."C", 'declared termgate.scope');
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
  fence := @schema@.check_term(scope COLLATE pg_catalog."C", term);
END $$;

-- check_claim(scope, term, else_scope, else_term) → scope, term, fence: check_session; if neither the first two arguments nor the session
-- give a scope or term, with the last two (from a rule of the proxy's that the session may override).
CREATE OR REPLACE FUNCTION @schema@.check_claim(INOUT scope text, INOUT term bigint, else_scope text, else_term bigint, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  r pg_catalog.record;
BEGIN
  IF else_scope IS NOT NULL AND scope IS NULL AND term IS NULL AND @schema@._declared_scope() IS NULL AND @schema@._declared_term() IS NULL THEN
    scope := else_scope;
    term := else_term;
  END IF;
  r := @schema@.check_session(scope COLLATE pg_catalog."C", term);
  scope := r.scope;
  term := r.term;
  fence := r.fence;
END $$;

-- check_claim_text(scope, term, else_scope, else_term) → what check_claim returns, in one text: term, fence and scope, with a blank between
-- them. The proxy sends it before a write that no passed check or seat covers. The common case, a session that has passed this very claim
-- before, is like check_term's and costs as much. The session remembers the text of a term that has passed, so a declaration equal to it
-- needs no further test. If somebody has forged that setting, the fence still decides.
CREATE OR REPLACE FUNCTION @schema@.check_claim_text(p_scope text, p_term bigint, p_else_scope text, p_else_term bigint) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  v_scope pg_catalog.text := coalesce(p_scope, pg_catalog.current_setting('termgate.scope', true));
  v_term pg_catalog.text := coalesce(p_term::pg_catalog.text, pg_catalog.current_setting('termgate.term', true));
  v_fence pg_catalog.int8;
  v_protected pg_catalog.oid;
  r pg_catalog.record;
BEGIN
  IF p_else_scope IS NOT NULL AND p_scope IS NULL AND p_term IS NULL
     AND coalesce(v_scope, '') OPERATOR(pg_catalog.=) '' AND coalesce(v_term, '') OPERATOR(pg_catalog.=) '' THEN
    v_scope := p_else_scope;
    v_term := p_else_term;
  END IF;
  IF coalesce(pg_catalog.current_setting('termgate.guarded', true), '') OPERATOR(pg_catalog.<>) 'on'
     AND @schema@._knows(v_scope, v_term)
     AND pg_catalog.current_setting('transaction_isolation') OPERATOR(pg_catalog.=) 'read committed' AND @schema@._try_share(v_scope) THEN
    SELECT f.term, (SELECT p.table_oid FROM @schema@.protected p ORDER BY p.table_oid LIMIT 1) INTO v_fence, v_protected FROM @schema@.fences f
     WHERE f.scope OPERATOR(pg_catalog.=) v_scope AND f.term OPERATOR(pg_catalog.=) v_term::pg_catalog.int8 AND f.vouched OPERATOR(pg_catalog.=) f.tableoid;
    IF FOUND THEN
      IF v_protected IS NOT NULL THEN
        PERFORM @schema@._mark(v_scope COLLATE pg_catalog."C", v_fence);
      END IF;
      RETURN v_fence::pg_catalog.text OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) v_fence::pg_catalog.text OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) v_scope;
    END IF;
  END IF;
  r := @schema@.check_claim(p_scope COLLATE pg_catalog."C", p_term, p_else_scope COLLATE pg_catalog."C", p_else_term);
  RETURN r.term::pg_catalog.text OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) r.fence::pg_catalog.text OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) r.scope::pg_catalog.text;
END $$;

-- check_again() → scope, term, fence: the check with what the session declares now. If it does not declare both, fence is NULL and nothing
-- is checked. For a transaction that has passed a check and then ran code that may have declared something else.
CREATE OR REPLACE FUNCTION @schema@.check_again(OUT scope text, OUT term bigint, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  scope := @schema@._declared_scope();
  term := @schema@._declared_term();
  -- Half a claim is none: the next write under it gets TG002.
  IF scope IS NOT NULL AND term IS NOT NULL THEN
    SELECT c.scope, c.term, c.fence INTO scope, term, fence FROM @schema@.check_session(NULL, NULL) c;
  END IF;
END $$;

-- check_prepared(): TG004 if a prepared transaction holds an untrusted scope, because COMMIT PREPARED checks no fence.
CREATE OR REPLACE FUNCTION @schema@.check_prepared() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_gid text;
BEGIN
  SELECT p.gid INTO v_gid FROM @schema@._prepared_in_doubt() p LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'TG004 prepared transaction "%" holds a scope whose fence is untrusted: nothing that was prepared is committed until that is settled', v_gid
      USING ERRCODE = 'TG004', HINT = format('ROLLBACK PREPARED %L, unless its transaction manager vouches for it; then settle that: termgate fence declare-restored', v_gid);
  END IF;
END $$;

-- hold_session(scope, term) → scope, term, fence: check_session, then the scope's queue, shared, until release_session or until the session
-- ends. The transaction already holds it, so it is granted at once and no raise gets in between. Scope and term become the session's
-- declared ones, so that the triggers of protect() pass in the next transactions. A statement that calls pg_advisory_unlock_all() releases
-- the lock too, and may then be stale. Call this in a transaction of its own. If that is rolled back, the session keeps the lock: call
-- release_session whatever the outcome.
CREATE OR REPLACE FUNCTION @schema@.hold_session(INOUT scope text DEFAULT NULL, INOUT term bigint DEFAULT NULL, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_queue bigint;
  v_before text := nullif(current_setting('termgate.held_session', true), '');
BEGIN
  SELECT c.scope, c.term, c.fence INTO scope, term, fence FROM @schema@.check_session(scope COLLATE pg_catalog."C", term) c;
  IF v_before IS NOT NULL THEN
    RAISE EXCEPTION 'TG005 this session already holds the lock of a scope: release_session() first' USING ERRCODE = 'TG005';
  END IF;
  v_queue := @schema@._queue_key(scope);
  -- A check that a seat has satisfied has taken no lock.
  PERFORM @schema@._check(scope, term) WHERE NOT @schema@._holds(v_queue, 'ShareLock') AND NOT @schema@._holds(v_queue, 'ExclusiveLock');
  IF NOT @schema@._holds(v_queue, 'ShareLock') AND NOT @schema@._holds(v_queue, 'ExclusiveLock') THEN
    RAISE EXCEPTION 'TG005 this transaction has passed very many scopes: hold_session needs one of its own' USING ERRCODE = 'TG005';
  END IF;
  -- What release_session restores. NULL and '' both mean that nothing was declared.
  PERFORM set_config('termgate.held_session',
                     json_build_object('queue', v_queue::text, 'scope', coalesce(current_setting('termgate.scope', true), ''),
                                       'term', coalesce(current_setting('termgate.term', true), ''), 'held_scope', scope, 'held_term', term::text)::text, false);
  PERFORM set_config('termgate.scope', scope, false), set_config('termgate.term', term::text, false);
  PERFORM pg_advisory_lock_shared(v_queue);
END $$;

-- hold_claim(scope, term, else_scope, else_term, required) → scope, term, fence: hold_session with the claim that check_claim would check.
-- If it is not required, scope and term are NULL, and neither a whole declaration nor else_scope and else_term (which count if nothing is
-- declared) give a claim, nothing is held and fence is NULL.
CREATE OR REPLACE FUNCTION @schema@.hold_claim(INOUT scope text, INOUT term bigint, else_scope text, else_term bigint, required boolean, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_scope text := @schema@._declared_scope();
  v_term bigint := @schema@._declared_term();
BEGIN
  IF scope IS NULL AND term IS NULL THEN
    IF v_scope IS NULL AND v_term IS NULL AND else_scope IS NOT NULL THEN
      scope := else_scope;
      term := else_term;
    ELSIF NOT required AND (v_scope IS NULL OR v_term IS NULL) THEN
      RETURN;
    END IF;
  END IF;
  SELECT h.scope, h.term, h.fence INTO scope, term, fence FROM @schema@.hold_session(scope COLLATE pg_catalog."C", term) h;
END $$;

-- release_session(scope) → whether the lock was held. Releases what hold_session took, and restores what was declared before, unless
-- something else has been declared since. Without a scope: the one that hold_session recorded, or, if that was rolled back, the declared
-- one. Safe to call if nothing is held (without a warning), if the transaction of hold_session was rolled back, and if the scope was raised
-- since. It needs no privilege: the lock is this session's own. TG005 if the client's statement is not a SELECT.
CREATE OR REPLACE FUNCTION @schema@.release_session(scope text DEFAULT NULL, OUT released boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
<<release_session>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  v_held json;
  v_kept bigint;
  v_queue bigint;
BEGIN
  -- Code inside a DO, a CALL or an index's function could release the lock that fences it. It cannot change the text of the client's own
  -- statement.
  IF lower(left(ltrim(current_query(), ' ' || chr(9) || chr(10) || chr(13)), 6)) IS DISTINCT FROM 'select' THEN
    RAISE EXCEPTION USING ERRCODE = 'TG005', MESSAGE = 'TG005 release_session() runs in a SELECT that the client sends itself, not inside DO, CALL or another statement';
  END IF;
  BEGIN
    v_held := nullif(current_setting('termgate.held_session', true), '')::json;
    v_kept := (v_held ->> 'queue')::bigint;
  EXCEPTION WHEN OTHERS THEN
    NULL;  -- somebody has overwritten it: the lock must still be released
  END;
  v_queue := coalesce(@schema@._queue_key(nullif(scope, '')), v_kept, @schema@._queue_key(@schema@._declared_scope()));
  released := v_queue IS NOT NULL AND pg_advisory_unlock_shared(v_queue);
  IF v_kept = v_queue THEN
    -- What the statement itself has declared stays.
    IF current_setting('termgate.scope', true) IS NOT DISTINCT FROM v_held ->> 'held_scope' THEN
      PERFORM set_config('termgate.scope', coalesce(v_held ->> 'scope', ''), false);
    END IF;
    IF current_setting('termgate.term', true) IS NOT DISTINCT FROM v_held ->> 'held_term' THEN
      PERFORM set_config('termgate.term', coalesce(v_held ->> 'term', ''), false);
    END IF;
    PERFORM set_config('termgate.held_session', '', false);
  END IF;
END $$;
