-- Job runs, newest first. Parameters: job?, scope?, run_id?, limit, status?.
SELECT TOP (CAST($4 AS bigint)) j.run_id, j.job_name, j.scope, j.owner_id, j.term, j.started_at_ms, j.completed_at_ms, j.status, j.last_heartbeat_ms, j.exit_code, j.[checkpoint], j.detail, j.request, @schema@._ms(SYSUTCDATETIME()) AS now_ms
FROM @schema@.job_history j WHERE ($1 IS NULL OR CONVERT(varbinary(800), j.job_name) = CONVERT(varbinary(800), CAST($1 AS nvarchar(400))))
  AND ($2 IS NULL OR CONVERT(varbinary(800), j.scope) = CONVERT(varbinary(800), CAST($2 AS nvarchar(400)))) AND ($3 IS NULL OR j.run_id = CAST($3 AS bigint)) AND ($5 IS NULL OR j.status = CAST($5 AS varchar(9))) ORDER BY j.run_id DESC
