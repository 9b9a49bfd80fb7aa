-- Parameters: run id, job name, scope, owner, term, moment, detail. Rows: one. Locks: write lock held.
INSERT INTO main.termgate_job_runs (run_id, job_name, scope, owner_id, term, started_at, status, last_heartbeat, detail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'started', ?6, ?7)
