-- Begins the run that is asked for, under a term. Parameters: job, scope, owner, term. Rows: one; NULL: none is.
EXEC @schema@.job_take @job_name = $1, @scope = $2, @owner = $3, @term = $4
