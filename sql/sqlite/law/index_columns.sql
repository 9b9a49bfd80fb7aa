-- Parameters: index. Rows: column (NULL for an expression), collation, in order of the key. Locks: none.
SELECT CASE WHEN cid >= 0 THEN name WHEN cid = -1 THEN '' END, coll
FROM pragma_index_xinfo(?1, 'main') WHERE key = 1 ORDER BY seqno
