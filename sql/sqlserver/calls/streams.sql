-- All streams in order, a page at a time.
SELECT TOP (CAST($2 AS bigint)) s.stream_id AS stream, s.scope, s.last_no, s.created_at_ms
FROM @schema@.stream_status s WHERE s.stream_key > CONVERT(varbinary(800), CAST($1 AS nvarchar(400))) ORDER BY s.stream_key
