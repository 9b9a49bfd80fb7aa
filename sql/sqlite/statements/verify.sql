-- What verify() looks for: rows that break a guarantee. No locks. At most 1,000 rows from each statement. Each has a marker with its name
-- (sql/embed.cmake).
-- A writer can make a scope's history as long as it likes. So each statement reads it once, and looks nothing up in it for each row of
-- another table.
-- What audit rows must support is judged only for the time from which no pruning of the history has removed any (`known_from`; 0: all are
-- there).

-- name: verify_known_from
-- Rows: one: the moment from which the audit is complete, and whether the clock ever went back between two writes.
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
-- Terms never go down in all streams of a scope together: rows were written in the order of their rowids, because there is one writer at a
-- time (F1, F2). Not judged: what was written in the same millisecond as a reset, and scopes with resets if the clock went back.
-- Parameters: since, whether the clock went back. Rows: scope, stream, number, term, the highest before. A write belongs to the epoch of
-- the last reset before it; here the reset is the first row of its epoch.
WITH reset_scopes AS MATERIALIZED (SELECT DISTINCT scope FROM main.termgate_resets),
events AS (
  SELECT w.scope, w.created_at AS at, 1 AS is_write, w.rowid AS id, w.stream_id, w.sequence_no, w.term, NULL AS new_term
  FROM main.termgate_stream_writes w WHERE NOT ?2 OR w.scope NOT IN (SELECT scope FROM reset_scopes)
  UNION ALL SELECT scope, at, 0, id, NULL, NULL, NULL, new_term FROM main.termgate_resets),
epochs AS (
  SELECT *, count(*) FILTER (WHERE NOT is_write) OVER (PARTITION BY scope ORDER BY at, is_write DESC, id ROWS UNBOUNDED PRECEDING) AS epoch,
    min(is_write) OVER (PARTITION BY scope, at) AS apart
  FROM events),
