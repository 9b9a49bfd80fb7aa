-- The operator says that no raise is missing. Parameters: none. Rows: the one. Locks: write lock held.
UPDATE main.termgate_incarnation SET vouched = generation WHERE id = 1
