-- When the last completed run of a job began, without dry runs. Parameters: job, scope, ahead_ms. Rows: one. started_at_ms? leaves out runs
-- that began more than ahead_ms in the future, by a clock that was wrong then; latest_ms? does not.
SELECT MAX(CASE WHEN j.started_at_ms <= @schema@._ms(SYSUTCDATETIME()) + CAST($3 AS bigint) THEN j.started_at_ms END) AS started_at_ms, MAX(j.started_at_ms) AS latest_ms, @schema@._ms(SYSUTCDATETIME()) AS now_ms
FROM @schema@.job_history j WHERE CONVERT(varbinary(800), j.job_name) = CONVERT(varbinary(800), CAST($1 AS nvarchar(400)))
  AND CONVERT(varbinary(800), j.scope) = CONVERT(varbinary(800), CAST($2 AS nvarchar(400))) AND j.status = 'completed' AND (j.request IS NULL OR j.request <> 'dry-run')
