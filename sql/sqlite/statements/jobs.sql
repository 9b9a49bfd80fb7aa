-- Job runs.
-- Unless a statement says otherwise, the write lock is held when it runs. Each has a marker with its name (sql/embed.cmake).

-- name: job_open
-- The open run of a job under a term (0: the requested one); there is at most one. Parameters: scope, job, term. Rows: run id and kind of
-- request, or none.
SELECT run_id, request FROM main.termgate_job_runs WHERE scope = ?1 AND job_name = ?2 AND term = ?3 AND status = 'started'

-- name: job_read
-- Parameters: run id. Rows: scope, term and owner of the run if it is open. Locks: none of its own.
SELECT scope, term, owner_id FROM main.termgate_job_runs WHERE run_id = ?1 AND status = 'started'

-- name: job_insert
-- Parameters: run id, job name, scope, owner, term, moment, detail, kind of request. Rows: one.
INSERT INTO main.termgate_job_runs (run_id, job_name, scope, owner_id, term, started_at, status, last_heartbeat, detail, request)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'started', ?6, ?7, ?8)

-- name: job_take
-- A requested run begins. Parameters: run id, owner, term, moment. Rows: one.
UPDATE main.termgate_job_runs SET owner_id = ?2, term = ?3, started_at = ?4, last_heartbeat = ?4 WHERE run_id = ?1

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
-- The open runs of a job whose terms are not the fence. Parameters: scope, term, moment, job. Rows: those.
UPDATE main.termgate_job_runs SET status = 'lost', completed_at = ?3
WHERE scope = ?1 AND job_name = ?4 AND status = 'started' AND term NOT IN (0, ?2)

-- name: prune_jobs
-- The last completed run of a job shows when the next one is due (--once-per), and the last run's checkpoint shows where it begins
-- (--resume): they stay. Dry runs, and requests that nobody has begun, show neither. Parameters: moment, now. Rows: the others that ended,
-- or were last heard of, before the moment.
DELETE FROM main.termgate_job_runs AS j WHERE coalesce(completed_at, last_heartbeat, started_at) < ?1
  AND (status <> 'started' OR term > 0 AND EXISTS (SELECT 1 FROM main.termgate_fences f WHERE f.scope = j.scope AND f.term <> j.term))
  AND (status <> 'completed' OR request = 'dry-run'
    OR EXISTS (SELECT 1 FROM main.termgate_job_runs o WHERE o.scope = j.scope AND o.job_name = j.job_name AND o.status = 'completed'
               AND o.request IS NOT 'dry-run' AND (o.started_at, o.run_id) > (j.started_at, j.run_id) AND o.started_at <= ?2))
  AND (status = 'completed' OR checkpoint IS NULL OR request = 'dry-run'
    OR EXISTS (SELECT 1 FROM main.termgate_job_runs o WHERE o.scope = j.scope AND o.job_name = j.job_name
               AND o.term > 0 AND o.request IS NOT 'dry-run' AND (o.started_at, o.term, o.run_id) > (j.started_at, j.term, j.run_id)))
