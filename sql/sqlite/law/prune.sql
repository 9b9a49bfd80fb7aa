-- Parameters: stream, number. Rows: the writes below that number. Locks: write lock held, the fence folded before (F3).
DELETE FROM main.termgate_stream_writes WHERE stream_id = ?1 AND sequence_no < ?2
