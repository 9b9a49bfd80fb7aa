-- Parameters: stream. Rows: scope and last number, or none. Locks: write lock held.
SELECT scope, last_no FROM main.termgate_streams WHERE stream_id = ?1
