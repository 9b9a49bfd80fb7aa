-- A sign of life and, if given, a checkpoint.
SELECT @schema@.job_heartbeat($1::bigint, $2) AS beaten
