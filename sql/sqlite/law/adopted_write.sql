-- Parameters: table, scope column, term column, moment. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_adopted (table_name, scope_column, term_column, adopted_at) VALUES (?1, ?2, ?3, ?4)
