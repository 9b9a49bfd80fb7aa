-- Termgate's own triggers on a table. Parameters: table, the names' prefix. Rows: name, text. Locks: none.
SELECT name, sql FROM main.sqlite_schema
WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND substr(name, 1, length(?2)) = ?2 ORDER BY name
