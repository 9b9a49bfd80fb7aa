-- A scope's first lease. Parameters: scope, owner, term, expires at, moment, endpoint. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_leases (scope, owner_id, term, expires_at, acquired_at, renewed_at, endpoint)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)
