-- Parameters: run_id, checkpoint. Locks: the write lock.
SELECT termgate_job_heartbeat($1, $2) AS beaten
