-- Makes the open transaction a writer, so that the write lock is held before anything is compared (F1, F2).
-- Parameters: none. Rows: none, it changes nothing. Locks: the database's write lock; SQLITE_BUSY when another
-- connection has it, SQLITE_BUSY_SNAPSHOT when the transaction's snapshot is older than the last commit.
DELETE FROM main.termgate_incarnation WHERE 0
