-- A heartbeat that renews the lease. With this version seal (0002) takes an actor and a reason.
-- Parameters: none. Locks: those of CREATE.
DROP PROCEDURE IF EXISTS @schema@.job_heartbeat_renew;
GO
-- job_heartbeat_renew(run_id, checkpoint, ttl_ms) → one row: beaten, renewed, remaining_ms, beat_before. A heartbeat and the renewal of the
-- run's lease in one transaction. The next call must succeed before beat_before, because the lease ends then. beaten 0: the run is not open
-- any more, and nothing was renewed. renewed 0: the run's owner does not hold the lease under the run's term any more.
CREATE PROCEDURE @schema@.job_heartbeat_renew @run_id bigint, @checkpoint nvarchar(max) = NULL, @ttl_ms bigint AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @scope nvarchar(400), @owner nvarchar(400), @term bigint, @key varbinary(800), @generation bigint,
          @now datetime2(3), @expires datetime2(3), @beaten bit = 0, @renewed bit = 0, @leave datetime2(3);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_ttl @ttl_ms;
  IF @own = 1 BEGIN TRANSACTION;
  EXEC @schema@.job_heartbeat @run_id, @checkpoint, @beaten OUTPUT;
  IF @beaten = 1
  BEGIN
    -- NOLOCK is enough, because these columns do not change once a run has begun. The rest is done as in renew_lease, which would return a
    -- row of its own.
    SELECT @scope = j.scope, @owner = j.owner_id, @term = j.term, @key = j.scope_key FROM @schema@.job_runs j WITH (NOLOCK) WHERE j.run_id = @run_id;
    EXEC @schema@._lease_lock @scope, @key;
    SELECT @generation = f.generation FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @key;
    EXEC @schema@._need_trusted @scope, @generation;
    SET @leave = @schema@._leave_before(@key, @term);
    SET @now = SYSUTCDATETIME();
    UPDATE @schema@.leases WITH (ROWLOCK) SET expires_at = DATEADD(millisecond, @ttl_ms, @now), renewed_at = @now
     WHERE scope_key = @key AND CONVERT(varbinary(800), owner_id) = CONVERT(varbinary(800), @owner) AND term = @term AND released_at IS NULL AND expires_at > @now AND (@leave IS NULL OR @leave > @now);
    IF @@ROWCOUNT = 1 SET @renewed = 1;
    IF @renewed = 1 SET @expires = DATEADD(millisecond, @ttl_ms, @now);
  END
  IF @own = 1 COMMIT TRANSACTION;
  SELECT @beaten AS beaten, @renewed AS renewed, DATEDIFF_BIG(millisecond, SYSUTCDATETIME(), @expires) AS remaining_ms, @expires AS beat_before;
END
GO
DECLARE @text nvarchar(max);
SET @text = N'GRANT EXECUTE ON @schema@.job_heartbeat_renew TO ' + QUOTENAME(@schema_lit@ + N'_lead');
EXEC(@text);
GO
