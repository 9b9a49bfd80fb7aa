-- Check, and record the id of a plain write (F5). Parameters: scope, term, write_id. Locks: the write lock. MATERIALIZED: the function runs
-- once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_claim_write($1, $2, $3))
SELECT json_extract(j, '$.fresh') AS fresh,
  json_extract(j, '$.fence') AS fence
FROM answer
