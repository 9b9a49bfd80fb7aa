-- Parameters: target. Locks: the write lock.
SELECT termgate_unprotect($1) AS unprotected
