-- Parameters: moment. Rows: the older ones; prunings stay on record. Locks: write lock held.
DELETE FROM main.termgate_audit WHERE at < ?1 AND action <> 'prune_history'
