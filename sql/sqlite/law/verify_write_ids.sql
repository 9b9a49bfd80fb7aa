-- A stored write that carries an id is the one that the id names (F5). Parameters: none. Rows: scope, stream, number, id.
-- Locks: none.
SELECT w.scope, w.stream_id, w.sequence_no, w.write_id
FROM main.termgate_stream_writes w LEFT JOIN main.termgate_write_ids i ON i.write_id = w.write_id
WHERE w.write_id IS NOT NULL AND (i.write_id IS NULL OR i.stream_id IS NOT w.stream_id OR i.sequence_no IS NOT w.sequence_no)
ORDER BY 2, 3
