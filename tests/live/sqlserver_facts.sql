-- What sql/sqlserver/ believes of the server, asked one by one: sqlcmd -S HOST -U sa -d DATABASE -i tests/live/sqlserver_facts.sql
-- Prints "ok" or "WRONG" and the fact. Leaves nothing behind. Needs a database in which the login is db_owner; 8 and 9 also VIEW SERVER STATE.
SET NOCOUNT ON;
GO
-- 1. Why names are compared as varbinary: blanks at the end do not count, under a binary collation either.
SELECT CASE WHEN N'a' COLLATE Latin1_General_BIN2 = N'a ' COLLATE Latin1_General_BIN2 AND CONVERT(varbinary(800), N'a') <> CONVERT(varbinary(800), N'a ') THEN 'ok' ELSE 'WRONG' END AS verdict, '1 trailing blanks' AS fact;
SELECT CASE WHEN CONVERT(varbinary(800), N'A') <> CONVERT(varbinary(800), N'a') AND DATALENGTH(N'a ') = 4 THEN 'ok' ELSE 'WRONG' END AS verdict, '2 case, DATALENGTH' AS fact;
GO
-- 3. A message with a percent sign comes out as it was thrown.
BEGIN TRY
  DECLARE @message nvarchar(2048) = N'TG005 100% of %d and %%';
  THROW 50005, @message, 1;
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 50005 AND ERROR_MESSAGE() = N'TG005 100% of %d and %%' THEN 'ok' ELSE 'WRONG' END AS verdict, '3 THROW and %: ' + ERROR_MESSAGE() AS fact;
END CATCH
GO
-- 4. The isolation level that a procedure sets ends with it.
CREATE PROCEDURE #level AS SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
GO
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
EXEC #level;
SELECT CASE WHEN transaction_isolation_level = 4 THEN 'ok' ELSE 'WRONG' END AS verdict, '4 the level after a procedure' AS fact FROM sys.dm_exec_sessions WHERE session_id = @@SPID;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DROP PROCEDURE #level;
GO
-- 5. A lock of the session and one of the transaction, on one resource, of one session: _raise works under the session's exclusive lock, and takes the mark by the transaction.
DECLARE @rc int;
EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 100;
SELECT CASE WHEN @rc >= 0 AND APPLOCK_MODE(N'public', N'termgate facts', N'Session') = N'Exclusive' AND APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') = N'NoLock' THEN 'ok' ELSE 'WRONG' END AS verdict,
       '5 APPLOCK_MODE by owner, outside a transaction' AS fact;
EXEC sp_releaseapplock @Resource = N'termgate facts', @LockOwner = N'Session';
SELECT CASE WHEN APPLOCK_MODE(N'public', N'termgate facts', N'Session') = N'NoLock' THEN 'ok' ELSE 'WRONG' END AS verdict, '6 given back' AS fact;
GO
-- 7. A transaction's lock ends with it, and APPLOCK_TEST can be asked before one is taken.
BEGIN TRANSACTION;
DECLARE @rc int;
EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 100;
SELECT CASE WHEN @rc >= 0 AND APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') = N'Shared' AND APPLOCK_TEST(N'public', N'termgate facts 2', N'Shared', N'Transaction') = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '7 shared, and a test' AS fact;
-- 8. Others see 32 characters of the name, in brackets.
SELECT CASE WHEN COUNT(*) = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '8 resource_description' AS fact
  FROM sys.dm_tran_locks WHERE resource_type = N'APPLICATION' AND request_session_id = @@SPID AND CHARINDEX(N'[termgate facts]', resource_description) > 0;
