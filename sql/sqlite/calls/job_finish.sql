-- Parameters: run_id, status, exit_code, detail. Locks: the write lock.
SELECT termgate_job_finish($1, $2, $3, $4) AS finished
