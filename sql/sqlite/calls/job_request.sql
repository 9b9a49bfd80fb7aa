-- Requests a run of a job. Parameters: job, scope, kind (run, dry-run, resume), actor, reason. Locks: the write lock. MATERIALIZED: the
-- function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_job_request($1, $2, $3, $4, $5))
SELECT json_extract(j, '$.requested') AS requested, json_extract(j, '$.run_id') AS run_id FROM answer
