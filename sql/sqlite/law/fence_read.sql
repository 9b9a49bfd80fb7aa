-- What a check compares with. Parameters: scope. Rows: one: the fence's columns (NULL where it has no row) and the
-- incarnation's. Locks: read under the write lock (F1, F2).
SELECT f.term, f.raise_by, f.generation, f.reset_from, i.generation, i.vouched
FROM main.termgate_incarnation i LEFT JOIN main.termgate_fences f ON f.scope = ?1
WHERE i.id = 1