ordered AS (
  SELECT *, max(
      coalesce(max(term) OVER (PARTITION BY scope, epoch ORDER BY is_write, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0),
      coalesce(max(new_term) OVER (PARTITION BY scope, epoch), 0)) AS before
  FROM epochs)
SELECT scope, stream_id, sequence_no, term, before FROM ordered
WHERE is_write AND apart AND term < before AND at >= ?1
ORDER BY scope, stream_id, sequence_no LIMIT 1000

-- name: verify_gaps
-- Numbers along each stream are consecutive; a pruned beginning is no gap (F5). Parameters: since. Rows: scope, stream, number, the number
-- before.
SELECT w.scope, w.stream_id, w.sequence_no, w.before
FROM (SELECT scope, stream_id, sequence_no, created_at,
        lag(sequence_no) OVER (PARTITION BY stream_id ORDER BY sequence_no) AS before
      FROM main.termgate_stream_writes) w
WHERE w.sequence_no <> w.before + 1 AND w.created_at >= ?1
ORDER BY w.stream_id, w.sequence_no LIMIT 1000

-- name: verify_beginnings
-- If the beginning of a stream is missing, or all of it, it was pruned, and that is on record (F5). Parameters: known_from. Rows: scope,
-- stream, the first number that is there or NULL, the last, up to where pruning is on record.
WITH prunings AS MATERIALIZED (
  SELECT CAST(json_extract(a.detail, '$.stream') AS TEXT) AS stream_id, max(json_extract(a.detail, '$.before')) AS before
  FROM main.termgate_audit a WHERE a.action = 'prune' GROUP BY 1),
firsts AS MATERIALIZED (SELECT stream_id, min(sequence_no) AS first FROM main.termgate_stream_writes GROUP BY 1)
SELECT t.scope, t.stream_id, w.first, t.last_no, coalesce(p.before, 1)
FROM main.termgate_streams t LEFT JOIN prunings p ON p.stream_id = t.stream_id LEFT JOIN firsts w ON w.stream_id = t.stream_id
WHERE t.created_at >= ?1 AND coalesce(w.first, t.last_no + 1) > coalesce(p.before, 1) ORDER BY t.stream_id LIMIT 1000

-- name: verify_fences
-- A fence is at or above every stored term that is still evidence (F3). Rows: scope, fence, highest stored term. A stored term may be above
-- its fence if a reset went from that term or above to below it: the highest old_term of the resets to below it shows that.
WITH terms AS (
  SELECT w.scope, w.term AS at, 1 AS is_term, NULL AS old_term
  FROM (SELECT DISTINCT scope, term FROM main.termgate_stream_writes) w LEFT JOIN main.termgate_fences f ON f.scope = w.scope
  WHERE w.term > coalesce(f.term, 0)
  UNION ALL SELECT scope, new_term, 0, old_term FROM main.termgate_resets),
covered AS (
  SELECT scope, at, is_term, max(old_term) OVER (PARTITION BY scope ORDER BY at, is_term DESC ROWS UNBOUNDED PRECEDING) AS reset_from FROM terms)
SELECT c.scope, coalesce(f.term, 0), max(c.at)
FROM covered c LEFT JOIN main.termgate_fences f ON f.scope = c.scope
WHERE c.is_term AND c.at > coalesce(c.reset_from, 0)
GROUP BY c.scope ORDER BY c.scope LIMIT 1000

-- name: verify_audited
-- A fence is at the term to which the audit's last raise or reset has set it, or higher (F3). Rows: scope, fence, that term.
WITH resets AS MATERIALIZED (SELECT r.scope, max(r.id) AS id FROM main.termgate_audit r WHERE r.action = 'reset' GROUP BY r.scope)
SELECT a.scope, coalesce(f.term, 0), max(json_extract(a.detail, '$.term'))
FROM main.termgate_audit a LEFT JOIN resets r ON r.scope = a.scope LEFT JOIN main.termgate_fences f ON f.scope = a.scope
WHERE a.action IN ('raise', 'seal', 'acquire', 'force_release', 'declare_restored', 'reset') AND a.id >= coalesce(r.id, 0)
GROUP BY a.scope HAVING max(json_extract(a.detail, '$.term')) > coalesce(f.term, 0) ORDER BY a.scope LIMIT 1000

-- name: verify_raises
-- Each stored term, and each fence, was raised, and that is on record (F2, F3). Only if no history was pruned. Rows: scope, term, whether
-- it is the fence's.
WITH raised AS MATERIALIZED (
  SELECT a.scope, json_extract(a.detail, '$.term') AS term FROM main.termgate_audit a
  WHERE a.action IN ('raise', 'seal', 'acquire', 'force_release', 'declare_restored', 'reset'))
SELECT scope, term, min(fence) FROM (
  SELECT scope, term, 0 AS fence FROM (SELECT scope, term FROM main.termgate_stream_writes EXCEPT SELECT scope, term FROM raised)
  UNION ALL
  SELECT scope, term, 1 FROM (SELECT scope, term FROM main.termgate_fences WHERE term > 0 EXCEPT SELECT scope, term FROM raised))
GROUP BY scope, term ORDER BY 1, 2 LIMIT 1000

-- name: verify_resets
-- Each lowering is on record (F3). Parameters: known_from. Rows: scope, from, to.
SELECT DISTINCT scope, old_term, new_term FROM (
  SELECT scope, old_term, new_term, row_number() OVER (PARTITION BY scope, old_term, new_term) FROM main.termgate_resets WHERE at >= ?1
  EXCEPT
  SELECT scope, old_term, new_term, row_number() OVER (PARTITION BY scope, old_term, new_term)
  FROM (SELECT scope, json_extract(detail, '$.previous') AS old_term, json_extract(detail, '$.term') AS new_term FROM main.termgate_audit WHERE action = 'reset'))
ORDER BY 1, 2 LIMIT 1000

-- name: verify_leases
-- A lease's term is never above its fence (F2). Rows: scope, lease term, fence.
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
-- A write's scope is its stream's, or was that before a move that is on record (F1). Parameters: known_from. Rows: scope, stream, number,
-- the stream's scope.
WITH moves AS MATERIALIZED (
  SELECT json_extract(a.detail, '$.stream') AS stream_id, json_extract(a.detail, '$.from') AS before, a.scope FROM main.termgate_audit a
  WHERE a.action = 'stream_move'),
strange AS MATERIALIZED (
  SELECT w.stream_id, w.scope FROM main.termgate_stream_writes w JOIN main.termgate_streams s ON s.stream_id = w.stream_id
  WHERE w.scope <> s.scope AND w.created_at >= ?1
  EXCEPT SELECT stream_id, before FROM moves EXCEPT SELECT stream_id, scope FROM moves)
SELECT w.scope, w.stream_id, min(w.sequence_no), s.scope
FROM main.termgate_stream_writes w JOIN strange x ON x.stream_id = w.stream_id AND x.scope = w.scope
  JOIN main.termgate_streams s ON s.stream_id = w.stream_id
WHERE w.created_at >= ?1
GROUP BY w.stream_id, w.scope ORDER BY 2, 3 LIMIT 1000

-- name: verify_write_ids
-- A stored write with an id is the one that the id names (F5). Rows: scope, stream, number, id.
SELECT w.scope, w.stream_id, w.sequence_no, w.write_id
FROM main.termgate_stream_writes w LEFT JOIN main.termgate_write_ids i ON i.write_id = w.write_id
WHERE w.write_id IS NOT NULL AND (i.write_id IS NULL OR i.stream_id IS NOT w.stream_id OR i.sequence_no IS NOT w.sequence_no)
ORDER BY 2, 3 LIMIT 1000
