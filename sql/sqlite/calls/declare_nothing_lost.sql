-- The operator declares that no raise is missing (F3). Parameters: actor, reason. Locks: the write lock.
SELECT termgate_declare_nothing_lost($1, $2) AS scopes
