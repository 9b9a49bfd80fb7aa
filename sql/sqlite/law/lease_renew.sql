-- Parameters: scope, owner, term, moment, expires at. Rows: the one if it is still that holder's, else none. Locks: write
-- lock held.
UPDATE main.termgate_leases SET expires_at = ?5, renewed_at = ?4
WHERE scope = ?1 AND owner_id = ?2 AND term = ?3 AND released_at IS NULL AND expires_at > ?4
