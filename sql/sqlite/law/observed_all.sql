-- Parameters: none. Rows: table, scope, reason, count, first, last. Locks: none.
SELECT table_name, scope, reason, count, first_at, last_at FROM main.termgate_observed ORDER BY 1, 2, 3
