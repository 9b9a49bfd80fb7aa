-- Parameters: name. Rows: the value, none for an unknown name. Locks: none.
SELECT value FROM main.termgate_settings WHERE name = ?1
