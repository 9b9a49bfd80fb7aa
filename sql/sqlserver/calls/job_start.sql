-- Starts a run of a job under a term. Open runs of the same job and scope under other terms become lost.
DECLARE @run_id bigint;
EXEC @schema@.job_start @job_name = $1, @scope = $2, @owner = $3, @term = $4, @detail = $5, @run_id = @run_id OUTPUT;
SELECT @run_id AS run_id
