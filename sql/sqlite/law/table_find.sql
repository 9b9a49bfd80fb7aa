-- Parameters: a table's name in any case. Rows: its name and its CREATE statement, or none. Locks: none.
SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE
