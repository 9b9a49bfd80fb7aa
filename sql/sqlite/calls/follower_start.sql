-- Parameters: name, stream, scope, from_end. Locks: the write lock.
SELECT termgate_follower_start($1, $2, $3, $4) AS run
