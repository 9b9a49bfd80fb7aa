-- The operator says that an older copy was put back (F3). Parameters: none. Rows: the one. Locks: write lock held.
UPDATE main.termgate_incarnation SET generation = generation + 1 WHERE id = 1
