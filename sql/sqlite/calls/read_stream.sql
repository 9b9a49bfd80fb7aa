-- Parameters: stream, after, limit, payload_max. Rows: in order; a longer payload is returned as NULL, beside its length. Locks: none.
SELECT sequence_no, scope, term, CASE WHEN length(payload) <= $4 THEN payload END AS payload, created_at AS created_at_ms, write_id, length(payload) AS payload_bytes
FROM main.termgate_stream_writes WHERE stream_id = $1 AND sequence_no > $2 ORDER BY sequence_no LIMIT $3
