-- Ends a job run: completed, failed, cancelled or lost.
DECLARE @finished bit;
EXEC @schema@.job_finish @run_id = $1, @status = $2, @exit_code = $3, @detail = $4, @checkpoint = $5, @finished = @finished OUTPUT;
SELECT @finished AS finished
