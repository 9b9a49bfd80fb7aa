-- Parameters: none. Locks: none.
SELECT name, value, what FROM main.termgate_settings ORDER BY name
