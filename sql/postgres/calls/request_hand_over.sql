-- Asks the holder of a lease to leave, audited.
SELECT requested, owner_id, term, (extract(epoch FROM leave_before) * 1000)::bigint AS leave_before_ms
FROM @schema@.request_hand_over($1, $2, $3::bigint * interval '1 millisecond', $4, $5)
