-- Parameters: name. Locks: the write lock.
SELECT termgate_follower_remove($1) AS removed
