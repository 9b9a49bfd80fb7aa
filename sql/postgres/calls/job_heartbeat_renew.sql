-- A heartbeat and the renewal of the run's lease. Parameters: run, checkpoint?, ttl_ms.
SELECT beaten, renewed, (extract(epoch FROM beat_before - clock_timestamp()) * 1000)::bigint AS remaining_ms
FROM @schema@.job_heartbeat($1::bigint, $2, $3::bigint * interval '1 millisecond')
