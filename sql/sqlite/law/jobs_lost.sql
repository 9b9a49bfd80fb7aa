-- Earlier runs of the job that a later leader finds unfinished. Parameters: scope, term, moment, job. Rows: those of lower terms.
-- Locks: write lock held.
UPDATE main.termgate_job_runs SET status = 'lost', completed_at = ?3
WHERE scope = ?1 AND job_name = ?4 AND status = 'started'
  AND (term < ?2 OR EXISTS (SELECT 1 FROM main.termgate_leases l
                            WHERE l.scope = ?1 AND (l.released_at IS NOT NULL OR l.expires_at <= ?3)))
