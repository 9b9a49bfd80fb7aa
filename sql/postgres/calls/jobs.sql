-- Job runs, newest first. Parameters: job?, scope?, run_id?, limit, status?.
SELECT run_id, job_name, scope, owner_id, term, (extract(epoch FROM started_at) * 1000)::bigint AS started_at_ms, (extract(epoch FROM completed_at) * 1000)::bigint AS completed_at_ms,
  status, (extract(epoch FROM last_heartbeat) * 1000)::bigint AS last_heartbeat_ms, exit_code, checkpoint, detail, request, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms
FROM @schema@.job_history WHERE ($1::text IS NULL OR job_name = $1) AND ($2::text IS NULL OR scope = $2) AND ($3::bigint IS NULL OR run_id = $3) AND ($5::text IS NULL OR status = $5) ORDER BY run_id DESC LIMIT $4::int
