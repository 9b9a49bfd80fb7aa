-- The owners' tables that count towards MAX(term). Parameters: none. Rows: table, scope column, term column. Locks: write
-- lock held.
SELECT table_name, scope_column, term_column FROM main.termgate_adopted ORDER BY table_name
