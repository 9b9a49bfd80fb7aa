-- Parameters: stream, last number. Rows: the one. Locks: write lock held.
UPDATE main.termgate_streams SET last_no = ?2 WHERE stream_id = ?1
