-- Parameters: table. Rows: the one, or none. Locks: write lock held.
DELETE FROM main.termgate_protected WHERE table_name = ?1 COLLATE NOCASE
