-- Extends a lease. Only the holder can, under the same term, before expiry.
EXEC @schema@.renew_lease @scope = $1, @owner = $2, @term = $3, @ttl_ms = $4
