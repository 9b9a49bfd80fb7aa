-- What happened, newest first: in one scope or in all; only rows above an id, so that nothing is read twice.
SELECT id, (extract(epoch FROM at) * 1000)::bigint AS at_ms, actor, coalesce(client, '') AS client, action, scope, detail::text AS detail
FROM @schema@.audit_log WHERE ($1::text IS NULL OR scope = $1) AND id > $2::bigint ORDER BY id DESC LIMIT $3::int
