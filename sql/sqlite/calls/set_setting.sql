-- Parameters: name, value. Locks: the write lock.
SELECT $1 AS name, termgate_set_setting($1, $2) AS value