COMMIT TRANSACTION;
SELECT CASE WHEN COUNT(*) = 0 THEN 'ok' ELSE 'WRONG' END AS verdict, '9 gone with the transaction' AS fact FROM sys.dm_tran_locks WHERE resource_type = N'APPLICATION' AND request_session_id = @@SPID;
GO
-- 10. What a savepoint takes back: either answer is safe, for the trigger and the next check ask again; it is told for the record.
BEGIN TRANSACTION;
SAVE TRANSACTION one;
EXEC sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 100;
ROLLBACK TRANSACTION one;
SELECT 'ok' AS verdict, '10 after ROLLBACK TRANSACTION to a savepoint the lock is ' + APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') AS fact;
COMMIT TRANSACTION;
GO
-- 11. XACT_ABORT: an error in a called procedure leaves no transaction behind.
SET XACT_ABORT ON;
BEGIN TRANSACTION;
GO
THROW 50001, 'TG001 stale term 1 for scope "x": the fence stands at 2', 1;
GO
SELECT CASE WHEN @@TRANCOUNT = 0 THEN 'ok' ELSE 'WRONG' END AS verdict, '11 THROW under XACT_ABORT rolls back' AS fact;
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
GO
-- 12. KILL is refused inside a transaction (6115): why a raise there cannot evict.
BEGIN TRANSACTION;
GO
BEGIN TRY
  EXEC(N'KILL 32767');
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 6115 THEN 'ok' ELSE 'WRONG' END AS verdict, '12 KILL in a transaction: ' + ERROR_MESSAGE() AS fact;
END CATCH
GO
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
GO
-- 13. What the gate rests on: a lock of the session outlives COMMIT, ROLLBACK and an error under XACT_ABORT.
SET XACT_ABORT ON;
DECLARE @rc int;
EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Session', @LockTimeout = 100;
BEGIN TRANSACTION;
COMMIT TRANSACTION;
BEGIN TRANSACTION;
ROLLBACK TRANSACTION;
BEGIN TRANSACTION;
GO
THROW 50001, 'TG001 stale term 1 for scope "x": the fence stands at 2', 1;
GO
SELECT CASE WHEN @@TRANCOUNT = 0 AND APPLOCK_MODE(N'public', N'termgate facts', N'Session') = N'Shared' THEN 'ok' ELSE 'WRONG' END AS verdict, '13 a lock of the session outlives transactions' AS fact;
EXEC sp_releaseapplock @Resource = N'termgate facts', @LockOwner = N'Session';
GO
-- 14 to 16. What a procedure SETs ends with it; with XACT_ABORT OFF in it a caught THROW leaves the caller's transaction as it was; it begins none under IMPLICIT_TRANSACTIONS.
CREATE PROCEDURE dbo.termgate_facts AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  DECLARE @one int;
  SELECT @one = COUNT(*) FROM sys.schemas;
  BEGIN TRY
    THROW 50001, 'TG001 stale term 1 for scope "x": the fence stands at 2', 1;
  END TRY
  BEGIN CATCH
    SET @one = ERROR_NUMBER();
  END CATCH
END
GO
SET XACT_ABORT ON;
BEGIN TRANSACTION;
EXEC dbo.termgate_facts;
SELECT CASE WHEN @@TRANCOUNT = 1 AND XACT_STATE() = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '14 a THROW that is caught under XACT_ABORT OFF' AS fact;
ROLLBACK TRANSACTION;
SET IMPLICIT_TRANSACTIONS ON;
EXEC dbo.termgate_facts;
SELECT CASE WHEN @@TRANCOUNT = 0 THEN 'ok' ELSE 'WRONG' END AS verdict, '15 no transaction under IMPLICIT_TRANSACTIONS' AS fact;
SELECT CASE WHEN (@@OPTIONS / 2) % 2 = 1 AND (@@OPTIONS / 16384) % 2 = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '16 what a procedure SETs ends with it' AS fact;
GO
-- 17. How check_in_transaction.sql begins the transaction that the driver is waiting to begin.
DECLARE @none int;
SELECT @none = COUNT(*) FROM sys.schemas WHERE 1 = 0;
SELECT CASE WHEN @@TRANCOUNT = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '17 reading a table begins an implicit transaction' AS fact;
ROLLBACK TRANSACTION;
SET IMPLICIT_TRANSACTIONS OFF;
GO
DROP PROCEDURE dbo.termgate_facts;
GO
