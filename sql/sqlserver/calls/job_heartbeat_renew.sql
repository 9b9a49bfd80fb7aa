-- A heartbeat and the renewal of the run's lease. Parameters: run, checkpoint?, ttl_ms.
EXEC @schema@.job_heartbeat_renew @run_id = $1, @checkpoint = $2, @ttl_ms = $3
