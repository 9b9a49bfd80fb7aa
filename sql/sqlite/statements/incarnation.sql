-- What the file knows of its own past (F3): whether it was put back from an older copy, the mark of the main database, audited resets.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: incarnation_read
-- Whether scopes without a fence are untrusted (F3). Rows: one.
SELECT untrusted FROM main.termgate_incarnation WHERE id = 1

-- name: incarnation_set_untrusted
-- The operator declares that an older copy was put back, or that nothing is missing (F3). Parameters: untrusted. Rows: the one.
UPDATE main.termgate_incarnation SET untrusted = ?1 WHERE id = 1

-- name: here_read
-- The mark of the main database. Rows: one. Locks: the main database's write lock is held.
SELECT mark FROM main.termgate_here WHERE id = 1

-- name: here_write
-- Writes a mark of this transaction to the main database. Parameters: mark. Rows: the one.
UPDATE main.termgate_here SET mark = ?1 WHERE id = 1

-- name: reset_insert
-- Records a reset, and so which stored terms are no evidence any more (F3). Parameters: scope, old term, new term, moment, actor, reason.
-- Rows: one.
INSERT INTO main.termgate_resets (scope, old_term, new_term, at, actor, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: resets_read
-- Which terms a reset has taken out of the evidence. Parameters: scope. Rows: new_term, old_term, newest first. F3.
SELECT new_term, old_term FROM main.termgate_resets WHERE scope = ?1 ORDER BY id DESC
