-- The last hand-over of each scope, or of one, newest first; no lock.
SELECT scope, owner_id, term, successor, requested_by, reason, (extract(epoch FROM requested_at) * 1000)::bigint AS requested_at_ms, (extract(epoch FROM leave_before) * 1000)::bigint AS leave_before_ms,
  (extract(epoch FROM left_at) * 1000)::bigint AS left_at_ms, next_owner, next_term, (extract(epoch FROM taken_at) * 1000)::bigint AS taken_at_ms, gap_ms, state
FROM @schema@.hand_over_status WHERE $1::text IS NULL OR scope = $1 ORDER BY requested_at DESC LIMIT $2::int
