-- A scope's history, newest first.
SELECT TOP (CAST($2 AS bigint)) a.at_ms, a.actor, ISNULL(a.client, N'') AS client, a.action, a.detail
FROM @schema@.audit_log a WHERE a.scope_key = CONVERT(varbinary(800), CAST($1 AS nvarchar(400))) ORDER BY a.id DESC
