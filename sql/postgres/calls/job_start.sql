-- Starts a run of a job under a term. Open runs of the same job and scope under other terms become lost. A run whose row another session
-- has locked is left as it is, and is shown as lost.
SELECT @schema@.job_start($1, $2, $3, $4::bigint, $5) AS run_id
