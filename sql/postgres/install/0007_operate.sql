-- What operators do, all of it audited: lowering a fence, moving and pruning streams, settings, and declaring scopes trusted or untrusted.
-- Locks: reset_fence, set_raise_by, stream_move and declare_restored take those of a raise, the first and declare_restored also the lease's
-- key; prune takes those of a raise if the fence is below the rows; the declarations take the row of incarnation; declare_untrusted takes
-- the key of all seats, exclusively. Keeps F3.

-- Locks the row of incarnation, and waits for it no longer than a check may wait: a session that is frozen in a transaction may have
-- changed it (an acquisition of another scope, or the first check after a restart).
CREATE OR REPLACE FUNCTION @schema@._lock_incarnation() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_user text := current_setting('lock_timeout');
  v_xids xid[];
BEGIN
  PERFORM @schema@._set_lock_timeout(clock_timestamp() + @schema@._wait('check_wait_ms'), v_user);
  PERFORM 1 FROM @schema@.incarnation FOR UPDATE;
  PERFORM set_config('lock_timeout', v_user, true);
EXCEPTION WHEN lock_not_available THEN
  v_xids := ARRAY(SELECT i.xmax FROM @schema@.incarnation i);
  BEGIN
    v_xids := v_xids || ARRAY(SELECT m.xid FROM pg_get_multixact_members(v_xids[1]) m);
  EXCEPTION WHEN OTHERS THEN
    NULL;  -- not a multixact
  END;
  RAISE EXCEPTION 'TG006 the row that says whether this database was restored is held by %',
    coalesce((SELECT string_agg(DISTINCT coalesce('pid ' || l.pid, 'a prepared transaction'), ', ') FROM pg_locks l
               WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock' AND l.pid IS DISTINCT FROM pg_backend_pid()
                 AND l.transactionid = ANY (v_xids)), 'a session that has just ended')
    USING ERRCODE = 'TG006', DETAIL = format('check_wait is %s ms', @schema@._setting('check_wait_ms')), HINT = 'Nothing was changed. End what is named here, then try again.';
END $$;

