-- A stream's last number is its last write's. Parameters: none. Rows: scope, stream, last_no, highest stored number.
-- Locks: none.
SELECT s.scope, s.stream_id, s.last_no, m.highest
FROM (SELECT stream_id, max(sequence_no) AS highest FROM main.termgate_stream_writes GROUP BY stream_id) m
  LEFT JOIN main.termgate_streams s ON s.stream_id = m.stream_id
WHERE s.stream_id IS NULL OR s.last_no <> m.highest ORDER BY 2
