-- Who may raise this fence. Parameters: scope, mode. Rows: the one. Locks: write lock held.
UPDATE main.termgate_fences SET raise_by = ?2 WHERE scope = ?1
