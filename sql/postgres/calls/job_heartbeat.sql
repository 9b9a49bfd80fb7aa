-- Records that a run is alive and, if given, a checkpoint.
SELECT @schema@.job_heartbeat($1::bigint, $2) AS beaten
