-- Keeps row and term (F3). Parameters: scope, owner, term, moment. Rows: the one if it was held, else none. Locks: write
-- lock held.
UPDATE main.termgate_leases SET released_at = ?4
WHERE scope = ?1 AND owner_id = ?2 AND term = ?3 AND released_at IS NULL
