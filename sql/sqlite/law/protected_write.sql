-- Parameters: table, scope column, scope, mode, moment. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_protected (table_name, scope_column, scope, mode, protected_at)
VALUES (?1, ?2, ?3, ?4, ?5)
