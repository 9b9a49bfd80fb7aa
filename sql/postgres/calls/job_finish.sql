-- Ends a job run: completed, failed, cancelled or lost.
SELECT @schema@.job_finish($1::bigint, $2, $3::int, $4, $5) AS finished
