-- All leases in scope order, a page at a time.
SELECT TOP (CAST($2 AS bigint)) l.scope, l.owner_id, l.term, l.expires_at_ms, l.acquired_at_ms, l.renewed_at_ms, l.released_at_ms, l.endpoint, l.remaining_ms
FROM @schema@.lease_status l WHERE l.scope_key > CONVERT(varbinary(800), CAST($1 AS nvarchar(400))) ORDER BY l.scope_key
