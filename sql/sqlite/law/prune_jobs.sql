-- Parameters: moment. Rows: the runs that ended before it. Locks: write lock held.
DELETE FROM main.termgate_job_runs WHERE coalesce(completed_at, started_at) < ?1 AND status <> 'started'
