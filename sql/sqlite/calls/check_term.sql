-- The check. Parameters: scope, term. Locks: the write lock. F1, F2.
SELECT termgate_check_term($1, $2) AS fence
