-- Begins the requested run, under a term. Parameters: job, scope, owner, term. Rows: one; NULL: none is requested. Locks: the write lock.
-- F1: a stale leader begins none. MATERIALIZED: the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_job_take($1, $2, $3, $4))
SELECT json_extract(j, '$.run_id') AS run_id, json_extract(j, '$.kind') AS kind FROM answer
