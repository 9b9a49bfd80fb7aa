-- Parameters: target. Locks: the write lock.
SELECT termgate_unadopt($1) AS unadopted
