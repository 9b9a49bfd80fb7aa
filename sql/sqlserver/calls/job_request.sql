-- Requests a run of a job. Parameters: job, scope, kind (run, dry-run, resume), actor, reason.
EXEC @schema@.job_request @job_name = $1, @scope = $2, @kind = $3, @actor = $4, @reason = $5
