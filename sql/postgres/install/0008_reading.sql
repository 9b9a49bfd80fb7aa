-- Reading: functions and views for roles that have EXECUTE or SELECT on them and nothing on the tables. They take no locks; only the first
-- after a restart may record the restart in `incarnation`. Also two subjects that write: record_refusal() and the runs of jobs.

-- Up to version 14 fence() had the column `doubt` and fence_status had `in_doubt`. PostgreSQL renames a view's column but not a function's.
-- So the older function gets another name, and 0015 gives its grants to the new one.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass(format('%I.fence_status', @schema_lit@)) AND a.attname = 'in_doubt') THEN
    ALTER VIEW @schema@.fence_status RENAME COLUMN in_doubt TO untrusted;
  END IF;
  IF EXISTS (SELECT FROM pg_proc p WHERE p.oid = to_regprocedure(format('%I.fence(text)', @schema_lit@)) AND 'doubt' = ANY (p.proargnames)) THEN
    ALTER FUNCTION @schema@.fence(text) RENAME TO _fence_14;
  END IF;
END $$;

-- fence(scope) → one row, or none for a scope without a fence. untrusted: why its writes get TG004; NULL if they do not.
CREATE OR REPLACE FUNCTION @schema@.fence(scope text, OUT term bigint, OUT raised_at timestamptz, OUT raised_by text, OUT raise_by text, OUT untrusted text)
RETURNS SETOF record LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT f.term, f.raised_at, f.raised_by, f.raise_by, @schema@._why_untrusted(f.generation) FROM @schema@.fences f WHERE f.scope = fence.scope COLLATE pg_catalog."C"
$$;

-- lease(scope) → one row, or none; live: not released and not expired, by the database's clock.
CREATE OR REPLACE FUNCTION @schema@.lease(scope text, OUT owner_id text, OUT term bigint, OUT expires_at timestamptz, OUT acquired_at timestamptz,
                                          OUT renewed_at timestamptz, OUT released_at timestamptz, OUT endpoint text, OUT live boolean)
RETURNS SETOF record LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.owner_id, l.term, l.expires_at, l.acquired_at, l.renewed_at, l.released_at, l.endpoint,
         l.released_at IS NULL AND l.expires_at > clock_timestamp()
    FROM @schema@.leases l WHERE l.scope = lease.scope COLLATE pg_catalog."C"
$$;

