-- Parameters: run id, status, moment, exit code, detail, checkpoint (NULL keeps it). Rows: the one if it still runs. Locks:
-- write lock held.
UPDATE main.termgate_job_runs
SET status = ?2, completed_at = ?3, last_heartbeat = ?3, exit_code = ?4, detail = coalesce(?5, detail), checkpoint = coalesce(?6, checkpoint)
WHERE run_id = ?1 AND status = 'started'
