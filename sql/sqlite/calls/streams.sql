-- Parameters: after (a stream), limit. Rows: in the order of names. Locks: none.
SELECT stream_id AS stream, scope, last_no, created_at AS created_at_ms
FROM main.termgate_streams WHERE stream_id > $1 ORDER BY stream_id LIMIT $2
