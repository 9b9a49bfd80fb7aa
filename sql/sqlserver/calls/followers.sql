-- All followers in the order of names, a page at a time, and how far behind each is.
SELECT TOP (CAST($2 AS bigint)) f.name, f.stream_id AS stream, f.scope, f.run, f.started_at_ms, f.started_by, f.behind,
  CASE WHEN f.behind_since > SYSUTCDATETIME() THEN 0 ELSE DATEDIFF_BIG(millisecond, f.behind_since, SYSUTCDATETIME()) END AS behind_ms, @schema@._ms(f.moved_at) AS moved_at_ms
FROM @schema@.follower_status f WHERE f.name_key > CONVERT(varbinary(800), CAST($1 AS nvarchar(400))) ORDER BY f.name_key
