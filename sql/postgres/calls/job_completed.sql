-- When the last completed run of a job began, without dry runs. Parameters: job, scope, ahead_ms. Rows: one. started_at_ms? leaves out runs
-- that began more than ahead_ms in the future, by a clock that was wrong then; latest_ms? does not.
SELECT (extract(epoch FROM max(started_at) FILTER (WHERE started_at <= clock_timestamp() + $3::bigint * interval '1 millisecond')) * 1000)::bigint AS started_at_ms,
  (extract(epoch FROM max(started_at)) * 1000)::bigint AS latest_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
FROM @schema@.job_history WHERE job_name = $1 AND scope = $2 AND status = 'completed' AND request IS DISTINCT FROM 'dry-run'
