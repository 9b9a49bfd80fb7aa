-- The operator says that an older copy was put back, or that nothing is missing (F3). Parameters: in doubt. Rows: the
-- one. Locks: write lock held.
UPDATE main.termgate_incarnation SET in_doubt = ?1 WHERE id = 1
