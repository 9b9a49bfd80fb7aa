-- Raises a fence without a write (F2). Parameters: scope, term, grace_ms (nobody is evicted here), actor, reason. Locks: the write lock.
-- MATERIALIZED: the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_seal($1, $2, $3, $4, $5))
SELECT json_extract(j, '$.fence') AS fence,
  json_extract(j, '$.previous') AS previous,
  json_extract(j, '$.evicted') AS evicted,
  json_extract(j, '$.sealed_at') AS sealed_at_ms
FROM answer
