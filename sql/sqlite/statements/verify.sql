-- What verify() looks for: rows that break a guarantee. No locks.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: verify_order
-- Terms along each stream never go down, unless an audited reset allowed it (F1). Parameters: since. Rows: scope,
-- stream, number, term, the term before.
SELECT w.scope, w.stream_id, w.sequence_no, w.term, w.before
FROM (SELECT scope, stream_id, sequence_no, term, created_at,
        lag(term) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS before,
        lag(scope) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS scope_before
      FROM main.termgate_stream_writes) w
WHERE w.term < w.before AND w.scope = w.scope_before AND w.created_at >= ?1
  AND NOT EXISTS (SELECT 1 FROM main.termgate_resets r
                  WHERE r.scope = w.scope AND w.before > r.new_term AND w.before <= r.old_term)
ORDER BY w.stream_id, w.sequence_no

-- name: verify_gaps
-- Numbers along each stream are consecutive; a pruned beginning is none of them (F5). Parameters: since. Rows: scope,
-- stream, number, the number before.
SELECT w.scope, w.stream_id, w.sequence_no, w.before
FROM (SELECT scope, stream_id, sequence_no, created_at,
        lag(sequence_no) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS before
      FROM main.termgate_stream_writes) w
WHERE w.sequence_no <> w.before + 1 AND w.created_at >= ?1
ORDER BY w.stream_id, w.sequence_no

-- name: verify_fences
-- A fence stands at or above every stored term that is still evidence (F3). Rows: scope, fence, highest stored term.
SELECT w.scope, coalesce(f.term, 0), max(w.term)
FROM main.termgate_stream_writes w LEFT JOIN main.termgate_fences f ON f.scope = w.scope
WHERE w.term > coalesce(f.term, 0)
  AND NOT EXISTS (SELECT 1 FROM main.termgate_resets r
                  WHERE r.scope = w.scope AND w.term > r.new_term AND w.term <= r.old_term)
GROUP BY w.scope ORDER BY w.scope

-- name: verify_leases
-- An issued term never stands above its fence (F2). Rows: scope, lease term, fence.
SELECT l.scope, l.term, coalesce(f.term, 0)
FROM main.termgate_leases l LEFT JOIN main.termgate_fences f ON f.scope = l.scope
WHERE l.term > coalesce(f.term, 0) ORDER BY l.scope

-- name: verify_last_no
-- A stream's last number is its last write's. Rows: scope, stream, last_no, highest stored number.
SELECT s.scope, s.stream_id, s.last_no, m.highest
FROM (SELECT stream_id, max(sequence_no) AS highest FROM main.termgate_stream_writes GROUP BY stream_id) m
  LEFT JOIN main.termgate_streams s ON s.stream_id = m.stream_id
WHERE s.stream_id IS NULL OR s.last_no <> m.highest ORDER BY 2

-- name: verify_write_ids
-- A stored write that carries an id is the one that the id names (F5). Rows: scope, stream, number, id.
SELECT w.scope, w.stream_id, w.sequence_no, w.write_id
FROM main.termgate_stream_writes w LEFT JOIN main.termgate_write_ids i ON i.write_id = w.write_id
WHERE w.write_id IS NOT NULL AND (i.write_id IS NULL OR i.stream_id IS NOT w.stream_id OR i.sequence_no IS NOT w.sequence_no)
ORDER BY 2, 3
