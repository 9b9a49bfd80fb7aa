-- The committed write of a write id (F5). Parameters: write_id. Rows: one, or none if it has not committed. Locks: none.
SELECT scope, term, stream_id AS stream, sequence_no, created_at AS created_at_ms
FROM main.termgate_write_ids WHERE write_id = lower($1)
