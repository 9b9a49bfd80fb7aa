-- Asks the holder of a lease to leave, audited.
EXEC @schema@.request_hand_over @scope = $1, @successor = $2, @drain_ms = $3, @actor = $4, @reason = $5
