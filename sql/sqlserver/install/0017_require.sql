-- A deadline for a write: the lease must last until the moment of this call. SQL Server runs nothing at the end of a transaction. So if
-- this is the last call before COMMIT, the lease had not ended then; COMMIT itself does not test it. Parameters: none. Locks: those of
-- CREATE.
DROP PROCEDURE IF EXISTS @schema@.require_lease;
GO
-- require_lease(scope, owner) → one row: expires_at_ms, remaining_ms. 50007 if the lease is not this owner's, or has ended by the server's
-- clock. It keeps no lock on the lease: the check's lock keeps others from acquiring it until the end of the transaction. In a transaction,
-- call it again as the last statement.
-- Locks: row first_read S statement
-- Locks: row leases S statement
CREATE PROCEDURE @schema@.require_lease @scope nvarchar(4000), @owner nvarchar(4000) AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @expires datetime2(3), @released datetime2(3), @holder nvarchar(400), @message nvarchar(2048), @now datetime2(3);
  IF @@TRANCOUNT > 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_owner @owner;
  SELECT @holder = l.owner_id, @expires = l.expires_at, @released = l.released_at FROM @schema@.leases l WITH (READCOMMITTEDLOCK) WHERE l.scope_key = CONVERT(varbinary(800), @scope);
  SET @now = SYSUTCDATETIME();
  IF @holder IS NULL OR CONVERT(varbinary(800), @holder) <> CONVERT(varbinary(800), @owner) OR @released IS NOT NULL OR @expires <= @now
  BEGIN
    SET @message = CONCAT(N'TG007 the lease of scope "', @scope, N'" is not held by ', @owner, CASE WHEN @holder IS NULL THEN N': it has never been acquired'
      WHEN CONVERT(varbinary(800), @holder) <> CONVERT(varbinary(800), @owner) THEN CONCAT(N': ', @holder, N' has it') WHEN @released IS NOT NULL THEN N' any more: it was given back' ELSE N' any more: it has ended' END);
    EXEC @schema@._throw 50007, @message;
  END
  SELECT @schema@._ms(@expires) AS expires_at_ms, DATEDIFF_BIG(millisecond, @now, @expires) AS remaining_ms;
END
GO
DECLARE @text nvarchar(max);
SET @text = N'GRANT EXECUTE ON @schema@.require_lease TO ' + QUOTENAME(@schema_lit@ + N'_write');
EXEC(@text);
GO
