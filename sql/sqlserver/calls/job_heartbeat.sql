-- Records that a run is alive and, if given, a checkpoint.
DECLARE @beaten bit;
EXEC @schema@.job_heartbeat @run_id = $1, @checkpoint = $2, @beaten = @beaten OUTPUT;
SELECT @beaten AS beaten
