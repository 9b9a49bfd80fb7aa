-- A scope's history, newest first.
SELECT (extract(epoch FROM at) * 1000)::bigint AS at_ms, actor, coalesce(client, '') AS client, action, detail::text AS detail
FROM @schema@.audit_log WHERE scope = $1 ORDER BY id DESC LIMIT $2::int
