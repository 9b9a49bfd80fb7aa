-- Ordinary tables that are neither protected nor adopted. Parameters: none. Rows: table. Locks: none.
SELECT t.name FROM pragma_table_list t
WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND t.name NOT LIKE 'termgate!_%' ESCAPE '!'
  AND NOT EXISTS (SELECT 1 FROM main.termgate_protected p WHERE p.table_name = t.name)
  AND NOT EXISTS (SELECT 1 FROM main.termgate_adopted a WHERE a.table_name = t.name)
ORDER BY 1
