-- Parameters: none. Rows: name, value, what. Locks: none.
SELECT name, value, what FROM main.termgate_settings ORDER BY name
