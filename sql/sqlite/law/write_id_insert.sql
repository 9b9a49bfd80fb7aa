-- Parameters: write id, stream, number, scope, term, moment. Rows: one. Locks: write lock held. Outlives pruning (F5).
INSERT INTO main.termgate_write_ids (write_id, stream_id, sequence_no, scope, term, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
