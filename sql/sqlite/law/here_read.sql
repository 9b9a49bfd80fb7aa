-- The mark of the main database. Parameters: none. Rows: one. Locks: the main database's write lock is held.
SELECT mark FROM main.termgate_here WHERE id = 1
