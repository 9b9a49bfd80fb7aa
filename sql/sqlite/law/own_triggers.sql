-- Every trigger of Termgate's, on its own tables and on the owners'. Parameters: none. Rows: name. Locks: none.
SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND name LIKE 'termgate!_%' ESCAPE '!' ORDER BY name
