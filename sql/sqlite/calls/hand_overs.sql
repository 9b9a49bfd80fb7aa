-- The last hand-over of each scope, or of one, newest first. Parameters: scope, limit. Locks: none.
WITH shown AS (
  SELECT h.*, l.term AS lease_term, coalesce(h.left_at, CASE WHEN h.taken_at IS NULL AND l.term = h.term THEN l.released_at END) AS gone_at
  FROM main.termgate_hand_overs h LEFT JOIN main.termgate_leases l ON l.scope = h.scope)
SELECT scope, owner_id, term, successor, requested_by, reason, requested_at AS requested_at_ms, leave_before AS leave_before_ms, gone_at AS left_at_ms, next_owner, next_term, taken_at AS taken_at_ms,
  max(taken_at - ended_at, 0) AS gap_ms,
  CASE WHEN taken_at IS NOT NULL THEN 'taken' WHEN lease_term IS NOT term OR leave_before <= termgate_now() THEN 'over' WHEN gone_at IS NOT NULL THEN 'left' ELSE 'asked' END AS state
FROM shown WHERE $1 IS NULL OR scope = $1 ORDER BY requested_at DESC LIMIT $2
