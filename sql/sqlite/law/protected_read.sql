-- Parameters: table. Rows: scope column, scope, mode, or none. Locks: none.
SELECT scope_column, scope, mode FROM main.termgate_protected WHERE table_name = ?1
