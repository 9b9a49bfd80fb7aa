-- Parameters: name, value. Rows: the one. Locks: write lock held.
UPDATE main.termgate_settings SET value = ?2 WHERE name = ?1
