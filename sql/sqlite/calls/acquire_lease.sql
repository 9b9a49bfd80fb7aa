-- Takes a free or expired lease, or the caller's own, and seals its new term (F2). Parameters: scope, owner, ttl_ms,
-- endpoint, grace_ms. Locks: the write lock. MATERIALIZED: the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_acquire_lease($1, $2, $3, $4, $5))
SELECT json_extract(j, '$.acquired') AS acquired,
  json_extract(j, '$.term') AS term,
  json_extract(j, '$.expires_at') AS expires_at_ms,
  json_extract(j, '$.owner_id') AS owner_id,
  json_extract(j, '$.remaining_ms') AS remaining_ms
FROM answer
