-- A forced release ends the lease under the term that was held; the next one is the fence's and nobody's. Parameters: scope,
-- moment. Rows: the one. Locks: write lock held, the fence raised before (F2).
UPDATE main.termgate_leases SET released_at = coalesce(released_at, ?2) WHERE scope = ?1
