-- Parameters: scope. Rows: the lease or none. Locks: read under the write lock where it decides anything.
SELECT owner_id, term, expires_at, acquired_at, renewed_at, released_at, endpoint
FROM main.termgate_leases WHERE scope = ?1
