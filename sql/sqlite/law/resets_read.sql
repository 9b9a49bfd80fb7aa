-- Which terms a reset took out of the evidence. Parameters: scope. Rows: new_term, old_term, newest first. Locks: write
-- lock held. F3.
SELECT new_term, old_term FROM main.termgate_resets WHERE scope = ?1 ORDER BY id DESC
