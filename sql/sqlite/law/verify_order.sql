-- Terms along each stream never go down, unless an audited reset allowed it (F1). Parameters: since. Rows: scope, stream,
-- number, term, the term before. Locks: none.
SELECT w.scope, w.stream_id, w.sequence_no, w.term, w.before
FROM (SELECT scope, stream_id, sequence_no, term, created_at,
        lag(term) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS before,
        lag(scope) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS scope_before
      FROM main.termgate_stream_writes) w
WHERE w.term < w.before AND w.scope = w.scope_before AND w.created_at >= ?1
  AND NOT EXISTS (SELECT 1 FROM main.termgate_resets r
                  WHERE r.scope = w.scope AND w.before > r.new_term AND w.before <= r.old_term)
ORDER BY w.stream_id, w.sequence_no
