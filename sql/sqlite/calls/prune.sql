-- Deletes the writes below a number; the fence stays (F3). Parameters: stream, before. Locks: the write lock.
SELECT termgate_prune($1, $2) AS pruned
