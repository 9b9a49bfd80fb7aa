-- Puts a mark of this transaction into the main database. Parameters: mark. Rows: the one. Locks: write lock held.
UPDATE main.termgate_here SET mark = ?1 WHERE id = 1
