-- Parameters: moment. Rows: the older ones. Locks: write lock held.
DELETE FROM main.termgate_audit WHERE at < ?1
