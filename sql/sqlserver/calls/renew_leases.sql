-- Many renewals in one transaction, which waits for no acquisition and no other renewal. Parameters: leases, a JSON array of {scope, owner,
-- term, ttl_ms}. Rows: one for each, in order.
EXEC @schema@.renew_leases @leases = $1
