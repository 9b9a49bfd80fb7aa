-- Only the holder, only that term, only before expiry. Parameters: scope, owner, term, ttl_ms. Locks: the write lock. MATERIALIZED: the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_renew_lease($1, $2, $3, $4))
SELECT json_extract(j, '$.renewed') AS renewed,
  json_extract(j, '$.expires_at') AS expires_at_ms,
  json_extract(j, '$.remaining_ms') AS remaining_ms
FROM answer
