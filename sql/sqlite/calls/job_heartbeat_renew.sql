-- A heartbeat and the renewal of the run's lease. Parameters: run, checkpoint?, ttl_ms. Locks: the write lock. MATERIALIZED: the function
-- runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_job_heartbeat($1, $2, $3))
SELECT json_extract(j, '$.beaten') AS beaten, json_extract(j, '$.renewed') AS renewed, json_extract(j, '$.remaining_ms') AS remaining_ms
FROM answer
