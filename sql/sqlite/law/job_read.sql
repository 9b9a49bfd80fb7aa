-- Parameters: run id. Rows: scope and term of the run if it still runs. Locks: none of its own.
SELECT scope, term FROM main.termgate_job_runs WHERE run_id = ?1 AND status = 'started'
