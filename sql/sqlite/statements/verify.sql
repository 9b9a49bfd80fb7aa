-- What verify() looks for: rows that break a guarantee. No locks. At most 1,000 rows each.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).
--
-- What audit rows must support is judged where no pruning of the history can have taken them away (`known_from`, 0: all is there).

-- name: verify_known_from
-- Rows: one: since when the audit is whole, and whether the clock ever went back between two writes.
SELECT coalesce((SELECT max(a.at - json_extract(a.detail, '$.older_than_ms')) FROM main.termgate_audit a WHERE a.action = 'prune_history'), 0),
  EXISTS (SELECT 1 FROM (SELECT created_at, lag(created_at) OVER (ORDER BY rowid) AS before FROM main.termgate_stream_writes) w
          WHERE w.created_at < w.before)

-- name: verify_order
-- Terms along a stream never go down within a scope, unless an audited reset came in between (F1). Parameters: since. Rows:
-- scope, stream, number, term, the term before.
SELECT w.scope, w.stream_id, w.sequence_no, w.term, w.before
FROM (SELECT scope, stream_id, sequence_no, term, created_at,
        lag(term) OVER own AS before, lag(created_at) OVER own AS before_at
      FROM main.termgate_stream_writes WINDOW own AS (PARTITION BY stream_id, scope ORDER BY sequence_no)) w
WHERE w.term < w.before AND w.created_at >= ?1
  AND NOT EXISTS (SELECT 1 FROM main.termgate_resets r
                  WHERE r.scope = w.scope AND w.before > r.new_term AND w.term >= r.new_term
                    AND (r.at BETWEEN w.before_at AND w.created_at OR w.created_at < w.before_at))
ORDER BY w.stream_id, w.sequence_no LIMIT 1000

