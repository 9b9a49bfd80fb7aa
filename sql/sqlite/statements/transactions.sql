-- Transactions of layer 1 on SQLite, and its write lock.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: begin
-- Rows: none. Locks: the write lock of the database.
BEGIN IMMEDIATE

-- name: commit
-- Rows: none. Locks: releases all; the flush of F3 happens here.
COMMIT

-- name: savepoint
-- Rows: none. Locks: none. F5: a function's writes inside a user's transaction are all or nothing.
SAVEPOINT termgate_unit

-- name: release
-- Rows: none. Locks: none.
RELEASE termgate_unit

-- name: lock
-- Makes the open transaction a writer, so that the write lock is held before anything is compared (F1, F2). Rows: none, it changes nothing.
-- Locks: the database's write lock. SQLITE_BUSY if another connection has it, SQLITE_BUSY_SNAPSHOT if the transaction's snapshot is older
-- than the last commit.
DELETE FROM main.termgate_incarnation WHERE 0

-- name: track
-- Enlists the connection's transaction marks in the open transaction, so that passes end with COMMIT, ROLLBACK and ROLLBACK TO
-- (docs/reference/lock-protocol.md). Rows: none; the virtual table has none. Locks: none.
DELETE FROM main.termgate_transaction WHERE 0

-- name: busy_timeout
-- How long SQLite itself waits for a lock on this connection, in ms; 0 if the application has a handler of its own or waits for nothing.
-- Rows: one. Locks: none.
PRAGMA busy_timeout
