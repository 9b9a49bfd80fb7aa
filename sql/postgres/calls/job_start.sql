-- Opens a job run under a term; runs of lower terms still open become lost.
SELECT @schema@.job_start($1, $2, $3, $4::bigint, $5) AS run_id
