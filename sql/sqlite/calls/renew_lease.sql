-- Extends a lease. Only the holder can, under the same term, before expiry. leave_in_ms: how long the holder has, if it is asked to leave.
-- Parameters: scope, owner, term, ttl_ms. Locks: the write lock. MATERIALIZED: the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_renew_lease($1, $2, $3, $4))
SELECT json_extract(j, '$.renewed') AS renewed,
  json_extract(j, '$.expires_at') AS expires_at_ms,
  json_extract(j, '$.remaining_ms') AS remaining_ms,
  json_extract(j, '$.leave_in_ms') AS leave_in_ms
FROM answer
