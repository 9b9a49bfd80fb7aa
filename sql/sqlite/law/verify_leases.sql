-- An issued term never stands above its fence (F2). Parameters: none. Rows: scope, lease term, fence. Locks: none.
SELECT l.scope, l.term, coalesce(f.term, 0)
FROM main.termgate_leases l LEFT JOIN main.termgate_fences f ON f.scope = l.scope
WHERE l.term > coalesce(f.term, 0) ORDER BY l.scope
