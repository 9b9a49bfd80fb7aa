-- Seals the next term, audited (F2). Parameters: scope, actor, reason. Locks: the write lock.
SELECT termgate_force_release($1, $2, $3) AS released
