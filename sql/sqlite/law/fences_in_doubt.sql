-- Parameters: none. Rows: scope, term. Locks: none.
SELECT scope, term FROM main.termgate_fences WHERE in_doubt = 1 ORDER BY 1 LIMIT 100
