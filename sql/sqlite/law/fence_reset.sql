-- The audited way down. Parameters: scope, term, moment, by whom. Rows: the one. Locks: write lock held. F3: the trigger
-- lets it pass only while termgate_reset_fence is at work.
UPDATE main.termgate_fences
SET reset_from = max(coalesce(reset_from, 0), term), term = ?2, raised_at = ?3, raised_by = ?4
WHERE scope = ?1
