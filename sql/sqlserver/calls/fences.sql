-- All fences in scope order, a page at a time.
SELECT TOP (CAST($2 AS bigint)) f.scope, f.term, f.raised_at_ms, f.raised_by, f.raise_by, f.untrusted, f.reset_from
FROM @schema@.fence_status f WHERE f.scope_key > CONVERT(varbinary(800), CAST($1 AS nvarchar(400))) ORDER BY f.scope_key
