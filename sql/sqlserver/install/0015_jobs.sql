-- With this version a job has one open run for each term and scope, and a run records who started it (0006). Of several that older versions
-- left open under one term, only the last stays open. Parameters: none. Locks: those of the UPDATE.
UPDATE @schema@.job_runs SET status = 'lost', completed_at = SYSUTCDATETIME() WHERE status = 'started'
   AND EXISTS (SELECT 1 FROM @schema@.job_runs o WITH (READCOMMITTEDLOCK) WHERE o.scope_key = job_runs.scope_key AND o.job_name = job_runs.job_name AND o.term = job_runs.term AND o.status = 'started' AND o.run_id > job_runs.run_id);
GO
