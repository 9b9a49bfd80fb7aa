-- Deletes old audit and job rows. Parameters: older_than_ms. Locks: the write lock.
SELECT termgate_prune_history($1) AS pruned
