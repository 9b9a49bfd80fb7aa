-- The open runs of a lease that was taken or force-released. Parameters: scope, term, moment. Rows: those of lower terms.
-- Locks: write lock held, the fence raised (F2).
UPDATE main.termgate_job_runs SET status = 'lost', completed_at = ?3
WHERE scope = ?1 AND status = 'started' AND term < ?2
