-- The last hand-over of each scope, or of one, newest first.
SELECT TOP (CAST($2 AS bigint)) h.scope, h.owner_id, h.term, h.successor, h.requested_by, h.reason, h.requested_at_ms, h.leave_before_ms, h.left_at_ms, h.next_owner, h.next_term, h.taken_at_ms, h.gap_ms, h.state
FROM @schema@.hand_over_status h WHERE h.scope_key = ISNULL(CONVERT(varbinary(800), CAST($1 AS nvarchar(400))), h.scope_key) ORDER BY h.requested_at_ms DESC
