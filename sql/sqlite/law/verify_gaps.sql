-- Numbers along each stream are consecutive; a pruned beginning is none of them (F5). Parameters: since. Rows: scope,
-- stream, number, the number before. Locks: none.
SELECT w.scope, w.stream_id, w.sequence_no, w.before
FROM (SELECT scope, stream_id, sequence_no, created_at,
        lag(sequence_no) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS before
      FROM main.termgate_stream_writes) w
WHERE w.sequence_no <> w.before + 1 AND w.created_at >= ?1
ORDER BY w.stream_id, w.sequence_no
