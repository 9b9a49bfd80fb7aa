-- Runs that somebody requests. A request is an open run with term 0. The next leader of its scope that answers requests begins it. It is
-- shown as requested (0008). There is at most one for each job and scope (the index job_runs_one_open). Locks: those of the INSERT and the
-- UPDATE. Keeps F1: a run begins under a term that passes the check.

-- job_request(job_name, scope, kind, actor, reason) → (requested, run_id). kind is run, dry-run or resume; its meaning is up to the command
-- that answers. requested false: run_id has been requested already, and nothing was changed. The request stays until it is begun or
-- cancelled (job_finish).
CREATE OR REPLACE FUNCTION @schema@.job_request(job_name text, scope text, kind text DEFAULT 'run', actor text DEFAULT NULL, reason text DEFAULT NULL,
                                                OUT requested boolean, OUT run_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<job_request>>
DECLARE
  job_name text COLLATE pg_catalog."C" := job_name;
  scope text COLLATE pg_catalog."C" := scope;
  kind text COLLATE pg_catalog."C" := kind;
  v_actor text := coalesce(actor, session_user);
  v_reason text := coalesce(reason, 'by hand');
BEGIN
  PERFORM @schema@._need_job(job_name);
  PERFORM @schema@._need_scope(scope);
  IF kind IS NULL OR kind NOT IN ('run', 'dry-run', 'resume') THEN
    RAISE EXCEPTION 'TG005 a job is asked to run, to dry-run or to resume' USING ERRCODE = 'TG005';
  END IF;
  PERFORM @schema@._need_reason(v_actor, v_reason);
  INSERT INTO @schema@.job_runs AS j (job_name, scope, owner_id, term, detail, started_by, request)
  VALUES (job_request.job_name, job_request.scope, '', 0, format('requested by %s: %s', v_actor, v_reason), @schema@._caller(), job_request.kind)
  ON CONFLICT DO NOTHING RETURNING j.run_id INTO run_id;
  requested := run_id IS NOT NULL;
  IF requested THEN
    PERFORM @schema@._audit('request_job', scope, v_actor, jsonb_build_object('job', job_name, 'run_id', run_id, 'kind', kind, 'reason', v_reason));
    RETURN;
  END IF;
  SELECT j.run_id INTO run_id FROM @schema@.job_runs j WHERE j.scope = job_request.scope AND j.job_name = job_request.job_name AND j.status = 'started' AND j.term = 0;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'could not serialize access: another session has just asked for job "%" of scope "%"', job_name, scope USING ERRCODE = '40001';
  END IF;
END $$;
REVOKE ALL ON FUNCTION @schema@.job_request(text, text, text, text, text) FROM PUBLIC;

-- job_take(job_name, scope, owner, term) → (run_id, kind): begins the requested run, as job_start begins one. NULL: none is requested, or
-- another session is working on it.
CREATE OR REPLACE FUNCTION @schema@.job_take(job_name text, scope text, owner text, term bigint, OUT run_id bigint, OUT kind text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
<<job_take>>
DECLARE
  job_name text COLLATE pg_catalog."C" := job_name;
  scope text COLLATE pg_catalog."C" := scope;
  owner text COLLATE pg_catalog."C" := owner;
BEGIN
  PERFORM @schema@._job_begin(job_name, scope, owner, term);
  UPDATE @schema@.job_runs j
     SET owner_id = job_take.owner, term = job_take.term, started_at = clock_timestamp(), last_heartbeat = clock_timestamp(), started_by = @schema@._caller()
   WHERE j.run_id = (SELECT o.run_id FROM @schema@.job_runs o
                      WHERE o.scope = job_take.scope AND o.job_name = job_take.job_name AND o.status = 'started' AND o.term = 0 FOR UPDATE SKIP LOCKED)
  RETURNING j.run_id, j.request INTO run_id, kind;
END $$;
REVOKE ALL ON FUNCTION @schema@.job_take(text, text, text, bigint) FROM PUBLIC;
