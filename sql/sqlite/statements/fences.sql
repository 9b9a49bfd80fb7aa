-- Fences (F1, F2, F3). A trigger refuses a lower term, and a raise that would not be flushed.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: fence_read
-- What a check compares with: one probe. Parameters: scope. Rows: the fence, or none. (F1, F2).
SELECT term, raise_by, untrusted, reset_from FROM main.termgate_fences WHERE scope = ?1

-- name: fence_insert
-- A scope's first fence. Parameters: scope, term, moment, by whom, untrusted. Rows: one. F2, F3.
INSERT INTO main.termgate_fences (scope, term, raised_at, raised_by, untrusted)
VALUES (?1, ?2, ?3, ?4, ?5)

-- name: fence_raise
-- Raises a fence. Parameters: scope, term, moment, by whom, untrusted. Rows: the one. F2, F3: the trigger refuses a
-- lower term, and a raise that would not be flushed.
UPDATE main.termgate_fences SET term = ?2, raised_at = ?3, raised_by = ?4, untrusted = ?5
WHERE scope = ?1

-- name: fence_raise_by
-- Sets who may raise this fence. Parameters: scope, mode. Rows: the one.
UPDATE main.termgate_fences SET raise_by = ?2 WHERE scope = ?1

-- name: fence_reset
-- Lowers a fence. Parameters: scope, term, moment, by whom. Rows: the one. F3: the trigger allows it only while termgate_reset_fence runs.
UPDATE main.termgate_fences
SET reset_from = max(coalesce(reset_from, 0), term), term = ?2, raised_at = ?3, raised_by = ?4
WHERE scope = ?1

-- name: fence_show
-- Parameters: scope. Rows: the fence as `fences` shows it, or none. Locks: none.
SELECT f.scope, f.term, f.raised_at, f.raised_by,
  coalesce(f.raise_by, (SELECT value FROM main.termgate_settings WHERE name = 'default_raise_by')),
  f.untrusted, f.reset_from
FROM main.termgate_fences f WHERE f.scope = ?1

-- name: fences_set_untrusted
-- Marks every fence as untrusted (1) or trusted (0). Parameters: untrusted. Rows: those that change.
UPDATE main.termgate_fences SET untrusted = ?1 WHERE untrusted <> ?1

-- name: fences_untrusted
-- Rows: scope, term. Locks: none.
SELECT scope, term FROM main.termgate_fences WHERE untrusted = 1 ORDER BY 1 LIMIT 100
