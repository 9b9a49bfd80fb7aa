-- What happened, newest first. Parameters: scope (NULL: all), above an id, limit. Locks: none.
SELECT id, at AS at_ms, actor, client, action, scope, detail FROM main.termgate_audit WHERE ($1 IS NULL OR scope = $1) AND id > $2 ORDER BY id DESC LIMIT $3
