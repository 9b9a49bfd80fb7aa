-- Leases past their time that nobody released. Parameters: moment. Rows: scope, owner, term, expires at. Locks: none.
SELECT scope, owner_id, term, expires_at FROM main.termgate_leases
WHERE released_at IS NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT 100
