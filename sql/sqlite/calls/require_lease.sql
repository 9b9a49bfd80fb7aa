-- COMMIT fails with TG007 if the lease is not held then. Parameters: scope, owner. Locks: the write lock.
SELECT termgate_require_lease($1, $2) AS expires_at_ms
