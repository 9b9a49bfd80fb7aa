-- Parameters: type, name. Rows: the CREATE statement, or none. Locks: none.
SELECT sql FROM main.sqlite_schema WHERE type = ?1 AND name = ?2
