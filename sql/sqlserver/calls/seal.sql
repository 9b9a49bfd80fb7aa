-- Raises a fence without a write (F2); may wait for the grace and evict (F4).
EXEC @schema@.seal @scope = $1, @term = $2, @grace_ms = $3
