-- A new acquisition. Parameters: scope, owner, term, expires at, moment, endpoint. Rows: the one. Locks: write lock held,
-- the fence raised before (F2).
UPDATE main.termgate_leases
SET owner_id = ?2, term = ?3, expires_at = ?4, acquired_at = ?5, renewed_at = ?5, released_at = NULL, endpoint = ?6
WHERE scope = ?1
