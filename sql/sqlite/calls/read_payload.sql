-- A part of one write's payload. Parameters: stream, sequence_no, start, bytes. No row: the write has been pruned. Locks: none. substr
-- makes a copy, so it is not called if the whole payload is wanted.
SELECT CASE WHEN $3 = 0 AND length(payload) <= $4 THEN payload ELSE substr(payload, $3 + 1, $4) END AS part FROM main.termgate_stream_writes WHERE stream_id = $1 AND sequence_no = $2
