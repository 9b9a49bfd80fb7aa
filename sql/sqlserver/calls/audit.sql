-- What happened, newest first: in one scope or in all; only rows above an id.
SELECT TOP (CAST($3 AS bigint)) a.id, a.at_ms, a.actor, ISNULL(a.client, N'') AS client, a.action, a.scope, a.detail
FROM @schema@.audit_log a WHERE ($1 IS NULL OR a.scope_key = CONVERT(varbinary(800), CAST($1 AS nvarchar(400)))) AND a.id > CAST($2 AS bigint) ORDER BY a.id DESC
