-- Parameters: scope. Rows: none for a scope that never had one. Locks: none.
SELECT scope, owner_id, term, expires_at AS expires_at_ms, acquired_at AS acquired_at_ms, renewed_at AS renewed_at_ms,
  released_at AS released_at_ms, endpoint,
  CASE WHEN released_at IS NULL THEN expires_at - termgate_now() ELSE 0 END AS remaining_ms
FROM main.termgate_leases WHERE scope = $1