-- Records the database as it is now as the trusted one, and returns its generation. p_trusted_since NULL: only if the incarnation has
-- changed; then every scope is untrusted until it is admitted under the new generation. 0: no raise is missing.
CREATE OR REPLACE FUNCTION @schema@._admit_incarnation(p_trusted_since bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_fences oid := format('%I.fences', @schema_lit@)::regclass;
  v_new boolean;
  v_generation bigint;
BEGIN
  -- If nothing has to be written the row is not locked: acquisitions of other scopes must not wait for a frozen one.
  v_new := @schema@._changed_incarnation() IS NOT NULL;
  IF v_new OR p_trusted_since IS NOT NULL THEN
    PERFORM @schema@._lock_incarnation();
    v_new := @schema@._changed_incarnation() IS NOT NULL;
  END IF;
  IF v_new THEN
    PERFORM @schema@._end_older_sessions();
  END IF;
  IF v_new OR p_trusted_since IS NOT NULL THEN
    INSERT INTO @schema@.incarnation AS i (generation, trusted_since, system_identifier, timeline, database_oid, fences_oid, postmaster_start, fences_path)
    VALUES (1 + coalesce((SELECT max(f.generation) FROM @schema@.fences f), 0), 0,
            @schema@._system_identifier(), left(pg_walfile_name(pg_current_wal_lsn()), 8),
            (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()), v_fences,
            pg_postmaster_start_time(), pg_relation_filepath(v_fences))
    ON CONFLICT (one) DO UPDATE
       SET generation = greatest(i.generation + 1, EXCLUDED.generation), system_identifier = EXCLUDED.system_identifier, timeline = EXCLUDED.timeline,
           database_oid = EXCLUDED.database_oid, fences_oid = EXCLUDED.fences_oid, postmaster_start = EXCLUDED.postmaster_start,
           fences_path = EXCLUDED.fences_path;
    UPDATE @schema@.incarnation i SET trusted_since = coalesce(p_trusted_since, i.generation);
  END IF;
  SELECT i.generation INTO v_generation FROM @schema@.incarnation i;
  RETURN v_generation;
END $$;

-- reset_fence(scope, term, actor, reason) → the fence before. The only way down. A lease with a higher term ends.
CREATE OR REPLACE FUNCTION @schema@.reset_fence(scope text, term bigint, actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<reset_fence>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  actor text COLLATE pg_catalog."C" := actor;
  reason text COLLATE pg_catalog."C" := reason;
  f @schema@.fences;
  v_before bigint;
  v_evicted integer[];
  v_start timestamptz := clock_timestamp();
  v_until timestamptz := v_start + @schema@._grace(NULL) + @schema@._wait('check_wait_ms');
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_term(term);
  PERFORM @schema@._need_reason(actor, reason);
  v_before := greatest(@schema@._shown(scope), term);
  v_evicted := @schema@._exclude(scope, v_before, NULL);
  v_evicted := v_evicted || @schema@._take(@schema@._lease_key(scope), scope, v_before, v_start + @schema@._grace(NULL), v_until);
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = reset_fence.scope FOR UPDATE;
  IF f.scope IS NULL THEN
    RAISE EXCEPTION 'TG005 scope "%" has no fence', scope USING ERRCODE = 'TG005';
  ELSIF term > f.term THEN
    RAISE EXCEPTION 'TG005 the fence of scope "%" stands at %: a reset lowers it, a seal raises it', scope, f.term USING ERRCODE = 'TG005';
  END IF;
  PERFORM @schema@._need_trusted(scope, f.generation);
  v_before := @schema@._evidence(scope);
  IF term < f.term THEN
    INSERT INTO @schema@.resets (scope, from_term, to_term) VALUES (reset_fence.scope, f.term, reset_fence.term);
  END IF;
  IF v_before > greatest(f.term, term) THEN
    -- The rows show more than the fence did, so their terms are taken back too.
    INSERT INTO @schema@.resets (scope, from_term, to_term) VALUES (reset_fence.scope, v_before, reset_fence.term);
  END IF;
  UPDATE @schema@.adopted_terms a SET term = reset_fence.term WHERE a.scope = reset_fence.scope AND a.term > reset_fence.term;
  UPDATE @schema@.leases l SET term = least(l.term, reset_fence.term), released_at = coalesce(l.released_at, clock_timestamp())
   WHERE l.scope = reset_fence.scope AND l.term > reset_fence.term;
  PERFORM @schema@._audit_evictions(scope, term, v_evicted);
  PERFORM @schema@._set_fence(scope, term, 'reset', actor, jsonb_build_object('previous', f.term, 'evidence', v_before, 'reason', reason));
  RETURN f.term;
END $$;

-- set_raise_by(scope, raise_by). writer: any writer with a higher term raises the fence. seal: no writer does.
CREATE OR REPLACE FUNCTION @schema@.set_raise_by(scope text, raise_by text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<set_raise_by>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  raise_by text COLLATE pg_catalog."C" := raise_by;
BEGIN
  PERFORM @schema@._need_scope(scope);
  IF raise_by IS NULL OR raise_by NOT IN ('writer', 'seal') THEN
    RAISE EXCEPTION 'TG005 raise_by must be writer or seal' USING ERRCODE = 'TG005';
  END IF;
  PERFORM @schema@._audit_evictions(scope, greatest(1, @schema@._shown(scope)), @schema@._exclude(scope, greatest(1, @schema@._shown(scope)), NULL));
  UPDATE @schema@.fences f SET raise_by = set_raise_by.raise_by WHERE f.scope = set_raise_by.scope;
  IF NOT FOUND THEN
    PERFORM @schema@._need_trusted(scope, NULL);
    INSERT INTO @schema@.fences (scope, term, raise_by, generation, vouched)
    VALUES (set_raise_by.scope, @schema@._evidence(set_raise_by.scope), set_raise_by.raise_by, (SELECT i.generation FROM @schema@.incarnation i),
            format('%I.fences', @schema_lit@)::regclass);
  END IF;
  PERFORM @schema@._audit('set_raise_by', scope, NULL, jsonb_build_object('raise_by', raise_by));
  RETURN raise_by;
END $$;

-- set_setting(name, value) → name and value as they are now.
CREATE OR REPLACE FUNCTION @schema@.set_setting(INOUT name text, INOUT value text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_before text := (SELECT s.value FROM @schema@.settings s WHERE s.name = set_setting.name COLLATE pg_catalog."C");
BEGIN
  IF v_before IS NULL THEN
    RAISE EXCEPTION 'TG005 there is no setting "%": the settings are %', name,
      (SELECT string_agg(s.name, ', ' ORDER BY s.name) FROM @schema@.settings s) USING ERRCODE = 'TG005';
  ELSIF value IS NULL THEN
    RAISE EXCEPTION 'TG005 setting "%" cannot be NULL', name USING ERRCODE = 'TG005';
  END IF;
  UPDATE @schema@.settings s SET value = set_setting.value WHERE s.name = set_setting.name COLLATE pg_catalog."C";
  PERFORM @schema@._audit('setting', NULL, NULL, jsonb_build_object('name', name, 'value', value, 'previous', v_before));
END $$;

-- prune(stream, before) → how many writes with a lower number were deleted. Fence, numbering and write ids stay.
CREATE OR REPLACE FUNCTION @schema@.prune(stream text, before bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<prune>>
DECLARE
  stream text COLLATE pg_catalog."C" := stream;
  v_scope text := (SELECT s.scope FROM @schema@.streams s WHERE s.stream_id = stream);
  v_count bigint;
  v_stored bigint;
BEGIN
  PERFORM @schema@._need_scope(stream, 'stream');
  IF before IS NULL OR before < 1 THEN
    RAISE EXCEPTION 'TG005 prune needs the first sequence number to keep, 1 or more' USING ERRCODE = 'TG005';
  ELSIF v_scope IS NULL THEN
    RAISE EXCEPTION 'TG005 there is no stream "%"', stream USING ERRCODE = 'TG005';
  END IF;
  -- The rows may be the only evidence of a raise that was lost: the fence is raised before they go.
  v_stored := @schema@._stored_max(v_scope);
  IF v_stored > coalesce((SELECT f.term FROM @schema@.fences f WHERE f.scope = v_scope), 0) THEN
    PERFORM @schema@._raise(v_scope, v_stored, 'seal', NULL);
  END IF;
  DELETE FROM @schema@.stream_writes w WHERE w.stream_id = stream AND w.sequence_no < before;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  PERFORM @schema@._audit('prune', v_scope, NULL, jsonb_build_object('stream', stream, 'before', before, 'deleted', v_count));
  RETURN v_count;
END $$;

-- prune_history(older_than) → how many rows were deleted: of the audit, of job runs that have ended or are lost, and of observations.
-- Nothing younger than an hour, so that an hourly collector misses nothing. The audit row of each pruning stays.
CREATE OR REPLACE FUNCTION @schema@.prune_history(older_than interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_before timestamptz := clock_timestamp() - older_than;
  v_count bigint;
  v_all bigint;
BEGIN
  -- By the moment that results, because '-2 months 60 days 1 hour' compares as an hour.
  IF v_before IS NULL OR v_before > clock_timestamp() - interval '1 hour' THEN
    RAISE EXCEPTION 'TG005 prune_history needs an age of 1 hour or more, not %', coalesce((extract(epoch FROM older_than) * 1000)::bigint || ' ms', 'NULL') USING ERRCODE = 'TG005';
  END IF;
  DELETE FROM @schema@.audit a WHERE a.at < v_before AND a.action <> 'prune_history';
  GET DIAGNOSTICS v_all = ROW_COUNT;
  DELETE FROM @schema@.job_runs j
   WHERE coalesce(j.completed_at, j.last_heartbeat) < v_before
     AND (j.status <> 'started' OR j.term > 0 AND EXISTS (SELECT FROM @schema@.fences f WHERE f.scope = j.scope AND f.term <> j.term))
     -- The last completed run shows when the next one is due (--once-per), and the last run's checkpoint shows where it begins (--resume).
     -- Dry runs, and requests that nobody has begun, show neither.
     AND (j.status <> 'completed' OR j.request = 'dry-run'
          OR EXISTS (SELECT FROM @schema@.job_runs o WHERE o.scope = j.scope AND o.job_name = j.job_name AND o.status = 'completed' AND o.request IS DISTINCT FROM 'dry-run'
                                                        AND (o.started_at, o.run_id) > (j.started_at, j.run_id) AND o.started_at <= clock_timestamp()))
     AND (j.status = 'completed' OR j.checkpoint IS NULL OR j.request = 'dry-run'
          OR EXISTS (SELECT FROM @schema@.job_runs o WHERE o.scope = j.scope AND o.job_name = j.job_name AND o.term > 0 AND o.request IS DISTINCT FROM 'dry-run'
                                                        AND (o.started_at, o.run_id) > (j.started_at, j.run_id) AND o.started_at <= clock_timestamp()));
  GET DIAGNOSTICS v_count = ROW_COUNT;
  v_all := v_all + v_count;
  DELETE FROM @schema@.observed o WHERE o.at < v_before;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  v_all := v_all + v_count;
  PERFORM @schema@._audit('prune_history', NULL, NULL, jsonb_build_object('older_than', older_than, 'deleted', v_all));
  RETURN v_all;
END $$;

-- stream_move(stream, scope, actor, reason) → false if that scope guards the stream already. From now on it guards the stream. Both scopes
-- are locked as for a raise: the old one so that nobody is still writing, the new one because its fence must not be below the stream's
-- highest term, so that terms along the stream never fall.
CREATE OR REPLACE FUNCTION @schema@.stream_move(stream text, scope text, actor text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<stream_move>>
DECLARE
  stream text COLLATE pg_catalog."C" := stream;
  scope text COLLATE pg_catalog."C" := scope;
  actor text COLLATE pg_catalog."C" := actor;
  reason text COLLATE pg_catalog."C" := reason;
  v_from text := (SELECT s.scope FROM @schema@.streams s WHERE s.stream_id = stream);
  v_highest bigint;
  v_fence bigint;
  v_scope text;
BEGIN
  PERFORM @schema@._need_scope(stream, 'stream');
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_reason(actor, reason);
  IF v_from IS NULL THEN
    RAISE EXCEPTION 'TG005 there is no stream "%"', stream USING ERRCODE = 'TG005';
  ELSIF v_from = scope THEN
    RETURN false;
  END IF;
  FOR v_scope IN SELECT s FROM unnest(ARRAY[v_from, scope]) s ORDER BY s COLLATE pg_catalog."C" LOOP
    PERFORM @schema@._need_trusted(v_scope, (SELECT f.generation FROM @schema@.fences f WHERE f.scope = v_scope));
    PERFORM @schema@._audit_evictions(v_scope, greatest(1, @schema@._shown(v_scope)), @schema@._exclude(v_scope, greatest(1, @schema@._shown(v_scope)), NULL));
  END LOOP;
  PERFORM 1 FROM @schema@.streams s WHERE s.stream_id = stream AND s.scope = v_from FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'TG005 stream "%" was moved by another session meanwhile', stream USING ERRCODE = 'TG005';
  END IF;
  v_highest := coalesce((SELECT max(w.term) FROM @schema@.stream_writes w WHERE w.stream_id = stream AND w.term <= @schema@._evidence(v_from)), 0);
  v_fence := @schema@._evidence(scope);
  IF v_highest > v_fence OR NOT EXISTS (SELECT FROM @schema@.fences f WHERE f.scope = stream_move.scope) THEN
    IF EXISTS (SELECT FROM @schema@.leases l WHERE l.scope = stream_move.scope AND l.term < v_highest) THEN
      RAISE EXCEPTION 'TG005 stream "%" has term %, above what the leases of scope "%" have issued', stream, v_highest, scope
        USING ERRCODE = 'TG005', HINT = 'Move it to a scope whose fence is higher.';
    END IF;
    PERFORM @schema@._set_fence(scope, greatest(v_highest, v_fence, 1), 'raise', actor, jsonb_build_object('previous', v_fence, 'reason', reason));
  END IF;
  UPDATE @schema@.streams s SET scope = stream_move.scope WHERE s.stream_id = stream;
  PERFORM @schema@._audit('stream_move', scope, actor, jsonb_build_object('stream', stream, 'from', v_from, 'reason', reason));
  RETURN true;
END $$;

-- Prepared transactions that hold the lock of an untrusted scope. COMMIT PREPARED checks no fence. So such a transaction would commit here
-- even if its term was overtaken in the database as it was before the restore. One row for each scope; scope NULL: the transaction has
-- passed very many, and it is not known which.
CREATE OR REPLACE FUNCTION @schema@._prepared_in_doubt() RETURNS TABLE (gid text, owner name, prepared timestamptz, scope text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_all boolean;
  v_since bigint := (SELECT i.trusted_since FROM @schema@.incarnation i);
BEGIN
  IF NOT EXISTS (SELECT FROM pg_prepared_xacts x WHERE x.database = current_database()) THEN
    RETURN;
  END IF;
  v_all := @schema@._changed_incarnation() IS NOT NULL;
  RETURN QUERY
    WITH held AS MATERIALIZED (
      SELECT x.gid, x.owner, x.prepared, l.locktype, l.relation, l.mode, (l.classid::bigint << 32) | l.objid::bigint AS key, l.objsubid
        FROM pg_prepared_xacts x
        JOIN pg_locks t ON t.pid IS NULL AND t.locktype = 'transactionid' AND t.transactionid = x.transaction
        JOIN pg_locks l ON l.pid IS NULL AND l.virtualtransaction = t.virtualtransaction
       WHERE x.database = current_database()
    ), by_key AS (
      SELECT DISTINCT h.gid, h.owner, h.prepared, f.scope, f.generation FROM held h JOIN @schema@.fences f ON @schema@._queue_key(f.scope) = h.key
       WHERE h.locktype = 'advisory' AND h.objsubid = 1
    )
    SELECT b.gid, b.owner, b.prepared, b.scope FROM by_key b WHERE v_all OR b.generation < v_since
    UNION ALL
    SELECT DISTINCT h.gid, h.owner, h.prepared, NULL::text FROM held h
     WHERE h.locktype = 'relation' AND h.relation = format('%I.passes', @schema_lit@)::regclass AND h.mode = 'RowExclusiveLock'
       AND (v_all OR EXISTS (SELECT FROM @schema@.fences f WHERE f.generation < v_since));
END $$;

-- Warns the caller of a declaration, and writes a row of the audit. p_scope: only for this scope.
CREATE OR REPLACE FUNCTION @schema@._warn_of_prepared(p_scope text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_gids text := (SELECT string_agg(DISTINCT quote_literal(p.gid), ', ') FROM @schema@._prepared_in_doubt() p WHERE p_scope IS NULL OR p.scope IS NULL OR p.scope = p_scope);
BEGIN
  IF v_gids IS NOT NULL THEN
    RAISE WARNING 'prepared transactions hold a scope that is untrusted: %', v_gids
      USING HINT = 'COMMIT PREPARED asks no fence. ROLLBACK PREPARED each, unless its transaction manager vouches that it was committed nowhere else and nothing came after it.';
    PERFORM @schema@._audit('prepared_in_doubt', p_scope, NULL, jsonb_build_object('transactions', v_gids));
  END IF;
END $$;

-- declare_restored(scope, above, actor, reason) → the fence, which is at least `above`: the highest term that the authority that issues the
-- terms has given out. Releases the scope's lease. This one scope is trusted again.
CREATE OR REPLACE FUNCTION @schema@.declare_restored(scope text, above bigint, actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<declare_restored>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  actor text COLLATE pg_catalog."C" := actor;
  reason text COLLATE pg_catalog."C" := reason;
  f @schema@.fences;
  v_generation bigint;
  v_fence bigint;
  v_evicted integer[];
  v_start timestamptz := clock_timestamp();
BEGIN
  PERFORM @schema@._need_scope(scope);
  PERFORM @schema@._need_term(above);
  PERFORM @schema@._need_reason(actor, reason);
  v_evicted := @schema@._exclude(scope, greatest(above, @schema@._shown(scope)), NULL);
  -- The lease's key as well: its row is changed here, and a frozen renewal may hold it.
  v_evicted := v_evicted || @schema@._take(@schema@._lease_key(scope), scope, greatest(above, @schema@._shown(scope)), v_start + @schema@._grace(NULL),
                                           v_start + @schema@._grace(NULL) + @schema@._wait('check_wait_ms'));
  SELECT * INTO f FROM @schema@.fences t WHERE t.scope = declare_restored.scope FOR UPDATE;
  v_fence := greatest(above, @schema@._evidence(scope));
  PERFORM @schema@._warn_of_prepared(scope);
  v_generation := @schema@._admit_incarnation(NULL);
  UPDATE @schema@.leases l SET released_at = coalesce(l.released_at, clock_timestamp()) WHERE l.scope = declare_restored.scope;
  PERFORM @schema@._audit_evictions(scope, v_fence, v_evicted);
  PERFORM @schema@._set_fence(scope, v_fence, 'declare_restored', actor, jsonb_build_object('previous', f.term, 'above', above, 'reason', reason), v_generation);
  RETURN v_fence;
END $$;

-- How many scopes are untrusted.
CREATE OR REPLACE FUNCTION @schema@._untrusted_scopes() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF @schema@._changed_incarnation() IS NOT NULL THEN
    RETURN (SELECT count(*) FROM @schema@.fences f);
  END IF;
  RETURN (SELECT count(*) FROM @schema@.fences f, @schema@.incarnation i WHERE f.generation < i.trusted_since);
END $$;

-- declare_nothing_lost(actor, reason) → how many scopes were untrusted: no raise is missing in this database (planned switchover, pg_upgrade).
CREATE OR REPLACE FUNCTION @schema@.declare_nothing_lost(actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<declare_nothing_lost>>
DECLARE
  actor text COLLATE pg_catalog."C" := actor;
  reason text COLLATE pg_catalog."C" := reason;
  v_scopes bigint := @schema@._untrusted_scopes();
BEGIN
  PERFORM @schema@._need_reason(actor, reason);
  PERFORM @schema@._warn_of_prepared(NULL);
  PERFORM @schema@._audit('declare_nothing_lost', NULL, actor, jsonb_build_object('reason', reason, 'scopes', v_scopes, 'changed', @schema@._changed_incarnation()));
  PERFORM @schema@._admit_incarnation(0);
  -- Only to make checks fast again. Rows that another session holds are skipped; their checks go on comparing generations.
  UPDATE @schema@.fences f SET vouched = f.tableoid
   WHERE f.scope IN (SELECT g.scope FROM @schema@.fences g WHERE g.vouched <> g.tableoid FOR UPDATE SKIP LOCKED);
  PERFORM @schema@._name_row_locks();
  RETURN v_scopes;
END $$;

-- declare_untrusted(actor, reason) → how many scopes are untrusted now. For an older copy of this database that was put back in a way that
-- the database cannot detect (storage snapshot, bare base backup).
CREATE OR REPLACE FUNCTION @schema@.declare_untrusted(actor text, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<declare_untrusted>>
DECLARE
  actor text COLLATE pg_catalog."C" := actor;
  reason text COLLATE pg_catalog."C" := reason;
  v_user text := current_setting('lock_timeout');
BEGIN
  PERFORM @schema@._need_reason(actor, reason);
  PERFORM @schema@._sweep_all();
  PERFORM @schema@._audit('declare_untrusted', NULL, actor, jsonb_build_object('reason', reason));
  PERFORM @schema@._admit_incarnation(0);
  UPDATE @schema@.incarnation i SET trusted_since = i.generation;
  BEGIN
    PERFORM set_config('lock_timeout', (@schema@._setting('check_wait_ms')::bigint + 1)::text, true);
    UPDATE @schema@.fences f SET vouched = 0;
    PERFORM @schema@._name_row_locks();
    PERFORM set_config('lock_timeout', v_user, true);
  EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'TG006 a session holds the row of a fence' USING ERRCODE = 'TG006', HINT = 'End the sessions of applications first: they may still be writing.';
  END;
  RETURN @schema@._untrusted_scopes();
END $$;
