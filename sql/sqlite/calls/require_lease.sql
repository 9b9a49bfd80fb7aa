-- COMMIT fails with TG007 where the lease is not held then. Parameters: scope, owner. Locks: the write lock.
SELECT termgate_require_lease($1, $2) AS expires_at_ms
