-- Job runs, newest first.
SELECT TOP (CAST($2 AS bigint)) j.run_id, j.job_name, j.scope, j.owner_id, j.term, j.started_at_ms, j.completed_at_ms, j.status, j.last_heartbeat_ms, j.exit_code, j.[checkpoint], j.detail
FROM @schema@.job_history j WHERE $1 IS NULL OR CONVERT(varbinary(800), j.job_name) = CONVERT(varbinary(800), CAST($1 AS nvarchar(400))) ORDER BY j.run_id DESC
