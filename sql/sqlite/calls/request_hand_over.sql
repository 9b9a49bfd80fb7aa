-- Asks the holder of a lease to leave, audited. Parameters: scope, successor, drain_ms, actor, reason. Locks: the write lock. MATERIALIZED:
-- the function runs once.
WITH answer(j) AS MATERIALIZED (SELECT termgate_request_hand_over($1, $2, $3, $4, $5))
SELECT json_extract(j, '$.requested') AS requested,
  json_extract(j, '$.owner_id') AS owner_id,
  json_extract(j, '$.term') AS term,
  json_extract(j, '$.leave_before') AS leave_before_ms
FROM answer
