-- Parameters: job_name, scope, run_id (each NULL: all), limit. Rows: newest first; an open run whose lease is over is lost, and may still finish while
-- its term is the fence's. Locks: none.
SELECT j.run_id, j.job_name, j.scope, j.owner_id, j.term, j.started_at AS started_at_ms, j.completed_at AS completed_at_ms,
  CASE WHEN j.status = 'started' AND (EXISTS (SELECT 1 FROM main.termgate_fences f WHERE f.scope = j.scope AND f.term <> j.term)
    OR EXISTS (SELECT 1 FROM main.termgate_leases l WHERE l.scope = j.scope
      AND (l.term <> j.term OR l.released_at IS NOT NULL OR l.expires_at <= termgate_now()))) THEN 'lost' ELSE j.status END AS status,
  j.last_heartbeat AS last_heartbeat_ms, j.exit_code, j.checkpoint, j.detail, termgate_now() AS now_ms
FROM main.termgate_job_runs j WHERE ($1 IS NULL OR j.job_name = $1) AND ($2 IS NULL OR j.scope = $2) AND ($3 IS NULL OR j.run_id = $3)
ORDER BY j.started_at DESC, j.term DESC, j.run_id LIMIT $4
