-- Many renewals in one transaction that waits for nothing. Parameters: leases, a JSON array of {scope, owner, term, ttl_ms}. Rows: one for each, in order.
EXEC @schema@.renew_leases @leases = $1
