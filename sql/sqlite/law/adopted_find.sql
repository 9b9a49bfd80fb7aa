-- Parameters: table. Rows: one if it is adopted. Locks: read under the write lock.
SELECT 1 FROM main.termgate_adopted WHERE table_name = ?1
