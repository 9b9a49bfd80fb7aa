-- All followers in the order of names, a page at a time, and how far behind each is; no lock.
SELECT name, stream_id AS stream, scope, run, (extract(epoch FROM started_at) * 1000)::bigint AS started_at_ms, started_by, behind,
       CASE WHEN behind_since IS NOT NULL THEN greatest((extract(epoch FROM clock_timestamp() - behind_since) * 1000)::bigint, 0) END AS behind_ms,
       (extract(epoch FROM moved_at) * 1000)::bigint AS moved_at_ms
FROM @schema@.follower_status WHERE name > $1 ORDER BY name LIMIT $2::int
