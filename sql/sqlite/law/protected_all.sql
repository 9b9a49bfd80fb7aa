-- Parameters: none. Rows: table, scope column, scope, mode. Locks: none.
SELECT table_name, scope_column, scope, mode FROM main.termgate_protected ORDER BY table_name
