-- The scopes whose evidence a pruning would take away. Parameters: stream, number. Rows: scope. Locks: write lock held. F3.
SELECT DISTINCT scope FROM main.termgate_stream_writes WHERE stream_id = ?1 AND sequence_no < ?2
