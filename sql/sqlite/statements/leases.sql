-- Leases. A lease's row and term are kept when it ends (F3).
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: lease_read
-- Parameters: scope. Rows: the lease or none. Locks: the write lock is held if the row decides anything.
SELECT owner_id, term, expires_at, acquired_at, renewed_at, released_at, endpoint
FROM main.termgate_leases WHERE scope = ?1

-- name: lease_insert
-- A scope's first lease. Parameters: scope, owner, term, expires at, moment, endpoint. Rows: one.
INSERT INTO main.termgate_leases (scope, owner_id, term, expires_at, acquired_at, renewed_at, endpoint)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)

-- name: lease_take
-- A new acquisition. Parameters: scope, owner, term, expires at, moment, endpoint. Rows: the one. Locks: write lock
-- held, the fence raised before (F2).
UPDATE main.termgate_leases
SET owner_id = ?2, term = ?3, expires_at = ?4, acquired_at = ?5, renewed_at = ?5, released_at = NULL, endpoint = ?6
WHERE scope = ?1

-- name: lease_renew
-- Parameters: scope, owner, term, moment, expires at. Rows: the one if that holder still has it, otherwise none.
UPDATE main.termgate_leases SET expires_at = ?5, renewed_at = ?4
WHERE scope = ?1 AND owner_id = ?2 AND term = ?3 AND released_at IS NULL AND expires_at > ?4

-- name: lease_bound
-- Limits a lease that was taken while the clock was ahead. Parameters: scope, moment, expires at. Rows: the one.
UPDATE main.termgate_leases SET expires_at = ?3, renewed_at = ?2 WHERE scope = ?1

-- name: lease_release
-- Keeps row and term (F3). Parameters: scope, owner, term, moment. Rows: the one if it was held, otherwise none.
UPDATE main.termgate_leases SET released_at = ?4
WHERE scope = ?1 AND owner_id = ?2 AND term = ?3 AND released_at IS NULL

-- name: lease_force
-- A forced release ends the lease under the term that was held; the next term is only the fence's. Parameters: scope, moment. Rows: the
-- one. Locks: write lock held, the fence raised before (F2).
UPDATE main.termgate_leases SET released_at = coalesce(released_at, ?2) WHERE scope = ?1

-- name: lease_reset
-- After a reset no issued term is above the fence. Parameters: scope, term, moment. Rows: the one, or none.
UPDATE main.termgate_leases SET term = ?2, released_at = coalesce(released_at, ?3)
WHERE scope = ?1 AND term > ?2

-- name: leases_over
-- Leases that have expired and that nobody has released. Parameters: moment. Rows: scope, owner, term, expires at. Locks: none.
SELECT scope, owner_id, term, expires_at FROM main.termgate_leases
WHERE released_at IS NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT 100

-- name: leases_ahead
-- Leases that were taken or renewed while the clock was ahead. Parameters: moment. Rows: scope, owner, expires at. Locks: none.
SELECT scope, owner_id, expires_at FROM main.termgate_leases
WHERE released_at IS NULL AND renewed_at > ?1 ORDER BY renewed_at DESC LIMIT 100

-- name: leases_asked
-- Parameters: a JSON array of leases to renew. Rows: scope, owner, term, ttl_ms, and whether all four have the right types. Locks: none.
SELECT json_extract(value, '$.scope'), json_extract(value, '$.owner'), json_extract(value, '$.term'), json_extract(value, '$.ttl_ms'),
  coalesce(json_type(value, '$.scope') = 'text' AND json_type(value, '$.owner') = 'text' AND json_type(value, '$.term') = 'integer'
    AND json_type(value, '$.ttl_ms') = 'integer', 0)
FROM json_each(?1) ORDER BY key

-- name: hand_over_read
-- The open request to hand over a lease of that term. Parameters: scope, term. Rows: owner, successor, leave before; none if there is no
-- request. Locks: none.
SELECT owner_id, successor, leave_before FROM main.termgate_hand_overs WHERE scope = ?1 AND term = ?2 AND taken_at IS NULL

-- name: hand_over_request
-- Parameters: scope, owner, term, successor, moment, actor, reason, leave before. Rows: one.
INSERT OR REPLACE INTO main.termgate_hand_overs (scope, owner_id, term, successor, requested_at, requested_by, reason, leave_before)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- name: hand_over_taken
-- The receipt. Parameters: scope, term, released at, the end of the lease, next owner, next term, moment. Rows: the one, or none.
UPDATE main.termgate_hand_overs SET left_at = ?3, ended_at = ?4, next_owner = ?5, next_term = ?6, taken_at = ?7
WHERE scope = ?1 AND term = ?2 AND taken_at IS NULL RETURNING requested_by, reason, owner_id
