-- When the last completed run of a job began, without dry runs. Parameters: job, scope, ahead_ms. Rows: one. started_at_ms? leaves out runs
-- that began more than ahead_ms in the future, by a clock that was wrong then; latest_ms? does not. Locks: none.
SELECT max(started_at) FILTER (WHERE started_at <= termgate_now() + $3) AS started_at_ms, max(started_at) AS latest_ms, termgate_now() AS now_ms
FROM main.termgate_job_runs WHERE job_name = $1 AND scope = $2 AND status = 'completed' AND request IS NOT 'dry-run'