-- read_stream(stream, after, limit) → writes with a higher number, in order. Numbers become visible in order, so a follower skips none.
CREATE OR REPLACE FUNCTION @schema@.read_stream(stream text, after bigint DEFAULT 0, "limit" bigint DEFAULT NULL)
RETURNS TABLE (sequence_no bigint, scope text, term bigint, payload bytea, created_at timestamptz, write_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT w.sequence_no, w.scope, w.term, w.payload, w.created_at, w.write_id
    FROM @schema@.stream_writes w WHERE w.stream_id = read_stream.stream COLLATE pg_catalog."C" AND w.sequence_no > coalesce(read_stream.after, 0)
   ORDER BY w.sequence_no LIMIT read_stream."limit"
$$;

-- server_time(): the database's moving clock, to compare with expiries.
CREATE OR REPLACE FUNCTION @schema@.server_time() RETURNS timestamptz LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT clock_timestamp() $$;

CREATE OR REPLACE FUNCTION @schema@.schema_version() RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT max(m.version) FROM @schema@.migrations m $$;

-- Whoever reads a view needs EXECUTE on the functions in it. Readers get this one, and not _why_untrusted().
CREATE OR REPLACE FUNCTION @schema@._untrusted(p_generation bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ SELECT @schema@._why_untrusted(p_generation) IS NOT NULL $$;

-- reset_from: the highest fence that an audited reset has lowered.
CREATE OR REPLACE VIEW @schema@.fence_status AS
  SELECT f.scope, f.term, f.raised_at, f.raised_by, f.raise_by, @schema@._untrusted(f.generation) AS untrusted,
         (SELECT max(r.from_term) FROM @schema@.resets r WHERE r.scope = f.scope) AS reset_from
    FROM @schema@.fences f;
CREATE OR REPLACE VIEW @schema@.lease_status AS
  SELECT l.scope, l.owner_id, l.term, l.expires_at, l.acquired_at, l.renewed_at, l.released_at, l.endpoint,
         l.released_at IS NULL AND l.expires_at > clock_timestamp() AS live
    FROM @schema@.leases l;
CREATE OR REPLACE VIEW @schema@.stream_status AS 
  SELECT s.stream_id, s.scope, s.last_no, s.created_at,
         (SELECT min(w.sequence_no) FROM @schema@.stream_writes w WHERE w.stream_id = s.stream_id) AS first_no
    FROM @schema@.streams s;
-- An open run is shown as lost as soon as its lease has expired or ended, or its term is not the fence. Nothing is written for that, so
-- nobody waits for a row that a frozen session holds. While its term is the fence it may still finish. An open run with term 0 is one that
-- somebody requested and nobody has begun (0026).
CREATE OR REPLACE VIEW @schema@.job_history AS
  SELECT j.run_id, j.job_name, j.scope, j.owner_id, j.term, j.started_at, j.completed_at,
         CASE WHEN j.status = 'started' AND j.term = 0 THEN 'requested'
              WHEN j.status = 'started'
               AND (EXISTS (SELECT FROM @schema@.fences f WHERE f.scope = j.scope AND f.term <> j.term)
                    OR EXISTS (SELECT FROM @schema@.leases l WHERE l.scope = j.scope AND (l.term <> j.term OR l.released_at IS NOT NULL OR l.expires_at <= clock_timestamp())))
              THEN 'lost' ELSE j.status END AS status,
         j.last_heartbeat, j.exit_code, j.checkpoint, j.detail, j.request
    FROM @schema@.job_runs j;
CREATE OR REPLACE VIEW @schema@.setting_list AS SELECT s.name, s.value, s.what FROM @schema@.settings s;

-- record_refusal(…): a refused transaction is rolled back, so its library or proxy records the refusal afterwards, at most once a second
-- for each scope.
CREATE OR REPLACE FUNCTION @schema@.record_refusal(scope text, term bigint, count bigint, first timestamptz, last timestamptz, client text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<record_refusal>>
DECLARE
  scope text COLLATE pg_catalog."C" := scope;
  client text COLLATE pg_catalog."C" := client;
BEGIN
  PERFORM @schema@._need_scope(scope);
  IF count IS NULL OR count < 1 THEN
    RAISE EXCEPTION 'TG005 the number of refusals must be 1 or more' USING ERRCODE = 'TG005';
  END IF;
  -- Only the caller vouches for this. So a refusal that cannot have happened is an error, and times are limited to the last day.
  IF NOT EXISTS (SELECT FROM @schema@.fences f WHERE f.scope = record_refusal.scope AND f.term > record_refusal.term) THEN
    RAISE EXCEPTION 'TG005 term % is not below the fence of scope "%": nothing was refused for it', term, scope USING ERRCODE = 'TG005';
  ELSIF count > 1000000000 THEN
    RAISE EXCEPTION 'TG005 the number of refusals is %: at most 1000000000 are recorded at once', count USING ERRCODE = 'TG005';
  END IF;
  IF EXISTS (SELECT FROM @schema@.audit a WHERE a.scope = record_refusal.scope AND a.action = 'refuse' AND a.at > clock_timestamp() - interval '1 s') THEN
    RETURN false;  -- the caller adds these to its next report
  END IF;
  PERFORM @schema@._audit('refuse', scope, NULL, jsonb_strip_nulls(jsonb_build_object('term', term, 'count', count,
    'first', greatest(least(first, last, clock_timestamp()), clock_timestamp() - interval '1 day'), 'last', greatest(least(last, clock_timestamp()), clock_timestamp() - interval '1 day'),
    'client', left(client, 1000))));
  RETURN true;
END $$;

-- The states of a run and what each of the calls below does in them: docs/reference/jobs.md.

-- For job_start and job_take (0026): the check, then room for one open run of a job and scope. An open run of this term is an error. Those
-- of other terms become lost, because their terms are not the fence. A row that another session holds is left as it is, because that
-- session may be frozen; it is shown as lost.
CREATE OR REPLACE FUNCTION @schema@._job_begin(p_job text, p_scope text, p_owner text, p_term bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_run bigint;
BEGIN
  PERFORM @schema@._need_job(p_job);
  PERFORM @schema@._need_owner(p_owner);
  PERFORM @schema@.check_term(p_scope, p_term);
  SELECT o.run_id INTO v_run FROM @schema@.job_runs o WHERE o.scope = p_scope AND o.job_name = p_job AND o.status = 'started' AND o.term = p_term;
  IF FOUND THEN
    RAISE EXCEPTION 'TG005 job "%" of scope "%" has an open run already, %: finish it first', p_job, p_scope, v_run USING ERRCODE = 'TG005';
  END IF;
  UPDATE @schema@.job_runs j SET status = 'lost', completed_at = clock_timestamp()
   WHERE j.run_id IN (SELECT o.run_id FROM @schema@.job_runs o
                       WHERE o.scope = p_scope AND o.job_name = p_job AND o.status = 'started' AND o.term > 0 FOR UPDATE SKIP LOCKED);
END $$;
CREATE OR REPLACE FUNCTION @schema@._need_job(p_job text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(p_job, '') = '' OR char_length(p_job) > 200 THEN
    RAISE EXCEPTION 'TG005 the job must be named, in 1 to 200 characters' USING ERRCODE = 'TG005';
  END IF;
END $$;
REVOKE ALL ON FUNCTION @schema@._job_begin(text, text, text, bigint), @schema@._need_job(text) FROM PUBLIC;

-- job_start(job_name, scope, owner, term, detail) → run id. Checked like a write.
CREATE OR REPLACE FUNCTION @schema@.job_start(job_name text, scope text, owner text, term bigint, detail text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<job_start>>
DECLARE
  job_name text COLLATE pg_catalog."C" := job_name;
  scope text COLLATE pg_catalog."C" := scope;
  owner text COLLATE pg_catalog."C" := owner;
  detail text COLLATE pg_catalog."C" := detail;
  v_run bigint;
BEGIN
  PERFORM @schema@._job_begin(job_name, scope, owner, term);
  INSERT INTO @schema@.job_runs (job_name, scope, owner_id, term, detail, started_by)
  VALUES (job_start.job_name, job_start.scope, job_start.owner, job_start.term, job_start.detail, @schema@._caller()) ON CONFLICT DO NOTHING RETURNING run_id INTO v_run;
  IF v_run IS NULL THEN
    RAISE EXCEPTION 'could not serialize access: another session has just started job "%" of scope "%" under term %', job_name, scope, term USING ERRCODE = '40001';
  END IF;
  RETURN v_run;
END $$;

-- False if the run is not open. An error if it is not the caller's: only the role that started it and its members may use it, and a session
-- that declares a scope must declare the run's, and no other term. p_checked: the run's scope and term must pass the check too. A requested
-- run that has not begun is open only without p_checked.
DROP FUNCTION IF EXISTS @schema@._job_checked(bigint);
CREATE OR REPLACE FUNCTION @schema@._job_open(p_run bigint, p_checked boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j @schema@.job_runs;
  v_role name := @schema@._caller();
  v_scope text := nullif(current_setting('termgate.scope', true), '');
  v_term bigint := @schema@._declared_term();
BEGIN
  SELECT * INTO j FROM @schema@.job_runs r WHERE r.run_id = p_run AND r.status = 'started' AND (r.term > 0 OR NOT p_checked);
  IF NOT FOUND THEN
    RETURN false;
  ELSIF j.started_by <> v_role AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = j.started_by AND pg_has_role(v_role, r.oid, 'MEMBER')) THEN
    RAISE EXCEPTION 'run % of scope "%" was started by role "%": role "%" may neither beat nor end it', p_run, j.scope, j.started_by, v_role
      USING ERRCODE = '42501', HINT = 'A role of level operate cancels it: termgate job cancel --run ' || p_run || ' --reason ...';
  ELSIF v_scope <> j.scope OR (v_scope IS NOT NULL AND v_term <> j.term) THEN
    RAISE EXCEPTION 'TG005 run % is of scope "%" and term %, and this session declares scope "%" and term %', p_run, j.scope, j.term, v_scope, coalesce(v_term::text, 'none')
      USING ERRCODE = 'TG005', HINT = 'Whoever leads another scope, or under another term, neither beats nor ends this run.';
  END IF;
  IF p_checked THEN
    PERFORM @schema@.check_term(j.scope, j.term);
  END IF;
  RETURN true;
END $$;

-- job_heartbeat(run_id, checkpoint) → false if the run is not open any more. Checked like a write.
CREATE OR REPLACE FUNCTION @schema@.job_heartbeat(run_id bigint, checkpoint text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<job_heartbeat>>
DECLARE
  checkpoint text COLLATE pg_catalog."C" := checkpoint;
BEGIN
  IF NOT @schema@._job_open(run_id, true) THEN
    RETURN false;
  END IF;
  UPDATE @schema@.job_runs j SET last_heartbeat = clock_timestamp(), checkpoint = coalesce(job_heartbeat.checkpoint, j.checkpoint)
   WHERE j.run_id = job_heartbeat.run_id AND j.status = 'started';
  RETURN FOUND;
END $$;

-- job_finish(run_id, status, exit_code, detail, checkpoint) → false if the run was not open any more. `completed` is checked like a write.
-- failed, cancelled and lost are not, so that a role can end its run after it has lost the lead. Level operate may cancel any run.
CREATE OR REPLACE FUNCTION @schema@.job_finish(run_id bigint, status text, exit_code integer DEFAULT NULL, detail text DEFAULT NULL, checkpoint text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<job_finish>>
DECLARE
  status text COLLATE pg_catalog."C" := status;
  detail text COLLATE pg_catalog."C" := detail;
  checkpoint text COLLATE pg_catalog."C" := checkpoint;
BEGIN
  IF status IS NULL OR status NOT IN ('completed', 'failed', 'cancelled', 'lost') THEN
    RAISE EXCEPTION 'TG005 a run ends as completed, failed, cancelled or lost' USING ERRCODE = 'TG005';
  ELSIF NOT (status = 'cancelled' AND has_function_privilege(@schema@._caller(), '@schema@.force_release(text, text, text)', 'EXECUTE'))
        AND NOT @schema@._job_open(run_id, status = 'completed') THEN
    RETURN false;
  END IF;
  UPDATE @schema@.job_runs j
     SET status = job_finish.status, completed_at = clock_timestamp(), last_heartbeat = clock_timestamp(), exit_code = job_finish.exit_code,
         checkpoint = coalesce(job_finish.checkpoint, j.checkpoint), detail = coalesce(job_finish.detail, j.detail)
   WHERE j.run_id = job_finish.run_id AND j.status = 'started';
  RETURN FOUND;
END $$;
