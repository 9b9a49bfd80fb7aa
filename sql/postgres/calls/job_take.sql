-- Begins the requested run, under a term. Parameters: job, scope, owner, term. Rows: one; NULL: none is requested.
SELECT run_id, kind FROM @schema@.job_take($1, $2, $3, $4::bigint)
