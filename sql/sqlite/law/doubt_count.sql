-- How many scopes are in doubt. Parameters: none. Rows: one. Locks: write lock held.
SELECT count(*) FROM main.termgate_fences f, main.termgate_incarnation i
WHERE i.id = 1 AND max(f.generation, i.vouched) < i.generation
