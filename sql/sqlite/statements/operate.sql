-- The audit, the settings, and values given as JSON.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: audit_insert
-- Parameters: moment, actor, session user, client, action, scope, detail. Rows: one.
INSERT INTO main.termgate_audit (at, actor, session_user, client, action, scope, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: prune_audit
-- Parameters: moment. Rows: the older ones; prunings stay on record.
DELETE FROM main.termgate_audit WHERE at < ?1 AND action <> 'prune_history'

-- name: setting_read
-- Parameters: name. Rows: the value, none for an unknown name. Locks: none.
SELECT value FROM main.termgate_settings WHERE name = ?1

-- name: setting_write
-- Parameters: name, value. Rows: the one.
UPDATE main.termgate_settings SET value = ?2 WHERE name = ?1

-- name: settings_show
-- Rows: name, value, what. Locks: none.
SELECT name, value, what FROM main.termgate_settings ORDER BY name

-- name: json_kind
-- What a text given as JSON is; malformed text is an error. Parameters: the text. Rows: one, the type. Locks: none.
SELECT json_type(?1)

-- name: json_items
-- The items of a batch given as a JSON array. Parameters: the text. Rows: type, value as text, hex of {"hex":"..."}.
-- Locks: none.
SELECT j.type, j.value, CASE WHEN j.type = 'object' THEN json_extract(j.value, '$.hex') END
FROM json_each(?1) j ORDER BY j.key
