-- Parameters: moment, actor, session user, client, action, scope, detail. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_audit (at, actor, session_user, client, action, scope, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
