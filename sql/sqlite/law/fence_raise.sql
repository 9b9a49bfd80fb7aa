-- Raises a fence. Parameters: scope, term, moment, by whom, in doubt. Rows: the one. Locks: write lock held. F2, F3:
-- the trigger refuses a lower term, and a raise that would not be flushed.
UPDATE main.termgate_fences SET term = ?2, raised_at = ?3, raised_by = ?4, in_doubt = ?5
WHERE scope = ?1
