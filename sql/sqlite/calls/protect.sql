-- Puts the triggers on a table. Parameters: target, scope_column, scope, mode, prefix. Locks: the write lock.
SELECT termgate_protect($1, $2, $3, $4, $5) AS protected
