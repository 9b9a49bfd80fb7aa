-- Parameters: run_id, status, exit_code, detail, checkpoint. Locks: the write lock.
SELECT termgate_job_finish($1, $2, $3, $4, $5) AS finished
