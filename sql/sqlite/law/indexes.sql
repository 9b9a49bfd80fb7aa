-- Parameters: table. Rows: index, unique, origin, partial, CREATE statement (NULL for an automatic one). Locks: none.
SELECT l.name, l."unique", l.origin, l.partial,
  (SELECT x.sql FROM main.sqlite_schema x WHERE x.type = 'index' AND x.name = l.name)
FROM pragma_index_list(?1, 'main') l ORDER BY l.seq
