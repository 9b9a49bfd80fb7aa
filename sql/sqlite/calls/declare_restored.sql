-- A scope is trusted again, for terms from elsewhere (F3). Parameters: scope, above, actor, reason. Locks: the write lock.
SELECT termgate_declare_restored($1, $2, $3, $4) AS fence
