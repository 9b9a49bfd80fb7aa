-- One stream: its scope and its numbers.
SELECT scope, last_no, first_no, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms
FROM @schema@.stream_status WHERE stream_id = $1
