-- A forced release issues the next term to nobody. Parameters: scope, term, moment. Rows: the one. Locks: write lock
-- held, the fence raised before (F2).
UPDATE main.termgate_leases SET term = ?2, released_at = coalesce(released_at, ?3) WHERE scope = ?1