-- name: verify_scope_order
-- The same along all streams of a scope: rows have been written in the order of their rowids, for there is one writer at a
-- time (F1, F2). What was written in a reset's own millisecond is left out, and a scope with resets where the clock went back.
-- Parameters: since, whether the clock went back. Rows: scope, stream, number, term, the highest before.
SELECT w.scope, w.stream_id, w.sequence_no, w.term, w.before
FROM (SELECT s.scope, s.stream_id, s.sequence_no, s.term, s.created_at, s.low,
        max(coalesce(max(s.term) OVER (PARTITION BY s.scope, s.epoch ORDER BY s.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0),
            s.low) AS before,
        lag(s.stream_id) OVER (PARTITION BY s.scope ORDER BY s.id) AS stream_before
      FROM (SELECT w.rowid AS id, w.scope, w.stream_id, w.sequence_no, w.term, w.created_at,
              CASE WHEN r.scope IS NULL THEN 0 ELSE
                (SELECT count(*) FROM main.termgate_resets e WHERE e.scope = w.scope AND e.at < w.created_at) END AS epoch,
              CASE WHEN r.scope IS NULL THEN 0 ELSE coalesce(
                (SELECT e.new_term FROM main.termgate_resets e WHERE e.scope = w.scope AND e.at < w.created_at ORDER BY e.at DESC, e.id DESC LIMIT 1), 0) END AS low
            FROM main.termgate_stream_writes w LEFT JOIN (SELECT DISTINCT scope FROM main.termgate_resets) r ON r.scope = w.scope
            WHERE r.scope IS NULL OR NOT ?2) s) w
WHERE w.term < w.before AND w.created_at >= ?1
  AND NOT EXISTS (SELECT 1 FROM main.termgate_resets e WHERE e.scope = w.scope AND e.at = w.created_at)
ORDER BY w.scope, w.stream_id, w.sequence_no LIMIT 1000

-- name: verify_gaps
-- Numbers along each stream are consecutive; a pruned beginning is none of them (F5). Parameters: since. Rows: scope,
-- stream, number, the number before.
SELECT w.scope, w.stream_id, w.sequence_no, w.before
FROM (SELECT scope, stream_id, sequence_no, created_at,
        lag(sequence_no) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS before
      FROM main.termgate_stream_writes) w
WHERE w.sequence_no <> w.before + 1 AND w.created_at >= ?1
ORDER BY w.stream_id, w.sequence_no LIMIT 1000

-- name: verify_beginnings
-- What is missing at a stream's beginning, or all of it, was pruned, and that is on record (F5). Parameters: known_from. Rows:
-- scope, stream, the first number that is there or NULL, the last, up to where pruning is on record.
SELECT s.scope, s.stream_id, s.first, s.last_no, s.pruned
FROM (SELECT t.scope, t.stream_id, t.last_no, t.created_at,
        (SELECT min(w.sequence_no) FROM main.termgate_stream_writes w WHERE w.stream_id = t.stream_id) AS first,
        coalesce((SELECT max(json_extract(a.detail, '$.before')) FROM main.termgate_audit a
                  WHERE a.action = 'prune' AND json_extract(a.detail, '$.stream') = t.stream_id), 1) AS pruned
      FROM main.termgate_streams t WHERE t.created_at >= ?1) s
WHERE coalesce(s.first, s.last_no + 1) > s.pruned ORDER BY s.stream_id LIMIT 1000

-- name: verify_fences
-- A fence stands at or above every stored term that is still evidence (F3). Rows: scope, fence, highest stored term.
SELECT w.scope, coalesce(f.term, 0), max(w.term)
FROM main.termgate_stream_writes w LEFT JOIN main.termgate_fences f ON f.scope = w.scope
WHERE w.term > coalesce(f.term, 0)
  AND NOT EXISTS (SELECT 1 FROM main.termgate_resets r
                  WHERE r.scope = w.scope AND w.term > r.new_term AND w.term <= r.old_term)
GROUP BY w.scope ORDER BY w.scope LIMIT 1000

-- name: verify_audited
-- A fence stands where the audit's last word has put it, or higher (F3). Rows: scope, fence, that term.
SELECT a.scope, coalesce(f.term, 0), max(json_extract(a.detail, '$.term'))
FROM main.termgate_audit a LEFT JOIN main.termgate_fences f ON f.scope = a.scope
WHERE a.action IN ('raise', 'seal', 'acquire', 'force_release', 'declare_restored', 'reset')
  AND a.id >= coalesce((SELECT max(r.id) FROM main.termgate_audit r WHERE r.scope = a.scope AND r.action = 'reset'), 0)
GROUP BY a.scope HAVING max(json_extract(a.detail, '$.term')) > coalesce(f.term, 0) ORDER BY a.scope LIMIT 1000

-- name: verify_raises
-- Each stored term, and each fence, was raised, and that is on record (F2, F3). Only where no history was pruned. Rows: scope, term,
-- whether it is the fence's.
SELECT t.scope, t.term, min(t.fence)
FROM (SELECT DISTINCT scope, term, 0 AS fence FROM main.termgate_stream_writes
      UNION ALL SELECT scope, term, 1 FROM main.termgate_fences WHERE term > 0) t
WHERE NOT EXISTS (SELECT 1 FROM main.termgate_audit a WHERE a.scope = t.scope
                    AND a.action IN ('raise', 'seal', 'acquire', 'force_release', 'declare_restored', 'reset')
                    AND json_extract(a.detail, '$.term') = t.term)
GROUP BY t.scope, t.term ORDER BY 1, 2 LIMIT 1000

-- name: verify_resets
-- Each lowering is on record (F3). Parameters: known_from. Rows: scope, from, to.
SELECT r.scope, r.old_term, r.new_term FROM main.termgate_resets r
WHERE r.at >= ?1
  AND (SELECT count(*) FROM main.termgate_resets e WHERE e.scope = r.scope AND e.new_term = r.new_term AND e.old_term = r.old_term AND e.at >= ?1)
    > (SELECT count(*) FROM main.termgate_audit a WHERE a.scope = r.scope AND a.action = 'reset'
         AND json_extract(a.detail, '$.term') = r.new_term AND json_extract(a.detail, '$.previous') = r.old_term)
GROUP BY 1, 2, 3 ORDER BY 1, 2 LIMIT 1000

-- name: verify_leases
-- An issued term never stands above its fence (F2). Rows: scope, lease term, fence.
SELECT l.scope, l.term, coalesce(f.term, 0)
FROM main.termgate_leases l LEFT JOIN main.termgate_fences f ON f.scope = l.scope
WHERE l.term > coalesce(f.term, 0) ORDER BY l.scope LIMIT 1000

-- name: verify_last_no
-- A stream's last number is its last write's. Rows: scope, stream, last_no, highest stored number.
SELECT s.scope, s.stream_id, s.last_no, m.highest
FROM (SELECT stream_id, max(sequence_no) AS highest FROM main.termgate_stream_writes GROUP BY stream_id) m
  LEFT JOIN main.termgate_streams s ON s.stream_id = m.stream_id
WHERE s.stream_id IS NULL OR s.last_no <> m.highest ORDER BY 2 LIMIT 1000

-- name: verify_scopes
-- A write's scope is its stream's, or was before a move that is on record (F1). Parameters: known_from. Rows: scope, stream, number,
-- the stream's scope.
SELECT w.scope, w.stream_id, min(w.sequence_no), s.scope
FROM main.termgate_stream_writes w JOIN main.termgate_streams s ON s.stream_id = w.stream_id
WHERE w.scope <> s.scope AND w.created_at >= ?1
  AND NOT EXISTS (SELECT 1 FROM main.termgate_audit a WHERE a.action = 'stream_move' AND json_extract(a.detail, '$.stream') = w.stream_id
                    AND (json_extract(a.detail, '$.from') = w.scope OR a.scope = w.scope))
GROUP BY w.stream_id, w.scope ORDER BY 2, 3 LIMIT 1000

-- name: verify_write_ids
-- A stored write that carries an id is the one that the id names (F5). Rows: scope, stream, number, id.
SELECT w.scope, w.stream_id, w.sequence_no, w.write_id
FROM main.termgate_stream_writes w LEFT JOIN main.termgate_write_ids i ON i.write_id = w.write_id
WHERE w.write_id IS NOT NULL AND (i.write_id IS NULL OR i.stream_id IS NOT w.stream_id OR i.sequence_no IS NOT w.sequence_no)
ORDER BY 2, 3 LIMIT 1000
