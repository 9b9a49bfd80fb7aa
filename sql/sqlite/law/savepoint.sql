-- Parameters: none. Rows: none. Locks: none. F5: a function's writes inside a user's transaction are all or nothing.
SAVEPOINT termgate_unit
