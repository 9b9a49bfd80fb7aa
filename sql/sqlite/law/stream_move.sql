-- Parameters: stream, scope. Rows: the one, or none. Locks: write lock held.
UPDATE main.termgate_streams SET scope = ?2 WHERE stream_id = ?1
