-- Begins the requested run, under a term. Parameters: job, scope, owner, term. Rows: one; NULL: none is requested.
EXEC @schema@.job_take @job_name = $1, @scope = $2, @owner = $3, @term = $4
