-- Only the holder, only that term, only before expiry.
EXEC @schema@.renew_lease @scope = $1, @owner = $2, @term = $3, @ttl_ms = $4
