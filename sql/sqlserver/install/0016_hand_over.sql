-- Planned hand-over: the holder of a lease is asked to leave, gives it back, and its successor takes it (0004 calls the functions here). As
-- long as the drain lasts, only the successor that the request names may take the lease, or, if it names none, anybody but the holder.
-- After the drain the lease is renewed no more. Parameters: none. Locks: those of CREATE. Keeps F2, F3: terms and fences are
-- acquire_lease's.

-- The last hand-over of each scope. It belongs to one term of the lease. The next acquisition ends it, and then the row is the receipt.
-- Written only under the lease's lock.
IF OBJECT_ID(N'@schema@.hand_overs', N'U') IS NULL
CREATE TABLE @schema@.hand_overs (
  scope_key    varbinary(800) NOT NULL PRIMARY KEY,
  scope        nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  owner_id     nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  term         bigint NOT NULL,
  successor    nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  requested_at datetime2(3) NOT NULL,
  requested_by nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  reason       nvarchar(2000) COLLATE Latin1_General_BIN2 NOT NULL,
  leave_before datetime2(3) NOT NULL,
  left_at      datetime2(3) NULL,
  ended_at     datetime2(3) NULL,
  next_owner   nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  next_term    bigint NULL,
  taken_at     datetime2(3) NULL
);
GO
DROP VIEW IF EXISTS @schema@.hand_over_status;
DROP FUNCTION IF EXISTS @schema@._may_follow;
DROP FUNCTION IF EXISTS @schema@._leave_before;
DROP PROCEDURE IF EXISTS @schema@._handed_over;
DROP PROCEDURE IF EXISTS @schema@.request_hand_over;
GO
-- When the holder under this term must have left. NULL: nobody has asked it to leave. NOLOCK is enough: under the lease's lock nobody else
-- writes the row.
CREATE FUNCTION @schema@._leave_before(@scope_key varbinary(800), @term bigint) RETURNS datetime2(3) AS
BEGIN
  RETURN (SELECT h.leave_before FROM @schema@.hand_overs h WITH (NOLOCK) WHERE h.scope_key = @scope_key AND h.term = @term AND h.taken_at IS NULL);
END
GO
-- Whether @owner may take the lease now, whose term is @term. Names are compared as bytes; one that ends in * (0x2A00) is the beginning of
-- owners' names.
CREATE FUNCTION @schema@._may_follow(@scope_key varbinary(800), @term bigint, @owner nvarchar(4000)) RETURNS bit AS
BEGIN
  DECLARE @leaving varbinary(800), @successor varbinary(800), @bytes int, @name varbinary(800) = CONVERT(varbinary(800), @owner);
  SELECT @leaving = CONVERT(varbinary(800), h.owner_id), @successor = CONVERT(varbinary(800), h.successor) FROM @schema@.hand_overs h WITH (NOLOCK)
   WHERE h.scope_key = @scope_key AND h.term = @term AND h.taken_at IS NULL AND h.leave_before > SYSUTCDATETIME();
  IF @leaving IS NULL RETURN 1;
  IF @leaving = @name RETURN 0;
  IF @successor IS NULL OR @successor = @name RETURN 1;
  SET @bytes = DATALENGTH(@successor) - 2;
  IF SUBSTRING(@successor, @bytes + 1, 2) = 0x2A00 AND SUBSTRING(@successor, 1, @bytes) = SUBSTRING(@name, 1, @bytes) RETURN 1;
  RETURN 0;
