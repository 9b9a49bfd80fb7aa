-- Parameters: none. Rows: scope, term. Locks: none.
SELECT f.scope, f.term FROM main.termgate_fences f, main.termgate_incarnation i
WHERE i.id = 1 AND max(f.generation, i.vouched) < i.generation ORDER BY 1 LIMIT 100
