-- Many renewals in one transaction that waits for nothing. Parameters: leases, a JSON array of {scope, owner, term, ttl_ms}. Rows: one for each, in order.
SELECT outcome FROM @schema@.renew_leases($1::json) ORDER BY place
