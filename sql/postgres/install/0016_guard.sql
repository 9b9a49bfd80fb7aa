-- What the guard calls, the extension of sql/postgres/guard/, and what tells it of passes. The guard takes the shared lock, reads the fence and lets pass what is as it
-- should be: declared term, fence and trust agree. Everything else comes here, where the rules are. Called as the owner of layer 1; nobody is granted any of it.
-- Locks: those of a check (0002, 0004). Keeps F1, F2, F5, F6.

-- _guard_declared(scope, term) -> the claim that these two settings make. TG002, TG005.
CREATE OR REPLACE FUNCTION @schema@._guard_declared(p_scope text, p_term text, OUT scope text, OUT term bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  scope := nullif(p_scope, '');
  IF scope IS NOT NULL THEN
    PERFORM @schema@._need_scope(scope, 'declared termgate.scope');
  END IF;
  term := @schema@._declared_term();
  IF scope IS NULL OR term IS NULL THEN
    PERFORM @schema@._guard_no_claim(scope, term);
  END IF;
END $$;

-- TG002 in the words of a guarded session.
CREATE OR REPLACE FUNCTION @schema@._guard_no_claim(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._count_refusal('TG002');
  RAISE EXCEPTION USING ERRCODE = 'TG002',
    MESSAGE = CASE WHEN p_term IS NOT NULL THEN format('TG002 no scope declared for term %s: this session is guarded, and a write needs both', p_term)
                   WHEN p_scope IS NOT NULL THEN format('TG002 no term declared for scope "%s": this session is guarded, and a write needs both', p_scope)
                   ELSE 'TG002 no term declared: this session is guarded, and a write needs a scope and a term' END,
    DETAIL = 'Temporary tables, sequences, NOTIFY and txid_current() count as writes. A transaction that changes nothing needs no term.',
    HINT = 'BEGIN; SET LOCAL termgate.scope = ''...''; SET LOCAL termgate.term = ''...''; then the write, then COMMIT. Or for the session: PGOPTIONS ''-c termgate.scope=... -c termgate.term=...''. '
           'A superuser who restores a dump turns the guard off for its session: PGOPTIONS ''-c termgate.guard=off''.';
END $$;

-- Waits for a raise to end, at most check_wait_ms; TG006. The lock is the caller's transaction's.
CREATE OR REPLACE FUNCTION @schema@._guard_wait(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._share(p_scope);
END $$;

-- _guard_verdict(scope, term, fence, generation, too_early, queue_key) -> since which generation fences are trusted; NULL where the guard locks by another key than
-- layer 1. p_fence, p_generation: what the guard has read under the lock, NULL where there is no row; not what this transaction's snapshot shows.
-- p_too_early: the statement's snapshot is older than the raise. TG001, TG004, TG005, 40001. Never raises the fence.
CREATE OR REPLACE FUNCTION @schema@._guard_verdict(p_scope text, p_term bigint, p_fence bigint, p_generation bigint, p_too_early boolean, p_queue_key bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_queue_key <> @schema@._queue_key(p_scope) THEN
    RETURN NULL;
  END IF;
  PERFORM @schema@._need_trusted(p_scope, p_generation);
  IF p_term < p_fence THEN
    PERFORM @schema@._stale(p_scope, p_term, p_fence);
  ELSIF p_term > coalesce(p_fence, 0) THEN
    RAISE EXCEPTION 'TG005 declared term % is above the fence of scope "%" (%): the guard never raises it', p_term, p_scope, coalesce(p_fence, 0)
      USING ERRCODE = 'TG005', HINT = @schema@._how_to_raise(p_scope, p_term);
  ELSIF p_too_early THEN
    PERFORM @schema@._began_too_early(p_scope, p_term);
  END IF;
  RETURN (SELECT i.trusted_since FROM @schema@.incarnation i);
END $$;

-- A transaction over very many scopes: by the fence's row, without an advisory lock.
CREATE OR REPLACE FUNCTION @schema@._guard_by_row(p_scope text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._check_escalated(p_scope, p_term);
END $$;

-- For mode observe: the message of what would be refused, or NULL. Without a scope: what the declaration lacks. Writes and locks nothing.
CREATE OR REPLACE FUNCTION @schema@._guard_would_refuse(p_scope text, p_term bigint, p_fence bigint, p_generation bigint, p_too_early boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_term bigint;
BEGIN
  IF p_scope IS NULL THEN
    v_term := @schema@._declared_term();
    PERFORM @schema@._need_scope(@schema@._declared_scope(), 'declared termgate.scope') WHERE @schema@._declared_scope() IS NOT NULL;
    RETURN 'TG002 no term declared; ' || @schema@._what_is_declared();
  ELSIF @schema@._why_untrusted(p_generation) IS NOT NULL THEN
    RETURN format('TG004 the fence of scope "%s" is untrusted', p_scope);
  ELSIF p_term < p_fence THEN
    RETURN format('TG001 stale term %s for scope "%s": the fence stands at %s', p_term, p_scope, p_fence);
  ELSIF p_term > coalesce(p_fence, 0) THEN
    RETURN format('TG005 declared term %s is above the fence of scope "%s" (%s)', p_term, p_scope, coalesce(p_fence, 0));
  ELSIF p_too_early THEN
    RETURN format('40001 the statement began before scope "%s" was raised to term %s', p_scope, p_term);
  END IF;
  RETURN NULL;
EXCEPTION WHEN OTHERS THEN
  RETURN SQLERRM;
END $$;
