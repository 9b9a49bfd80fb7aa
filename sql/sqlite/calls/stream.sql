-- Parameters: stream. Rows: none for an unknown one. Locks: none.
SELECT scope, last_no,
  (SELECT min(w.sequence_no) FROM main.termgate_stream_writes w WHERE w.stream_id = s.stream_id) AS first_no,
  created_at AS created_at_ms
FROM main.termgate_streams s WHERE stream_id = $1
