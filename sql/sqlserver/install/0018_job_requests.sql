-- Runs that somebody requests. A request is an open run with term 0. The next leader of its scope that answers requests begins it. It is
-- shown as requested (0006). Parameters: none. Locks: those of CREATE. Keeps F1: a run begins under a term that passes the check.
DROP PROCEDURE IF EXISTS @schema@.job_request;
DROP PROCEDURE IF EXISTS @schema@.job_take;
GO
-- job_request(job_name, scope, kind, actor, reason) → one row: requested, run_id. kind is run, dry-run or resume; its meaning is up to the
-- command that answers. requested 0: run_id has been requested already, and nothing was changed. The request stays until it is begun or
-- cancelled (job_finish). The lease's lock keeps two requests apart.
-- Locks: row first_read S statement
-- Locks: row job_runs S statement
CREATE PROCEDURE @schema@.job_request @job_name nvarchar(4000), @scope nvarchar(4000), @kind nvarchar(20) = N'run', @actor nvarchar(4000) = NULL, @reason nvarchar(4000) = NULL AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @requested bit = 0, @run_id bigint, @detail nvarchar(max);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  IF @actor IS NULL SET @actor = ORIGINAL_LOGIN();
  IF @reason IS NULL SET @reason = N'by hand';
  EXEC @schema@._need_scope @job_name, N'job';
  EXEC @schema@._need_scope @scope;
  IF @kind IS NULL OR @kind NOT IN (N'run', N'dry-run', N'resume') THROW 50005, 'TG005 a job is asked to run, to dry-run or to resume', 1;
  EXEC @schema@._need_reason @actor, @reason;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._lease_lock @scope, @key;
    SELECT @run_id = j.run_id FROM @schema@.job_runs j WITH (READCOMMITTEDLOCK) WHERE j.scope_key = @key AND CONVERT(varbinary(800), j.job_name) = CONVERT(varbinary(800), @job_name) AND j.status = 'started' AND j.term = 0;
    IF @run_id IS NULL
    BEGIN
      SET @detail = CONCAT(N'requested by ', @actor, N': ', @reason);
      INSERT INTO @schema@.job_runs (job_name, scope_key, scope, owner_id, term, detail, started_by, request) VALUES (@job_name, @key, @scope, N'', 0, @detail, ORIGINAL_LOGIN(), @kind);
      SET @run_id = SCOPE_IDENTITY();
      SET @detail = (SELECT @job_name AS job, @run_id AS run_id, @kind AS kind, @reason AS reason FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
      EXEC @schema@._audit 'request_job', @scope, @actor, @detail;
      SET @requested = 1;
    END
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
  SELECT @requested AS requested, @run_id AS run_id;
END
GO
-- job_take(job_name, scope, owner, term) → one row: run_id, kind. Begins the requested run, as job_start begins one. NULL: none is
-- requested, or another session is working on it.
-- Locks: row first_read S statement
-- Locks: row job_runs X transaction
CREATE PROCEDURE @schema@.job_take @job_name nvarchar(4000), @scope nvarchar(4000), @owner nvarchar(4000), @term bigint AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @fence bigint, @own bit, @run_id bigint, @kind varchar(7);
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_scope @job_name, N'job';
  EXEC @schema@._need_owner @owner;
  IF @own = 1 EXEC @schema@.check_term @scope, @term, @fence OUTPUT;
  IF @own = 1 BEGIN TRANSACTION;
  EXEC @schema@._job_begin @job_name, @scope, @term;
  UPDATE @schema@.job_runs WITH (READPAST, READCOMMITTEDLOCK) SET owner_id = @owner, term = @term, started_at = SYSUTCDATETIME(), last_heartbeat = SYSUTCDATETIME(), started_by = ORIGINAL_LOGIN(), @run_id = run_id, @kind = request
   WHERE scope_key = CONVERT(varbinary(800), @scope) AND CONVERT(varbinary(800), job_name) = CONVERT(varbinary(800), @job_name) AND status = 'started' AND term = 0;
  IF @own = 1 COMMIT TRANSACTION;
  SELECT @run_id AS run_id, @kind AS kind;
END
GO
DECLARE @text nvarchar(max);
SET @text = N'GRANT EXECUTE ON @schema@.job_request TO ' + QUOTENAME(@schema_lit@ + N'_lead') + N'; GRANT EXECUTE ON @schema@.job_take TO ' + QUOTENAME(@schema_lit@ + N'_write');
EXEC(@text);
GO
