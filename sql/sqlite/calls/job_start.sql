-- Parameters: job_name, scope, owner, term, detail. Locks: the write lock. F1: a stale leader starts no job.
SELECT termgate_job_start($1, $2, $3, $4, $5) AS run_id
