-- Requests a run of a job. Parameters: job, scope, kind (run, dry-run, resume), actor, reason.
SELECT requested, run_id FROM @schema@.job_request($1, $2, $3, $4, $5)
