-- A stream's first write fixes its scope. Parameters: stream, scope, last number, moment. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_streams (stream_id, scope, last_no, created_at) VALUES (?1, ?2, ?3, ?4)
