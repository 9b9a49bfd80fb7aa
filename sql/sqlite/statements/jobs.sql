-- Job runs.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: job_open
-- The open run of a job; a scope has one at most. Parameters: scope, job. Rows: run id, or none.
SELECT run_id FROM main.termgate_job_runs WHERE scope = ?1 AND job_name = ?2 AND status = 'started'

-- name: job_read
-- Parameters: run id. Rows: scope and term of the run if it still runs. Locks: none of its own.
SELECT scope, term FROM main.termgate_job_runs WHERE run_id = ?1 AND status = 'started'

-- name: job_holder
-- Parameters: run id. Rows: scope, term and owner of the run if it still runs. Locks: none of its own.
SELECT scope, term, owner_id FROM main.termgate_job_runs WHERE run_id = ?1 AND status = 'started'

-- name: job_insert
-- Parameters: run id, job name, scope, owner, term, moment, detail. Rows: one.
INSERT INTO main.termgate_job_runs (run_id, job_name, scope, owner_id, term, started_at, status, last_heartbeat, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'started', ?6, ?7)

-- name: job_beat
-- Parameters: run id, moment, checkpoint (NULL keeps it). Rows: the one if it still runs.
UPDATE main.termgate_job_runs SET last_heartbeat = ?2, checkpoint = coalesce(?3, checkpoint)
WHERE run_id = ?1 AND status = 'started'

-- name: job_finish
-- Parameters: run id, status, moment, exit code, detail, checkpoint (NULL keeps it). Rows: the one if it still runs.
UPDATE main.termgate_job_runs
SET status = ?2, completed_at = ?3, last_heartbeat = ?3, exit_code = ?4, detail = coalesce(?5, detail), checkpoint = coalesce(?6, checkpoint)
WHERE run_id = ?1 AND status = 'started'

-- name: jobs_lost
-- Earlier runs of the job that a later leader finds unfinished. Parameters: scope, term, moment, job. Rows: those of
-- lower terms.
UPDATE main.termgate_job_runs SET status = 'lost', completed_at = ?3
WHERE scope = ?1 AND job_name = ?4 AND status = 'started'
  AND (term < ?2 OR EXISTS (SELECT 1 FROM main.termgate_leases l
                            WHERE l.scope = ?1 AND (l.released_at IS NOT NULL OR l.expires_at <= ?3)))

-- name: runs_over
-- The open runs of a lease that was taken or force-released. Parameters: scope, term, moment. Rows: those of lower
-- terms. Locks: write lock held, the fence raised (F2).
UPDATE main.termgate_job_runs SET status = 'lost', completed_at = ?3
WHERE scope = ?1 AND status = 'started' AND term < ?2

-- name: prune_jobs
-- Parameters: moment. Rows: the runs that ended before it.
DELETE FROM main.termgate_job_runs WHERE coalesce(completed_at, started_at) < ?1 AND status <> 'started'