END
GO
-- Writes the receipt, for acquire_lease under the lease's lock. @before: the lease's term as it was; @released, @ended: when it was given
-- back, and when it ended.
-- Locks: row hand_overs X transaction
CREATE PROCEDURE @schema@._handed_over @scope nvarchar(400), @scope_key varbinary(800), @before bigint, @released datetime2(3), @ended datetime2(3), @owner nvarchar(400), @term bigint, @now datetime2(3) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @detail nvarchar(max), @actor nvarchar(400), @leaving nvarchar(400), @reason nvarchar(2000), @left bit = CASE WHEN @released IS NULL THEN 0 ELSE 1 END, @gap bigint = DATEDIFF_BIG(millisecond, @ended, @now);
  IF @schema@._leave_before(@scope_key, @before) IS NULL RETURN 0;
  UPDATE @schema@.hand_overs WITH (ROWLOCK) SET left_at = @released, ended_at = @ended, next_owner = @owner, next_term = @term, taken_at = @now, @actor = requested_by, @leaving = owner_id, @reason = reason
   WHERE scope_key = @scope_key;
  SET @detail = (SELECT @term AS term, @owner AS owner, @before AS previous, @leaving AS previous_owner, @left AS [left], @gap AS gap_ms, @reason AS reason FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  EXEC @schema@._audit 'hand_over', @scope, @actor, @detail;
END
GO
-- request_hand_over(scope, successor, drain_ms, actor, reason) → one row. Asks the holder to leave within the drain. The holder finds out
-- with its next renewal. successor: an owner, or the beginning of owners' names and a *. requested 0: nobody holds the lease. A later
-- request replaces this one.
-- Locks: row first_read S statement
-- Locks: row leases U transaction
-- Locks: row hand_overs X transaction
CREATE PROCEDURE @schema@.request_hand_over @scope nvarchar(4000), @successor nvarchar(4000) = NULL, @drain_ms bigint = 30000, @actor nvarchar(4000) = NULL, @reason nvarchar(4000) = NULL AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @requested bit = 0, @holder nvarchar(400), @term bigint, @now datetime2(3), @leave datetime2(3), @detail nvarchar(max);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  IF @actor IS NULL SET @actor = ORIGINAL_LOGIN();
  IF @reason IS NULL SET @reason = N'planned';
  EXEC @schema@._need_scope @scope;
  IF @successor IS NOT NULL EXEC @schema@._need_owner @successor;
  IF @drain_ms IS NULL OR @drain_ms NOT BETWEEN 100 AND 86400000 THROW 50005, 'TG005 the drain must be from 100 ms to 1 day', 1;
  EXEC @schema@._need_reason @actor, @reason;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._lease_lock @scope, @key;
    SELECT @holder = l.owner_id, @term = l.term FROM @schema@.leases l WITH (UPDLOCK, ROWLOCK) WHERE l.scope_key = @key AND l.released_at IS NULL AND l.expires_at > SYSUTCDATETIME();
    IF @holder IS NOT NULL
    BEGIN
      IF CONVERT(varbinary(800), @holder) = CONVERT(varbinary(800), @successor) THROW 50005, 'TG005 the successor holds the lease itself: a hand-over goes to another', 1;
      SET @now = SYSUTCDATETIME();
      SET @leave = DATEADD(millisecond, @drain_ms, @now);
      UPDATE @schema@.hand_overs WITH (ROWLOCK) SET owner_id = @holder, term = @term, successor = @successor, requested_at = @now, requested_by = @actor, reason = @reason, leave_before = @leave,
             left_at = NULL, ended_at = NULL, next_owner = NULL, next_term = NULL, taken_at = NULL WHERE scope_key = @key;
      IF @@ROWCOUNT = 0
        INSERT INTO @schema@.hand_overs (scope_key, scope, owner_id, term, successor, requested_at, requested_by, reason, leave_before)
        VALUES (@key, @scope, @holder, @term, @successor, @now, @actor, @reason, @leave);
      SET @detail = (SELECT @holder AS owner, @term AS term, @successor AS [to], @leave AS leave_before, @reason AS reason FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
      EXEC @schema@._audit 'request_hand_over', @scope, @actor, @detail;
      SET @requested = 1;
    END
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
  SELECT @requested AS requested, @holder AS owner_id, @term AS term, @schema@._ms(@leave) AS leave_before_ms, @leave AS leave_before;
END
GO
-- state: asked (the holder has not left yet), left (the successor may take the lease), taken (by next_owner), over (nobody has taken it in
-- time). gap_ms: how long nobody held the lease.
CREATE VIEW @schema@.hand_over_status AS
  SELECT h.scope_key, h.scope, h.owner_id, h.term, h.successor, h.requested_by, h.reason, @schema@._ms(h.requested_at) AS requested_at_ms, @schema@._ms(h.leave_before) AS leave_before_ms,
         @schema@._ms(ISNULL(h.left_at, CASE WHEN h.taken_at IS NULL AND l.term = h.term THEN l.released_at END)) AS left_at_ms, h.next_owner, h.next_term, @schema@._ms(h.taken_at) AS taken_at_ms,
         DATEDIFF_BIG(millisecond, h.ended_at, h.taken_at) AS gap_ms,
         CASE WHEN h.taken_at IS NOT NULL THEN 'taken' WHEN l.term IS NULL OR l.term <> h.term OR h.leave_before <= SYSUTCDATETIME() THEN 'over' WHEN l.released_at IS NOT NULL THEN 'left' ELSE 'asked' END AS state
    FROM @schema@.hand_overs h LEFT JOIN @schema@.leases l ON l.scope_key = h.scope_key;
GO
DECLARE @text nvarchar(max);
SET @text = N'GRANT EXECUTE ON @schema@.request_hand_over TO ' + QUOTENAME(@schema_lit@ + N'_lead') + N'; GRANT SELECT ON @schema@.hand_over_status TO ' + QUOTENAME(@schema_lit@ + N'_read');
EXEC(@text);
GO
