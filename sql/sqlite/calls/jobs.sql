-- Parameters: job_name, scope, run_id (each NULL: all), limit, status (NULL: all). Rows: newest first. An open run whose lease has ended is
-- shown as lost, and may still finish while its term is the fence; one with term 0 is requested. Locks: none.
SELECT run_id, job_name, scope, owner_id, term, started_at AS started_at_ms, completed_at AS completed_at_ms, status, last_heartbeat AS last_heartbeat_ms,
  exit_code, checkpoint, detail, request, termgate_now() AS now_ms
FROM (SELECT j.run_id, j.job_name, j.scope, j.owner_id, j.term, j.started_at, j.completed_at, j.last_heartbeat, j.exit_code, j.checkpoint, j.detail, j.request,
  CASE WHEN j.status = 'started' AND j.term = 0 THEN 'requested'
    WHEN j.status = 'started' AND (EXISTS (SELECT 1 FROM main.termgate_fences f WHERE f.scope = j.scope AND f.term <> j.term)
    OR EXISTS (SELECT 1 FROM main.termgate_leases l WHERE l.scope = j.scope
      AND (l.term <> j.term OR l.released_at IS NOT NULL OR l.expires_at <= termgate_now()))) THEN 'lost' ELSE j.status END AS status
  FROM main.termgate_job_runs j WHERE ($1 IS NULL OR j.job_name = $1) AND ($2 IS NULL OR j.scope = $2) AND ($3 IS NULL OR j.run_id = $3))
WHERE $5 IS NULL OR status = $5 ORDER BY started_at DESC, term DESC, run_id LIMIT $4
