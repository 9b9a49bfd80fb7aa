-- Runs of the scope that a later leader finds unfinished. Parameters: scope, term, moment. Rows: those of lower terms.
-- Locks: write lock held.
UPDATE main.termgate_job_runs SET status = 'lost', completed_at = ?3
WHERE scope = ?1 AND status = 'started' AND term < ?2
