-- Parameters: job_name (NULL: all), limit. Rows: newest first. Locks: none.
SELECT run_id, job_name, scope, owner_id, term, started_at AS started_at_ms, completed_at AS completed_at_ms, status,
  last_heartbeat AS last_heartbeat_ms, exit_code, checkpoint, detail
FROM main.termgate_job_runs WHERE $1 IS NULL OR job_name = $1 ORDER BY started_at DESC, run_id LIMIT $2
