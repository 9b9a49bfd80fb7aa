-- The same for every fence. Parameters: in doubt. Rows: those that change. Locks: write lock held.
UPDATE main.termgate_fences SET in_doubt = ?1 WHERE in_doubt <> ?1
