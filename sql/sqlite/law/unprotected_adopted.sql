-- Adopted tables that no trigger protects. Parameters: none. Rows: table. Locks: none.
SELECT a.table_name FROM main.termgate_adopted a
WHERE NOT EXISTS (SELECT 1 FROM main.termgate_protected p WHERE p.table_name = a.table_name) ORDER BY 1
