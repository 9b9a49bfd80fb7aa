-- Many renewals in one transaction, which waits for no acquisition and no other renewal. Parameters: leases, a JSON array of {scope, owner,
-- term, ttl_ms}. Rows: one for each, in order. leave_in_ms as in renew_lease.
SELECT outcome, (extract(epoch FROM (to_jsonb(r) ->> 'leave_before')::timestamptz - clock_timestamp()) * 1000)::bigint AS leave_in_ms FROM @schema@.renew_leases($1::json) r ORDER BY place
