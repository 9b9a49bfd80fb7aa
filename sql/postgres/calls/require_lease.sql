-- COMMIT fails with TG007 if the lease is not held then.
SELECT (extract(epoch FROM @schema@.require_lease($1, $2)) * 1000)::bigint AS expires_at_ms
