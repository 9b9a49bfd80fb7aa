-- Keeps row and term (F3). Parameters: scope, owner, term. Locks: the write lock.
SELECT termgate_release_lease($1, $2, $3) AS released
