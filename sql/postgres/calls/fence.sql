-- One scope's fence as it is now; no lock.
SELECT scope, term, (extract(epoch FROM raised_at) * 1000)::bigint AS raised_at_ms, raised_by, raise_by, untrusted, reset_from
FROM @schema@.fence_status WHERE scope = $1
