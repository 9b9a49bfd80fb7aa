-- Parameters: name, run, stream, from, to. Locks: the write lock.
SELECT termgate_follower_advance($1, $2, $3, $4, $5) AS outcome
