-- A deadline that COMMIT respects: require_lease() makes a transaction fail at its end if the lease has ended by then, even if nobody has
-- taken over. The check alone lets a late holder write until somebody takes over. The time is clock_timestamp(). If the guard's library is
-- loaded, it tests the lease once more, after all deferred triggers (guard/hooks.c).

-- What a transaction requires, for the trigger at its end, which deletes the rows again. Nobody reads another transaction's rows.
CREATE UNLOGGED TABLE IF NOT EXISTS @schema@.lease_requirements (
  xid      xid8 NOT NULL,
  scope    text COLLATE pg_catalog."C" NOT NULL,
  owner_id text COLLATE pg_catalog."C" NOT NULL,
  term     bigint NOT NULL,
  PRIMARY KEY (xid, scope)
);

-- TG007 unless p_owner holds the lease now, under p_term (NULL: any). Returns when it ends.
CREATE OR REPLACE FUNCTION @schema@._need_live_lease(p_scope text, p_owner text, p_term bigint) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  l @schema@.leases;
BEGIN
  SELECT * INTO l FROM @schema@.leases t WHERE t.scope = p_scope;
  IF l.owner_id = p_owner AND l.term = coalesce(p_term, l.term) AND l.released_at IS NULL AND l.expires_at > clock_timestamp() THEN
    RETURN l.expires_at;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'TG007',
    MESSAGE = format('TG007 the lease of scope "%s" is not held by %s', p_scope, p_owner) || CASE
      WHEN l.scope IS NULL THEN ': it has never been acquired'
      WHEN l.owner_id <> p_owner OR l.term <> p_term THEN format(': %s has it under term %s', l.owner_id, l.term)
      WHEN l.released_at IS NOT NULL THEN ' any more: it was given back'
      ELSE format(' any more: it ended %s ms ago', round(extract(epoch FROM clock_timestamp() - l.expires_at) * 1000)) END,
    HINT = 'Nothing was written. Stop leading; acquire the lease again for a new term.';
END $$;
REVOKE ALL ON FUNCTION @schema@._need_live_lease(text, text, bigint) FROM PUBLIC;

-- require_lease(scope, owner) → when the lease ends unless it is renewed. For a transaction that writes: its COMMIT fails with TG007 if, at
-- that moment, this owner does not hold the lease under the term that it has now. TG007 at once if the owner does not hold it. Only at READ
-- COMMITTED: another level would show an older state of the lease. Takes no lock on the lease: the lock of the check keeps others from
-- acquiring it until the transaction ends.
CREATE OR REPLACE FUNCTION @schema@.require_lease(scope text, owner text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<require_lease>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  owner text COLLATE pg_catalog."C" := owner;
  v_term bigint;
  v_required_term bigint;
  v_ends timestamptz;
  v_required jsonb := coalesce(nullif(current_setting('termgate.required_leases', true), '')::jsonb, '[]');
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_owner(owner);
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'TG005 require_lease() needs isolation level READ COMMITTED: at % its transaction would see the lease as it was', current_setting('transaction_isolation') USING ERRCODE = 'TG005';
  END IF;
  v_ends := @schema@._need_live_lease(scope, owner, NULL);
  SELECT l.term INTO v_term FROM @schema@.leases l WHERE l.scope = require_lease.scope;
  SELECT r.term INTO v_required_term FROM @schema@.lease_requirements r WHERE r.xid = pg_current_xact_id() AND r.scope = require_lease.scope;
  IF FOUND THEN
    v_ends := @schema@._need_live_lease(require_lease.scope, require_lease.owner, v_required_term);
  ELSE
    INSERT INTO @schema@.lease_requirements VALUES (pg_current_xact_id(), require_lease.scope, require_lease.owner, v_term);
    -- The trigger deletes the row: if it is gone, the trigger has run already.
    IF NOT EXISTS (SELECT FROM @schema@.lease_requirements r WHERE r.xid = pg_current_xact_id() AND r.scope = require_lease.scope) THEN
      RAISE EXCEPTION 'TG005 constraints are immediate in this transaction, so its COMMIT would not look at the lease' USING ERRCODE = 'TG005', HINT = 'SET CONSTRAINTS ALL DEFERRED first.';
    END IF;
    PERFORM set_config('termgate.required_leases', (v_required || jsonb_build_object('scope', require_lease.scope, 'owner', require_lease.owner, 'term', v_term))::text, true);
  END IF;
  RETURN v_ends;
END $$;
REVOKE ALL ON FUNCTION @schema@.require_lease(text, text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION @schema@._require_at_commit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('max_prepared_transactions') <> '0' AND current_query() ~* 'prepare([[:space:]]|--.*|/[*].*[*]/)+transaction' THEN
    RAISE EXCEPTION 'cannot PREPARE a transaction that requires the lease of scope "%"', NEW.scope USING ERRCODE = '0A000', HINT = 'COMMIT PREPARED would come at any time, and ask nobody.';
  END IF;
  -- The trigger would test the lease now, and not at COMMIT.
  IF current_query() ~* 'set([[:space:]]|--.*|/[*].*[*]/)+constraints[^;]*immediate' THEN
    RAISE EXCEPTION 'constraints stay deferred in a transaction that requires the lease of scope "%"', NEW.scope
      USING ERRCODE = '0A000', HINT = 'SET CONSTRAINTS before require_lease(), and ALL DEFERRED again; or name the constraints that shall be immediate.';
  END IF;
  PERFORM @schema@._need_live_lease(NEW.scope, NEW.owner_id, NEW.term);
  DELETE FROM @schema@.lease_requirements r WHERE r.xid = NEW.xid AND r.scope = NEW.scope;
  RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION @schema@._require_at_commit() FROM PUBLIC;

-- For the guard's library: the test of _require_at_commit() again, at the last moment before the commit is written.
CREATE OR REPLACE FUNCTION @schema@._guard_required(p_required text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM @schema@._need_live_lease(r.scope COLLATE pg_catalog."C", r.owner COLLATE pg_catalog."C", r.term) FROM jsonb_to_recordset(p_required::jsonb) AS r(scope text, owner text, term bigint);
  RETURN true;
END $$;
REVOKE ALL ON FUNCTION @schema@._guard_required(text) FROM PUBLIC;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = format('%I.lease_requirements', @schema_lit@)::regclass AND tgname = 'require_at_commit') THEN
    CREATE CONSTRAINT TRIGGER require_at_commit AFTER INSERT ON @schema@.lease_requirements DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION @schema@._require_at_commit();
    ALTER TABLE @schema@.lease_requirements ENABLE ALWAYS TRIGGER require_at_commit;
  END IF;
END $$;
