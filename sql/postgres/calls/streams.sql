-- All streams in order, a page at a time.
SELECT stream_id AS stream, scope, last_no, (extract(epoch FROM created_at) * 1000)::bigint AS created_at_ms
FROM @schema@.stream_status WHERE stream_id > $1 ORDER BY stream_id LIMIT $2::int
