-- Parameters: name, limit. Rows: the streams of which it has not handled all writes, in the order of names; one with NULLs if there is
-- none. Locks: none.
SELECT f.run, d.stream_id AS stream, d.position, d.last_no, coalesce(d.behind, 0) AS behind
FROM main.termgate_followers f LEFT JOIN (
  SELECT s.stream_id, coalesce(p.position, 0) AS position, s.last_no, sum(s.last_no - coalesce(p.position, 0)) OVER () AS behind
  FROM main.termgate_followers g JOIN main.termgate_streams s ON s.stream_id = g.stream_id OR s.scope = g.scope
  LEFT JOIN main.termgate_follower_positions p ON p.name = g.name AND p.stream_id = s.stream_id
  WHERE g.name = $1 AND s.last_no > coalesce(p.position, 0) ORDER BY s.stream_id LIMIT $2) d ON 1
WHERE f.name = $1 ORDER BY d.stream_id
