-- Parameters: moment. Rows: the older ones that have ended. Locks: write lock held.
DELETE FROM main.termgate_job_runs WHERE started_at < ?1 AND status <> 'started'
