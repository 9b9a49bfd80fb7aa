-- Parameters: run id, moment, checkpoint (NULL keeps it). Rows: the one if it still runs. Locks: write lock held.
UPDATE main.termgate_job_runs SET last_heartbeat = ?2, checkpoint = coalesce(?3, checkpoint)
WHERE run_id = ?1 AND status = 'started'
