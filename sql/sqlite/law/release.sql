-- Parameters: none. Rows: none. Locks: none.
RELEASE termgate_unit
