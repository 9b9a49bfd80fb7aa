-- Parameters: stream, after, limit. Rows: number, scope, term, payload, moment, write id, in order. Locks: none.
SELECT sequence_no, scope, term, payload, created_at, write_id
FROM main.termgate_stream_writes WHERE stream_id = ?1 AND sequence_no > ?2 ORDER BY sequence_no LIMIT ?3
