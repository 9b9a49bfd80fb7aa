-- The open run of a job; a scope has one at most. Parameters: scope, job. Rows: run id, or none. Locks: write lock held.
SELECT run_id FROM main.termgate_job_runs WHERE scope = ?1 AND job_name = ?2 AND status = 'started'
