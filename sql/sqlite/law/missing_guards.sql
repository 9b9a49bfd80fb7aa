-- Guard triggers of Termgate's own tables that are gone. Parameters: none. Rows: name. Locks: none.
WITH wanted(name) AS (VALUES ('termgate_fences_insert'), ('termgate_fences_update'), ('termgate_fences_delete'),
  ('termgate_streams_insert'), ('termgate_streams_update'), ('termgate_streams_delete'))
SELECT name FROM wanted
WHERE name NOT IN (SELECT s.name FROM main.sqlite_schema s WHERE s.type = 'trigger') ORDER BY 1
