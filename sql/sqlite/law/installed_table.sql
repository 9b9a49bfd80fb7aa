-- Parameters: none. Rows: one if layer 1 is there. Locks: none.
SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'termgate_migrations'
