-- Parameters: stream, number, scope, term, payload, moment, write id. Rows: one. Locks: write lock held, the check passed
-- (F1, F5).
INSERT INTO main.termgate_stream_writes (stream_id, sequence_no, scope, term, payload, created_at, write_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
