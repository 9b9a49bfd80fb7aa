-- After a reset no issued term stands above the fence. Parameters: scope, term, moment. Rows: the one, or none. Locks:
-- write lock held.
UPDATE main.termgate_leases SET term = ?2, released_at = coalesce(released_at, ?3)
WHERE scope = ?1 AND term > ?2
