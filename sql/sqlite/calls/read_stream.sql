-- Parameters: stream, after, limit. Rows: in order. Locks: none.
SELECT sequence_no, scope, term, payload, created_at AS created_at_ms, write_id
FROM main.termgate_stream_writes WHERE stream_id = $1 AND sequence_no > $2 ORDER BY sequence_no LIMIT $3
