-- Sets whether writers may raise this fence. Parameters: scope, mode. Locks: the write lock.
SELECT termgate_set_raise_by($1, $2) AS raise_by
