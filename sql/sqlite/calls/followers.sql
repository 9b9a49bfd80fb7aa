-- Parameters: after (a name), limit. Rows: in the order of names. Locks: none.
WITH late AS (
  SELECT f.name, s.last_no - coalesce(p.position, 0) AS behind,
    (SELECT w.created_at FROM main.termgate_stream_writes w WHERE w.stream_id = s.stream_id AND w.sequence_no > coalesce(p.position, 0)
     ORDER BY w.sequence_no LIMIT 1) AS since
  FROM main.termgate_followers f JOIN main.termgate_streams s ON s.stream_id = f.stream_id OR s.scope = f.scope
  LEFT JOIN main.termgate_follower_positions p ON p.name = f.name AND p.stream_id = s.stream_id
  WHERE s.last_no > coalesce(p.position, 0))
SELECT f.name, f.stream_id AS stream, f.scope, f.run, f.started_at AS started_at_ms, '' AS started_by,
  (SELECT coalesce(sum(l.behind), 0) FROM late l WHERE l.name = f.name) AS behind,
  (SELECT max(termgate_now() - min(l.since), 0) FROM late l WHERE l.name = f.name) AS behind_ms,
  (SELECT max(p.moved_at) FROM main.termgate_follower_positions p WHERE p.name = f.name) AS moved_at_ms
FROM main.termgate_followers f WHERE f.name > $1 ORDER BY f.name LIMIT $2
