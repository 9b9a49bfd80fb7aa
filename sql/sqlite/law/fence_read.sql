-- What a check compares with: one probe. Parameters: scope. Rows: the fence, or none. Locks: read under the write lock
-- (F1, F2).
SELECT term, raise_by, in_doubt, reset_from FROM main.termgate_fences WHERE scope = ?1
