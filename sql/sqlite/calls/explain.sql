-- What happened to a scope, newest first. Parameters: scope, limit. Locks: none.
SELECT at AS at_ms, actor, client, action, detail FROM main.termgate_audit WHERE scope = $1 ORDER BY id DESC LIMIT $2
