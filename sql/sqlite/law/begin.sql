-- Parameters: none. Rows: none. Locks: the write lock of the database.
BEGIN IMMEDIATE
