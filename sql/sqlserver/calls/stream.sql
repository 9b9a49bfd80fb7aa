-- One stream: its scope and its numbers.
SELECT s.scope, s.last_no, s.first_no, s.created_at_ms FROM @schema@.stream_status s WHERE s.stream_key = CONVERT(varbinary(800), CAST($1 AS nvarchar(400)))
