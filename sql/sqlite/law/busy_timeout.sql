-- How long SQLite itself waits for a lock on this connection, in ms; 0 where the application has a handler of its own or waits for nothing.
-- Parameters: none. Rows: one. Locks: none.
PRAGMA busy_timeout
