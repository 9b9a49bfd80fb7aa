-- Tests what Termgate's SQL assumes about the server, statement by statement. For a database of Microsoft's SQL Server 2016 SP1 or later in
-- which the login is db_owner, preferably a scratch one. It creates objects named termgate_facts… in dbo and drops them again.
--
--   sqlcmd -I -S HOST -U sa -P … -d SCRATCH -i sql/sqlserver/facts.sql
--
-- Each line is ok or WRONG, the number and the fact; "left out" if the login or the edition cannot test it. WRONG means that a promise
-- rests on a false assumption: open an issue with the line and the output of SELECT @@VERSION. Some facts need VIEW SERVER STATE; 34 to 36,
-- 82 and 88 create users. Takes some seconds. What needs two sessions or a restore is at the end, to be done by hand.
SET NOCOUNT ON;
SET XACT_ABORT OFF;
GO
IF SERVERPROPERTY('Babelfish') IS NOT NULL PRINT 'this is Babelfish: what it answers says nothing of Microsoft''s server';
SELECT 'info' AS verdict, CONCAT('0 ', CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(60)), ', edition ', CAST(SERVERPROPERTY('EngineEdition') AS nvarchar(10)), ', READ_COMMITTED_SNAPSHOT ',
       CASE d.is_read_committed_snapshot_on WHEN 1 THEN 'ON' ELSE 'OFF' END, ', ALLOW_SNAPSHOT_ISOLATION ', d.snapshot_isolation_state_desc) AS fact FROM sys.databases d WHERE d.database_id = DB_ID();
GO
CREATE TABLE dbo.termgate_facts (id int NOT NULL PRIMARY KEY, n int NOT NULL, note nvarchar(100) NULL);
CREATE INDEX termgate_facts_n ON dbo.termgate_facts (id) INCLUDE (note);
INSERT INTO dbo.termgate_facts (id, n) VALUES (10, 1), (20, 2), (30, 3);
GO
-- Names and bytes
SELECT CASE WHEN N'a' COLLATE Latin1_General_BIN2 = N'a ' COLLATE Latin1_General_BIN2 AND CONVERT(varbinary(800), N'a') <> CONVERT(varbinary(800), N'a ') THEN 'ok' ELSE 'WRONG' END AS verdict, '1 trailing blanks do not count in a binary collation, but in varbinary' AS fact;
SELECT CASE WHEN CONVERT(varbinary(800), N'A') <> CONVERT(varbinary(800), N'a') AND DATALENGTH(N'a ') = 4 THEN 'ok' ELSE 'WRONG' END AS verdict, '2 case counts in varbinary; DATALENGTH counts blanks' AS fact;
SELECT 'info' AS verdict, CONCAT('3 0x61 and 0x6100 are ', CASE WHEN 0x61 = 0x6100 THEN 'equal' ELSE 'different' END, ' (no name holds a NUL, so either is safe)') AS fact;
GO
-- THROW and errors
BEGIN TRY
  DECLARE @message nvarchar(2048) = REPLACE(N'TG005 100% of %d and %', N'%', N'%%');
  THROW 50005, @message, 1;
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 50005 AND ERROR_MESSAGE() = N'TG005 100% of %d and %' THEN 'ok' ELSE 'WRONG' END AS verdict, '4 THROW of a doubled percent sign shows one: ' + ERROR_MESSAGE() AS fact;
END CATCH
GO
CREATE PROCEDURE dbo.termgate_facts_late AS
BEGIN
  DECLARE @number int = ERROR_NUMBER();
  IF @number = 8134 THROW 50006, 'TG006 seen', 1;
END
GO
BEGIN TRY
  BEGIN TRY
    DECLARE @zero int = 0;
    SET @zero = 1 / @zero;
  END TRY
  BEGIN CATCH
    EXEC dbo.termgate_facts_late;
    THROW;
  END CATCH
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 50006 THEN 'ok' ELSE 'WRONG' END AS verdict, '5 a procedure called in CATCH sees the error and may throw another' AS fact;
END CATCH
GO
DROP PROCEDURE dbo.termgate_facts_late;
GO
-- What a procedure sets ends with it
CREATE PROCEDURE dbo.termgate_facts_sets AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @one int;
  SELECT @one = COUNT(*) FROM dbo.termgate_facts;
  BEGIN TRY
    THROW 50001, 'TG001 stale term 1 for scope "x": the fence stands at 2', 1;
  END TRY
  BEGIN CATCH
    SET @one = ERROR_NUMBER();
  END CATCH
END
GO
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
SET LOCK_TIMEOUT 123;
SET ROWCOUNT 1;
EXEC dbo.termgate_facts_sets;
DECLARE @rows int = (SELECT COUNT(*) FROM (SELECT TOP (3) id FROM dbo.termgate_facts) t), @level int, @timeout int = @@LOCK_TIMEOUT, @copied int;
DECLARE @copy TABLE (id int NOT NULL);
INSERT INTO @copy SELECT id FROM dbo.termgate_facts;
SET @copied = @@ROWCOUNT;
SET ROWCOUNT 0;
SELECT @level = transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID;
SELECT CASE WHEN @level = 4 THEN 'ok' ELSE 'WRONG' END AS verdict, '6 the isolation level that a procedure sets ends with it' AS fact;
SELECT CASE WHEN @timeout = 123 THEN 'ok' ELSE 'WRONG' END AS verdict, '7 LOCK_TIMEOUT that a procedure sets ends with it' AS fact;
SELECT CASE WHEN @copied = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '8 ROWCOUNT that a procedure sets ends with it, and the caller''s cuts an INSERT' AS fact;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCK_TIMEOUT -1;
GO
SET XACT_ABORT ON;
BEGIN TRANSACTION;
EXEC dbo.termgate_facts_sets;
SELECT CASE WHEN @@TRANCOUNT = 1 AND XACT_STATE() = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '9 a THROW that is caught under XACT_ABORT OFF leaves the caller''s transaction alone' AS fact;
ROLLBACK TRANSACTION;
SET IMPLICIT_TRANSACTIONS ON;
EXEC dbo.termgate_facts_sets;
SELECT CASE WHEN @@TRANCOUNT = 0 AND (@@OPTIONS / 2) % 2 = 1 AND (@@OPTIONS / 16384) % 2 = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '10 a procedure that sets IMPLICIT_TRANSACTIONS OFF begins none, and its SETs end with it' AS fact;
DECLARE @none int;
SELECT @none = t.n FROM dbo.termgate_facts t WHERE t.id = 10;
SELECT CASE WHEN @@TRANCOUNT = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '11 reading a table begins an implicit transaction' AS fact;
ROLLBACK TRANSACTION;
SET IMPLICIT_TRANSACTIONS OFF;
SET XACT_ABORT OFF;
GO
DROP PROCEDURE dbo.termgate_facts_sets;
GO
-- Application locks
BEGIN TRY
  DECLARE @rc int, @answer nvarchar(32);
  IF 1 = 0 SET @answer = APPLOCK_MODE(N'public', N'termgate facts', N'Transaction');
  EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 100;
  SELECT CASE WHEN @rc >= 0 AND APPLOCK_MODE(N'public', N'termgate facts', N'Session') = N'Exclusive' THEN 'ok' ELSE 'WRONG' END AS verdict, '12 a lock of the session, outside a transaction' AS fact;
  EXEC sp_releaseapplock @Resource = N'termgate facts', @LockOwner = N'Session';
  SELECT CASE WHEN APPLOCK_MODE(N'public', N'termgate facts', N'Session') = N'NoLock' THEN 'ok' ELSE 'WRONG' END AS verdict, '13 given back' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, '12 and 13: ' + ERROR_MESSAGE() AS fact;
END CATCH
GO
BEGIN TRY
  DECLARE @answer nvarchar(32) = APPLOCK_MODE(N'public', N'termgate facts', N'Transaction');
  SELECT 'info' AS verdict, '14 APPLOCK_MODE for a transaction outside one answers ' + @answer AS fact;
END TRY
BEGIN CATCH
  SELECT 'info' AS verdict, CONCAT('14 APPLOCK_MODE for a transaction outside one is error ', ERROR_NUMBER(), ' (why it is never asked there)') AS fact;
END CATCH
GO
BEGIN TRANSACTION;
DECLARE @rc int;
EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 100;
SELECT CASE WHEN @rc >= 0 AND APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') = N'Shared' AND APPLOCK_TEST(N'public', N'termgate facts 2', N'Shared', N'Transaction') = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '15 a lock of the transaction, and a test' AS fact;
IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1
  EXEC(N'SELECT CASE WHEN COUNT(*) = 1 AND MAX(request_status) = N''GRANT'' THEN ''ok'' ELSE ''WRONG'' END AS verdict, CONCAT(''16 others see 32 characters of the name in brackets; request_status is '', MAX(request_status)) AS fact
    FROM sys.dm_tran_locks WHERE resource_type = N''APPLICATION'' AND request_session_id = @@SPID AND CHARINDEX(N''[termgate facts]'', resource_description) > 0');
ELSE SELECT 'left out' AS verdict, '16 resource_description' AS fact;
COMMIT TRANSACTION;
GO
BEGIN TRANSACTION;
SAVE TRANSACTION one;
EXEC sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 100;
ROLLBACK TRANSACTION one;
SELECT 'info' AS verdict, '17 after ROLLBACK TRANSACTION to a savepoint the lock is ' + APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') + ' (either is safe)' AS fact;
COMMIT TRANSACTION;
GO
SET XACT_ABORT ON;
DECLARE @rc int;
EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Session', @LockTimeout = 100;
BEGIN TRANSACTION;
GO
THROW 50001, 'TG001 stale term 1 for scope "x": the fence stands at 2', 1;
GO
SELECT CASE WHEN @@TRANCOUNT = 0 THEN 'ok' ELSE 'WRONG' END AS verdict, '18 THROW under XACT_ABORT rolls back' AS fact;
SELECT CASE WHEN APPLOCK_MODE(N'public', N'termgate facts', N'Session') = N'Shared' THEN 'ok' ELSE 'WRONG' END AS verdict, '19 a lock of the session outlives the transaction' AS fact;
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
EXEC sp_releaseapplock @Resource = N'termgate facts', @LockOwner = N'Session';
SET XACT_ABORT OFF;
GO
CREATE PROCEDURE dbo.termgate_facts_chunks AS
BEGIN
  COMMIT TRANSACTION;
  BEGIN TRANSACTION;
END
GO
BEGIN TRANSACTION;
EXEC sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 100;
EXEC dbo.termgate_facts_chunks;
SELECT CASE WHEN @@TRANCOUNT = 1 AND APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') = N'NoLock' THEN 'ok' ELSE 'WRONG' END AS verdict, '20 a procedure that commits and begins again leaves TRANCOUNT 1, and the lock of the first transaction is gone' AS fact;
ROLLBACK TRANSACTION;
DROP PROCEDURE dbo.termgate_facts_chunks;
GO
-- KILL
BEGIN TRANSACTION;
GO
BEGIN TRY
  EXEC(N'KILL 32767');
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 6115 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('21 KILL in a transaction is refused with ', ERROR_NUMBER()) AS fact;
END CATCH
GO
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
GO
-- Row locks. One session: what it holds is read from sys.dm_tran_locks.
IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1
BEGIN
  BEGIN TRANSACTION;
  DECLARE @n int;
  SELECT @n = t.n FROM dbo.termgate_facts t WITH (UPDLOCK, HOLDLOCK) WHERE t.id = 15;
  EXEC(N'SELECT CASE WHEN COUNT(*) > 0 THEN ''ok'' ELSE ''WRONG'' END AS verdict, ''22 UPDLOCK, HOLDLOCK of a key that is not there locks a range (why neither is used)'' AS fact
    FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N''KEY'' AND request_mode LIKE N''Range%''');
  ROLLBACK TRANSACTION;
  BEGIN TRANSACTION;
  SELECT @n = t.n FROM dbo.termgate_facts t WITH (UPDLOCK, ROWLOCK) WHERE t.id = 15;
  SELECT @n = t.n FROM dbo.termgate_facts t WITH (UPDLOCK, ROWLOCK) WHERE t.id = 10;
  EXEC(N'SELECT CASE WHEN COUNT(*) = 1 AND MAX(request_mode) = N''U'' THEN ''ok'' ELSE ''WRONG'' END AS verdict, ''23 UPDLOCK, ROWLOCK locks the row that is there, nothing where there is none'' AS fact
    FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N''KEY''');
  ROLLBACK TRANSACTION;
  BEGIN TRANSACTION;
  UPDATE dbo.termgate_facts WITH (ROWLOCK) SET n = n + 1 WHERE id = 20;
  EXEC(N'SELECT CASE WHEN COUNT(*) = 1 THEN ''ok'' ELSE ''WRONG'' END AS verdict, ''24 an UPDATE locks the row''''s key, and none of an index whose columns it leaves alone'' AS fact
    FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N''KEY''');
  EXEC(N'SELECT CASE WHEN COUNT(*) = 1 THEN ''ok'' ELSE ''WRONG'' END AS verdict, ''25 %%lockres%% names that key'' AS fact
    FROM sys.dm_tran_locks l WHERE l.request_session_id = @@SPID AND l.resource_type = N''KEY'' AND l.request_mode = N''X'' AND l.resource_description = (SELECT t.%%lockres%% FROM dbo.termgate_facts t WITH (NOLOCK) WHERE t.id = 20)');
  ROLLBACK TRANSACTION;
END
ELSE SELECT 'left out' AS verdict, '22 to 25 need VIEW SERVER STATE' AS fact;
GO
DECLARE @n int;
SELECT @n = t.n FROM dbo.termgate_facts t WITH (INDEX (termgate_facts_n), READPAST, READCOMMITTEDLOCK) WHERE t.id = 10;
SELECT @n = t.n FROM dbo.termgate_facts t WITH (READPAST, READCOMMITTEDLOCK) WHERE t.id = 10;
SELECT CASE WHEN @n = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '26 READPAST goes with READCOMMITTEDLOCK, with READ_COMMITTED_SNAPSHOT ON too' AS fact;
GO
-- Triggers
CREATE TRIGGER dbo.termgate_facts_trigger ON dbo.termgate_facts AFTER INSERT, UPDATE, DELETE AS
BEGIN
  SET NOCOUNT ON;
  SET ROWCOUNT 0;
  DECLARE @none int = TRIGGER_NESTLEVEL(@@PROCID);
  IF @none <> 1 THROW 50005, 'TG005 TRIGGER_NESTLEVEL', 1;
  IF EXISTS (SELECT 1 FROM inserted i WHERE i.note = N'refuse') THROW 50002, 'TG002 refused', 1;
END
GO
BEGIN TRY
  EXEC(N'INSERT INTO dbo.termgate_facts (id, n) OUTPUT inserted.id VALUES (40, 4)');
  SELECT 'WRONG' AS verdict, '27 OUTPUT without INTO on a table with a trigger is error 334' AS fact;
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 334 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('27 OUTPUT without INTO on a table with a trigger is error ', ERROR_NUMBER()) AS fact;
END CATCH
GO
BEGIN TRY
  UPDATE dbo.termgate_facts SET n = n + 1 WHERE id = 10;
  SELECT CASE WHEN @@ROWCOUNT = 1 THEN 'ok' ELSE 'WRONG' END AS verdict, '28 a trigger with SET ROWCOUNT and TRIGGER_NESTLEVEL(its own id) lets a statement be' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('28 ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
BEGIN TRY
  UPDATE dbo.termgate_facts SET note = N'refuse' WHERE id = 10;
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 50002 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('29 a trigger''s THROW reaches the client as ', ERROR_NUMBER()) AS fact;
END CATCH
GO
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
GO
CREATE TABLE dbo.termgate_facts_text (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY, memo text NULL);
INSERT INTO dbo.termgate_facts_text (memo) VALUES ('one');
GO
CREATE TRIGGER dbo.termgate_facts_text_trigger ON dbo.termgate_facts_text AFTER INSERT, UPDATE, DELETE AS
BEGIN
  THROW 50002, 'TG002 refused', 1;
END
GO
BEGIN TRY
  EXEC(N'DECLARE @p varbinary(16); SELECT @p = TEXTPTR(memo) FROM dbo.termgate_facts_text; WRITETEXT dbo.termgate_facts_text.memo @p ''two''');
  SELECT CASE WHEN memo LIKE 'two' THEN 'ok' ELSE 'WRONG' END AS verdict, '30 WRITETEXT changes a row and fires no trigger (why protect refuses such a table)' AS fact FROM dbo.termgate_facts_text;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('30 WRITETEXT: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
DROP TABLE dbo.termgate_facts_text;
GO
CREATE SEQUENCE dbo.termgate_facts_ids AS bigint START WITH 1000;
CREATE TABLE dbo.termgate_facts_log (id bigint NOT NULL PRIMARY KEY DEFAULT (NEXT VALUE FOR dbo.termgate_facts_ids), what nvarchar(10) NULL);
CREATE TABLE dbo.termgate_facts_orders (id int IDENTITY(7, 1) NOT NULL PRIMARY KEY, what nvarchar(10) NULL);
GO
CREATE TRIGGER dbo.termgate_facts_orders_trigger ON dbo.termgate_facts_orders AFTER INSERT AS
BEGIN
  SET NOCOUNT ON;
  INSERT INTO dbo.termgate_facts_log (what) VALUES (N'x');
END
GO
INSERT INTO dbo.termgate_facts_orders (what) VALUES (N'one');
SELECT CASE WHEN @@IDENTITY = 7 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('31 a trigger that numbers by a sequence leaves @@IDENTITY alone: ', @@IDENTITY) AS fact;
GO
BEGIN TRY
  EXEC sp_settriggerorder N'[dbo].[termgate_facts_orders_trigger]', N'First', N'INSERT';
  SELECT 'ok' AS verdict, '32 sp_settriggerorder takes a name in brackets' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('32 sp_settriggerorder: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
DROP TABLE dbo.termgate_facts_orders;
DROP TABLE dbo.termgate_facts_log;
DROP SEQUENCE dbo.termgate_facts_ids;
GO
-- What other triggers do: an IDENTITY number, and a client's ROWCOUNT with a cascade
CREATE TABLE dbo.termgate_facts_orders (id int IDENTITY(7, 1) NOT NULL PRIMARY KEY, what nvarchar(10) NULL);
CREATE TABLE dbo.termgate_facts_log (id int IDENTITY(1000, 1) NOT NULL PRIMARY KEY, what nvarchar(10) NULL);
CREATE TABLE dbo.termgate_facts_parent (id int NOT NULL PRIMARY KEY);
CREATE TABLE dbo.termgate_facts_child (id int NOT NULL PRIMARY KEY, parent int NOT NULL REFERENCES dbo.termgate_facts_parent (id) ON DELETE CASCADE);
INSERT INTO dbo.termgate_facts_parent (id) VALUES (1);
INSERT INTO dbo.termgate_facts_child (id, parent) VALUES (1, 1), (2, 1), (3, 1);
GO
CREATE TRIGGER dbo.termgate_facts_orders_trigger ON dbo.termgate_facts_orders AFTER INSERT AS
BEGIN
  SET NOCOUNT ON;
  INSERT INTO dbo.termgate_facts_log (what) VALUES (N'x');
END
GO
CREATE TRIGGER dbo.termgate_facts_child_trigger ON dbo.termgate_facts_child AFTER DELETE AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @cut int, @whole int;
  DECLARE @rows TABLE (id int NOT NULL);
  INSERT INTO @rows SELECT d.id FROM deleted d;
  SET @cut = @@ROWCOUNT;
  DELETE FROM @rows;
  SET ROWCOUNT 0;
  DELETE FROM @rows;
  INSERT INTO @rows SELECT d.id FROM deleted d;
  SET @whole = @@ROWCOUNT;
  INSERT INTO dbo.termgate_facts_log (what) VALUES (CONCAT(@cut, N' ', @whole));
END
GO
INSERT INTO dbo.termgate_facts_orders (what) VALUES (N'one');
SELECT CASE WHEN @@IDENTITY = 1000 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('41 a trigger that numbers by IDENTITY changes @@IDENTITY (why none of ours does): ', @@IDENTITY) AS fact;
GO
SET ROWCOUNT 1;
DELETE FROM dbo.termgate_facts_parent;
SET ROWCOUNT 0;
SELECT CASE WHEN l.what = N'1 3' THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('42 a client''s ROWCOUNT 1 cuts what the trigger of a cascade collects, until the trigger sets it to 0 (1 3): ', l.what) AS fact
  FROM dbo.termgate_facts_log l WHERE l.id = (SELECT MAX(k.id) FROM dbo.termgate_facts_log k);
GO
DROP TABLE dbo.termgate_facts_child;
DROP TABLE dbo.termgate_facts_parent;
DROP TABLE dbo.termgate_facts_orders;
DROP TABLE dbo.termgate_facts_log;
GO
-- What an AND evaluates
BEGIN TRY
  DECLARE @zero int = 0, @asked int = 0;
  IF @zero = 1 AND APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') = N'NoLock' SET @asked = 1;
  SELECT 'info' AS verdict, '44 an AND whose left side is false does not ask the right one (nothing rests on it)' AS fact;
END TRY
BEGIN CATCH
  SELECT 'info' AS verdict, CONCAT('44 an AND asks its right side though the left one is false: error ', ERROR_NUMBER(), ' (nothing rests on it)') AS fact;
END CATCH
GO
-- Names in JSON, as renew_leases and gates_wanted read them, at every compatibility level
SELECT CASE WHEN JSON_VALUE(N'{"s":"a\"b\\c\td"}', '$.s') = N'a"b\c' + NCHAR(9) + N'd' THEN 'ok' ELSE 'WRONG' END AS verdict, '45 JSON_VALUE gives a name back as it was before it was escaped' AS fact;
SELECT CASE WHEN ISJSON(N'["a\"b"]') = 1 AND JSON_VALUE(CONCAT(N'[', N' "a\"b" ', N']'), '$[0]') = N'a"b' THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('46 and an element of an array by itself; this database is at compatibility level ', d.compatibility_level) AS fact FROM sys.databases d WHERE d.database_id = DB_ID();
GO
-- TRUNCATE of a table that a foreign key refers to
CREATE TABLE dbo.termgate_facts_anchor (id int NULL REFERENCES dbo.termgate_facts (id));
GO
BEGIN TRY
  EXEC(N'TRUNCATE TABLE dbo.termgate_facts');
  SELECT 'WRONG' AS verdict, '33 TRUNCATE TABLE of a table that a foreign key refers to went through' AS fact;
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 4712 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('33 TRUNCATE TABLE of a table that a foreign key refers to is error ', ERROR_NUMBER()) AS fact;
END CATCH
GO
DROP TABLE dbo.termgate_facts_anchor;
GO
-- Rights: EXECUTE AS, metadata, the role of the locks
CREATE ROLE termgate_facts_role;
CREATE USER termgate_facts_guard WITHOUT LOGIN;
ALTER ROLE termgate_facts_role ADD MEMBER termgate_facts_guard;
GRANT VIEW DEFINITION TO termgate_facts_guard;
GO
CREATE PROCEDURE dbo.termgate_facts_lock WITH EXECUTE AS 'termgate_facts_guard' AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @rc int;
  EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 100, @DbPrincipal = N'termgate_facts_role';
  SELECT CASE WHEN @rc >= 0 AND ORIGINAL_LOGIN() <> N'' AND OBJECT_NAME(OBJECT_ID(N'dbo.termgate_facts')) = N'termgate_facts' THEN 'ok' ELSE 'WRONG' END AS verdict, '34 a procedure that runs as a user without a login takes its role''s lock and sees tables for a user without rights' AS fact;
END
GO
CREATE PROCEDURE dbo.termgate_facts_sees AS
BEGIN
  SET NOCOUNT ON;
  SELECT CASE WHEN OBJECT_NAME(@@PROCID) = N'termgate_facts_sees' AND OBJECT_ID(N'dbo.termgate_facts') IS NULL THEN 'ok' ELSE 'WRONG' END AS verdict, '35 without EXECUTE AS a caller without rights does not see the table' AS fact;
END
GO
BEGIN TRY
  EXEC(N'CREATE USER termgate_facts_user WITHOUT LOGIN; GRANT EXECUTE ON dbo.termgate_facts_lock TO termgate_facts_user; GRANT EXECUTE ON dbo.termgate_facts_sees TO termgate_facts_user');
  BEGIN TRANSACTION;
  EXECUTE AS USER = N'termgate_facts_user';
  EXEC dbo.termgate_facts_lock;
  EXEC dbo.termgate_facts_sees;
  REVERT;
  COMMIT TRANSACTION;
END TRY
BEGIN CATCH
  REVERT;
  SELECT 'WRONG' AS verdict, CONCAT('34 and 35: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
GO
BEGIN TRY
  BEGIN TRANSACTION;
  EXECUTE AS USER = N'termgate_facts_user';
  DECLARE @answer nvarchar(32) = APPLOCK_MODE(N'termgate_facts_role', N'termgate facts', N'Transaction');
  REVERT;
  SELECT 'WRONG' AS verdict, '36 APPLOCK_MODE by a user outside the role answered ' + @answer AS fact;
END TRY
BEGIN CATCH
  REVERT;
  SELECT CASE WHEN ERROR_NUMBER() = 1202 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('36 APPLOCK_MODE by a user outside the role is error ', ERROR_NUMBER(), ' (why _guard runs as termgate_guard)') AS fact;
END CATCH
GO
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
GO
DROP PROCEDURE IF EXISTS dbo.termgate_facts_lock;
DROP PROCEDURE IF EXISTS dbo.termgate_facts_sees;
DROP USER IF EXISTS termgate_facts_user;
DROP USER IF EXISTS termgate_facts_guard;
DROP ROLE IF EXISTS termgate_facts_role;
GO
-- SNAPSHOT: a transaction whose first read was at READ COMMITTED cannot go on reading at SNAPSHOT (3951); one whose first read was at
-- SNAPSHOT can, whatever a procedure did in between
CREATE PROCEDURE dbo.termgate_facts_level AS
BEGIN
  SET NOCOUNT ON;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @n int;
  SELECT @n = t.n FROM dbo.termgate_facts t WITH (READCOMMITTEDLOCK) WHERE t.id = 10;
END
GO
IF (SELECT d.snapshot_isolation_state FROM sys.databases d WHERE d.database_id = DB_ID()) = 1
BEGIN
  DECLARE @n int, @number int = 0;
  SET TRANSACTION ISOLATION LEVEL SNAPSHOT;
  BEGIN TRY
    BEGIN TRANSACTION;
    EXEC dbo.termgate_facts_level;
    SELECT @n = t.n FROM dbo.termgate_facts t WHERE t.id = 10;
  END TRY
  BEGIN CATCH
    SET @number = ERROR_NUMBER();
  END CATCH
  IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
  SELECT CASE WHEN @number = 3951 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('37 a first read at READ COMMITTED ends a SNAPSHOT transaction: error ', @number, ' (why a check reads first_read first)') AS fact;
  SET @number = 0;
  BEGIN TRY
    BEGIN TRANSACTION;
    SELECT @n = t.n FROM dbo.termgate_facts t WHERE t.id = 20;
    EXEC dbo.termgate_facts_level;
    SELECT @n = t.n FROM dbo.termgate_facts t WHERE t.id = 10;
  END TRY
  BEGIN CATCH
    SET @number = ERROR_NUMBER();
  END CATCH
  IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
  SELECT CASE WHEN @number = 0 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('38 a SNAPSHOT transaction that has begun stays one behind a locking read: ', @number) AS fact;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
END
ELSE SELECT 'left out' AS verdict, '37 and 38: ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON, and again' AS fact;
GO
DROP PROCEDURE dbo.termgate_facts_level;
GO
-- The recovery fork
IF OBJECT_ID(N'sys.database_recovery_status') IS NOT NULL
  EXEC(N'SELECT CASE WHEN COUNT(*) = 1 AND MAX(CONVERT(nvarchar(100), recovery_fork_guid)) IS NOT NULL THEN ''ok'' ELSE ''WRONG'' END AS verdict, CONCAT(''39 this login sees the recovery fork: '', MAX(CONVERT(nvarchar(100), recovery_fork_guid))) AS fact
    FROM sys.database_recovery_status WHERE database_id = DB_ID()');
ELSE SELECT 'left out' AS verdict, '39 no sys.database_recovery_status (Azure SQL Database): doctor says so' AS fact;
SELECT CASE WHEN ORIGINAL_DB_NAME() = DB_NAME() THEN 'ok' ELSE 'info' END AS verdict, CONCAT('40 ORIGINAL_DB_NAME is ', ORIGINAL_DB_NAME(), ' (sqlcmd -d: this database)') AS fact;
GO
-- What the installation and doctor run on Microsoft's server and no other engine compiles: the same texts, with names of their own.
-- An error here would also end termgate init, a raise or doctor. Number 84 needs VIEW SERVER STATE, and is left out without it.
CREATE TABLE #termgate_grants (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY, name nvarchar(128) NOT NULL, line nvarchar(1000) NOT NULL);
CREATE TABLE #termgate_found (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY, severity nvarchar(10) NOT NULL, object nvarchar(800) NOT NULL, problem nvarchar(2048) NOT NULL, remedy nvarchar(1000) NOT NULL);
CREATE TABLE dbo.termgate_facts_protected (table_id int NOT NULL PRIMARY KEY, table_name nvarchar(600) NOT NULL);
CREATE TABLE dbo.termgate_facts_adopted (table_id int NOT NULL PRIMARY KEY, table_name nvarchar(600) NOT NULL);
CREATE TABLE dbo.termgate_facts_fences (scope_key varbinary(800) NOT NULL PRIMARY KEY);
CREATE TABLE dbo.termgate_facts_leases (scope_key varbinary(800) NOT NULL PRIMARY KEY);
CREATE TABLE dbo.termgate_facts_incarnation (one int NOT NULL PRIMARY KEY);
CREATE TABLE dbo.termgate_facts_observed (table_name nvarchar(600) NOT NULL, scope nvarchar(400) COLLATE Latin1_General_BIN2 NULL, code varchar(5) NOT NULL, login_name nvarchar(128) NOT NULL, at datetime2(3) NOT NULL);
CREATE TYPE dbo.termgate_facts_payload_batch AS TABLE (position int NOT NULL PRIMARY KEY);
INSERT INTO dbo.termgate_facts_protected (table_id, table_name) VALUES (OBJECT_ID(N'dbo.termgate_facts'), N'[dbo].[termgate_facts]');
INSERT INTO dbo.termgate_facts_fences (scope_key) VALUES (0x78);
GO
BEGIN TRY
  INSERT INTO #termgate_grants (name, line)
  SELECT o.name, CASE g.state WHEN 'D' THEN N'DENY ' ELSE N'GRANT ' END + g.permission_name COLLATE DATABASE_DEFAULT + N' ON dbo.termgate_facts_' + QUOTENAME(o.name) COLLATE DATABASE_DEFAULT + N' TO ' + QUOTENAME(u.name) COLLATE DATABASE_DEFAULT + CASE g.state WHEN 'W' THEN N' WITH GRANT OPTION' ELSE N'' END
  FROM sys.database_permissions g JOIN sys.objects o ON o.object_id = g.major_id JOIN sys.database_principals u ON u.principal_id = g.grantee_principal_id
  WHERE g.class = 1 AND g.minor_id = 0 AND o.schema_id = SCHEMA_ID(N'termgate_facts') AND o.type IN ('P', 'V', 'FN') AND o.name IN (N'termgate_facts') AND o.name <> N'_adopted_row'
  AND NOT (o.name = N'adopt' AND u.name = CONCAT(N'termgate_facts', N'_write'));
  SELECT 'ok' AS verdict, '80 what init notes of the grants compiles: names, rights and roles in one text' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('80 what init notes of the grants: ', ERROR_NUMBER(), N' ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
BEGIN TRY
  EXEC(N'CREATE SCHEMA [termgate_facts] AUTHORIZATION [dbo]');
  EXEC(N'ALTER AUTHORIZATION ON SCHEMA::[termgate_facts] TO [dbo]');
  EXEC(N'DROP SCHEMA [termgate_facts]');
  SELECT 'ok' AS verdict, '81 a schema of dbo''s is made, whoever installs' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('81 a schema of dbo''s: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
BEGIN TRY
  IF DATABASE_PRINCIPAL_ID(N'termgate_guard') IS NULL EXEC(N'CREATE USER [termgate_guard] WITHOUT LOGIN');
  EXEC(N'GRANT SELECT, VIEW DEFINITION, UNMASK TO [termgate_guard]');
  EXEC(N'CREATE ROLE termgate_facts_write');
  DECLARE @text nvarchar(max);
  SET @text = N'GRANT EXECUTE ON TYPE::dbo.termgate_facts_payload_batch TO ' + QUOTENAME(N'termgate_facts' + N'_write');
  EXEC(@text);
  EXEC(N'DROP ROLE termgate_facts_write');
  SELECT 'ok' AS verdict, '82 a user without a login that may read and see definitions and masked values; a grant on a type' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('82 a user without a login, a grant on a type: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
BEGIN TRY
  DECLARE @message nvarchar(2048) = REPLICATE(N'a%', 2000);
  SET @message = REPLACE(LEFT(@message, 2048 - (LEN(@message) - LEN(REPLACE(@message, N'%', N'')))), N'%', N'%%');
  THROW 50005, @message, 1;
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() = 50005 AND LEN(ERROR_MESSAGE()) > 1000 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('83 a long message full of percent signs is thrown with ', LEN(ERROR_MESSAGE()), ' characters') AS fact;
END CATCH
GO
BEGIN TRY
  DECLARE @resource nvarchar(64) = N'tgq:1', @announced nvarchar(20) = N'tga:123456789', @after int = -2147483648, @session int, @login nvarchar(30), @who nvarchar(1000), @raising bigint, @asleep bit, @scope_key varbinary(800) = 0x78;
    EXEC sp_executesql N'
      SELECT TOP (1) @session = l.request_session_id, @login = CONVERT(nvarchar(30), s.login_time, 126),
             @who = CASE WHEN s.session_id IS NULL AND l.request_session_id <= 0 THEN CONCAT(N''a distributed transaction that has lost its session ('', l.request_session_id, N'')'')
                         ELSE CONCAT(N''session '', l.request_session_id, N'' (login '', s.login_name COLLATE DATABASE_DEFAULT, N'', program "'', s.program_name COLLATE DATABASE_DEFAULT, N''", host '', s.host_name COLLATE DATABASE_DEFAULT, N'', '', s.status COLLATE DATABASE_DEFAULT, N'' since '', CONVERT(nvarchar(30), s.last_request_end_time, 126), N'')'') END,
             @asleep = CASE WHEN s.status IN (N''sleeping'', N''idle'', N''idle in transaction'') THEN 1 ELSE 0 END,
             @raising = CASE WHEN s.status NOT IN (N''sleeping'', N''idle'') OR s.open_transaction_count > 0 THEN
               (SELECT MAX(TRY_CAST(SUBSTRING(a.resource_description, CHARINDEX(N''['' + @announced, a.resource_description) + 14, 19) AS bigint)) FROM sys.dm_tran_locks a
                 WHERE a.request_session_id = l.request_session_id AND a.resource_type = N''APPLICATION'' AND a.resource_database_id = DB_ID() AND a.request_status NOT IN (N''WAIT'', N''LOW_PRIORITY_WAIT'')
                   AND CHARINDEX(N''['' + @announced, a.resource_description) > 0) END
        FROM sys.dm_tran_locks l LEFT JOIN sys.dm_exec_sessions s ON s.session_id = l.request_session_id
       WHERE l.resource_type = N''APPLICATION'' AND l.resource_database_id = DB_ID() AND l.request_status NOT IN (N''WAIT'', N''LOW_PRIORITY_WAIT'') AND l.request_session_id <> @@SPID
         AND l.request_session_id > @after AND CHARINDEX(N''['' + LEFT(@resource, 32) + N'']'', l.resource_description) > 0
       ORDER BY l.request_session_id',
      N'@resource nvarchar(64), @announced nvarchar(20), @after int, @session int OUTPUT, @login nvarchar(30) OUTPUT, @who nvarchar(1000) OUTPUT, @raising bigint OUTPUT, @asleep bit OUTPUT',
      @resource = @resource, @announced = @announced, @after = @after, @session = @session OUTPUT, @login = @login OUTPUT, @who = @who OUTPUT, @raising = @raising OUTPUT, @asleep = @asleep OUTPUT;
    EXEC sp_executesql N'
      SELECT TOP (1) @who = CONCAT(N''session '', l.request_session_id, N'' (login '', s.login_name COLLATE DATABASE_DEFAULT, N'', program "'', s.program_name COLLATE DATABASE_DEFAULT, N''", host '', s.host_name COLLATE DATABASE_DEFAULT, N'', '', s.status COLLATE DATABASE_DEFAULT, N'')'')
        FROM (SELECT OBJECT_ID(N''dbo.termgate_facts_fences'') AS id, f.%%lockres%% AS lock_name FROM dbo.termgate_facts_fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key
              UNION ALL SELECT OBJECT_ID(N''dbo.termgate_facts_leases''), e.%%lockres%% FROM dbo.termgate_facts_leases e WITH (NOLOCK) WHERE e.scope_key = @scope_key
              UNION ALL SELECT OBJECT_ID(N''dbo.termgate_facts_incarnation''), i.%%lockres%% FROM dbo.termgate_facts_incarnation i WITH (NOLOCK)) r
        JOIN sys.partitions p ON p.object_id = r.id AND p.index_id = 1
        JOIN sys.dm_tran_locks l ON l.resource_type = N''KEY'' AND l.resource_database_id = DB_ID() AND l.resource_associated_entity_id = p.hobt_id AND l.resource_description COLLATE DATABASE_DEFAULT = r.lock_name COLLATE DATABASE_DEFAULT
        LEFT JOIN sys.dm_exec_sessions s ON s.session_id = l.request_session_id
       WHERE l.request_session_id <> @@SPID AND l.request_status NOT IN (N''WAIT'', N''LOW_PRIORITY_WAIT'') AND l.request_mode LIKE N''%X%'' ORDER BY l.request_session_id',
      N'@scope_key varbinary(800), @who nvarchar(1000) OUTPUT', @scope_key = @scope_key, @who = @who OUTPUT;
  SELECT 'ok' AS verdict, '84 the text that finds who holds a lock, and the one that finds who holds a row, compile' AS fact;
END TRY
BEGIN CATCH
  SELECT CASE WHEN ERROR_NUMBER() IN (297, 300) THEN 'left out' ELSE 'WRONG' END AS verdict, CONCAT('84 who holds a lock or a row: ', ERROR_NUMBER(), N' ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
BEGIN TRY
  DECLARE @kind nvarchar(100), @table_id int = OBJECT_ID(N'dbo.termgate_facts'), @table int = OBJECT_ID(N'dbo.termgate_facts'), @scope_column nvarchar(128) = N'note', @collation nvarchar(128), @trigger int, @level int;
  SELECT @kind = CASE WHEN t.is_memory_optimized = 1 THEN N'a memory-optimized table, whose triggers are compiled natively'
                        WHEN t.temporal_type = 1 THEN N'the history of a temporal table, which the server writes: take the table itself'
                        WHEN t.is_external = 1 THEN N'an external table' WHEN t.is_filetable = 1 THEN N'a FileTable, which files reach without a statement' END
      FROM sys.tables t WHERE t.object_id = @table_id;
  SELECT @collation = c.collation_name FROM sys.columns c WHERE c.object_id = @table AND c.name = @scope_column AND c.system_type_id = 167;
  SELECT @trigger = t.object_id FROM sys.triggers t WHERE t.parent_id = @table_id AND t.name = CONCAT(N'termgate_facts', N'_adopt_', @table_id);
    SET @level = TRIGGER_NESTLEVEL(@trigger);
  SELECT CASE WHEN @kind IS NULL AND @collation IS NULL AND ISNULL(@level, 0) = 0 THEN 'ok' ELSE 'WRONG' END AS verdict, '85 what protect and adopt ask of a table and its triggers' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('85 what protect and adopt ask: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
BEGIN TRY
  DECLARE @trigger nvarchar(300) = N'[dbo].[termgate_facts_trigger]';
  EXEC sp_executesql N'EXEC sp_settriggerorder @trigger, ''First'', ''INSERT''; EXEC sp_settriggerorder @trigger, ''First'', ''UPDATE''; EXEC sp_settriggerorder @trigger, ''First'', ''DELETE''',
                       N'@trigger nvarchar(300)', @trigger = @trigger;
  SELECT 'ok' AS verdict, '86 a trigger is put in front of the others for all three statements' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('86 sp_settriggerorder: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
BEGIN TRY
  DECLARE @edition int = CAST(SERVERPROPERTY('EngineEdition') AS int), @signed bit = 0;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'error', N'user termgate_guard', N'it has lost its role or its rights: the procedures that run as it do not see all tables and terms', N'run termgate init again'
  WHERE ISNULL(IS_MEMBER(N'termgate_facts' + N'_lock'), 0) = 0 OR ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'SELECT'), 0) = 0 OR ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DEFINITION'), 0) = 0;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT DISTINCT N'error', p.table_name, N'protected, but WRITETEXT and UPDATETEXT change its text, ntext and image columns without firing a trigger', N'ALTER TABLE … ALTER COLUMN … to varchar(max), nvarchar(max) or varbinary(max)'
  FROM dbo.termgate_facts_protected p JOIN sys.columns c ON c.object_id = p.table_id JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE t.name IN (N'text', N'ntext', N'image');
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT DISTINCT N'error', a.table_name, N'adopted, and under a security policy, which can hide terms from the check', N'ALTER SECURITY POLICY … DROP FILTER PREDICATE, or dbo.termgate_facts_unadopt'
  FROM dbo.termgate_facts_adopted a JOIN sys.security_predicates q ON q.target_object_id = a.table_id JOIN sys.security_policies y ON y.object_id = q.object_id WHERE y.is_enabled = 1;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'info', p.table_name, N'its triggers make INSERT, UPDATE and DELETE with OUTPUT and without INTO end with error 334', N'tell the clients: HasTrigger (EF Core), implicit_returning=False (SQLAlchemy), hasTrigger (Sequelize)'
  FROM dbo.termgate_facts_protected p WHERE OBJECT_NAME(p.table_id) IS NOT NULL;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'warning', p.table_name, N'replicated here: the agent''s writes fire the trigger, too, and stop with 50002', N'let the agent declare scope and term, or do not protect a subscriber''s table'
  FROM dbo.termgate_facts_protected p JOIN sys.tables t ON t.object_id = p.table_id WHERE t.is_replicated = 1 OR t.is_merge_published = 1;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT DISTINCT TOP (100) N'warning', p.table_name, CONCAT(u.name COLLATE DATABASE_DEFAULT, N' has ', g.permission_name COLLATE DATABASE_DEFAULT, N' there, which is enough to disable the trigger or to TRUNCATE the table'), CONCAT(N'REVOKE ', g.permission_name COLLATE DATABASE_DEFAULT, N' from ', u.name COLLATE DATABASE_DEFAULT, N', if it is an application''s')
  FROM dbo.termgate_facts_protected p JOIN sys.tables t ON t.object_id = p.table_id
  JOIN sys.database_permissions g ON (g.class = 1 AND g.major_id = t.object_id) OR (g.class = 3 AND g.major_id = t.schema_id) OR (g.class = 0 AND g.permission_name IN (N'ALTER', N'CONTROL', N'ALTER ANY SCHEMA', N'ALTER ANY DATABASE DDL TRIGGER'))
  JOIN sys.database_principals u ON u.principal_id = g.grantee_principal_id
  WHERE g.state IN ('G', 'W') AND g.permission_name IN (N'ALTER', N'CONTROL', N'TAKE OWNERSHIP', N'ALTER ANY SCHEMA') AND u.name <> N'dbo';
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'warning', CONCAT(N'database ', DB_NAME()), N'its owner is not there (restored from another server, or its login was dropped): procedures of yours that run as the owner end with error 15517 or 15404; Termgate''s do not run as it', CONCAT(N'ALTER AUTHORIZATION ON DATABASE::', QUOTENAME(DB_NAME()), N' TO [sa]')
  FROM sys.databases d JOIN sys.database_principals p ON p.principal_id = 1 WHERE d.database_id = DB_ID() AND @edition <> 5 AND (SUSER_SNAME(d.owner_sid) IS NULL OR SUSER_SNAME(p.sid) IS NULL OR p.sid <> d.owner_sid);
  SELECT @signed = 1 FROM (SELECT COUNT(DISTINCT x.major_id) AS signed FROM sys.crypt_properties x WHERE x.class = 1 AND x.major_id IN (OBJECT_ID(N'dbo.termgate_facts__holder'), OBJECT_ID(N'dbo.termgate_facts__kill'))) q WHERE q.signed = 2;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT TOP (100) N'warning', o.table_name, CONCAT(N'would have been refused in ', COUNT(*), N' minutes with ', o.code, N' (scope "', o.scope COLLATE DATABASE_DEFAULT, N'", login ', o.login_name, N', last at ', CONVERT(nvarchar(30), MAX(o.at), 126), N')'), N'let it declare its scope and term before mode enforce'
    FROM dbo.termgate_facts_observed o GROUP BY o.table_name, o.code, o.scope, o.login_name ORDER BY COUNT(*) DESC;
  SELECT 'ok' AS verdict, '87 what doctor asks of columns, policies, replication, grants, the owner and signatures compiles' AS fact;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('87 what doctor asks: ', ERROR_NUMBER(), N' ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
-- A missing owner stops what runs as the owner, and nothing that runs as a user without a login.
CREATE PROCEDURE dbo.termgate_facts_guarded WITH EXECUTE AS 'termgate_guard' AS
BEGIN
  SET NOCOUNT ON;
  SELECT CASE WHEN USER_NAME() = N'termgate_guard' AND ORIGINAL_LOGIN() <> N'' AND OBJECT_SCHEMA_NAME(OBJECT_ID(N'dbo.termgate_facts')) = N'dbo' AND HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'SELECT') = 1 THEN 'ok' ELSE 'WRONG' END AS verdict,
         '88 a procedure runs as a user without a login, which sees all tables' AS fact;
END
GO
BEGIN TRY
  EXEC dbo.termgate_facts_guarded;
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('88 a procedure that runs as a user without a login: ', ERROR_NUMBER(), N' ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
DROP PROCEDURE IF EXISTS dbo.termgate_facts_guarded;
DROP TABLE IF EXISTS dbo.termgate_facts_protected, dbo.termgate_facts_adopted, dbo.termgate_facts_fences, dbo.termgate_facts_leases, dbo.termgate_facts_incarnation, dbo.termgate_facts_observed;
DROP TYPE IF EXISTS dbo.termgate_facts_payload_batch;
DROP TABLE IF EXISTS #termgate_found, #termgate_grants;
-- If layer 1 is installed its procedures run as this user, so it stays.
IF NOT EXISTS (SELECT 1 FROM sys.sql_modules m WHERE m.execute_as_principal_id = DATABASE_PRINCIPAL_ID(N'termgate_guard')) EXEC(N'DROP USER IF EXISTS [termgate_guard]');
GO
DROP TABLE dbo.termgate_facts;
GO
-- Facts 51 and on need two sessions at once, without layer 1: tests/live/sqlserver/sqlserver_facts_test.py, which also runs this file.
-- By hand
--
-- Two sessions, A and B, in a database with layer 1, once with READ_COMMITTED_SNAPSHOT OFF and once with ON (A: EXEC termgate.acquire_lease N'facts', N'a', 1000;)
--  a. A: BEGIN TRANSACTION; DECLARE @n bigint; EXEC termgate.append N'facts', 1, 0x01, @sequence_no = @n OUTPUT;  and is left alone.
--     B, two seconds later: EXEC termgate.acquire_lease N'facts', N'b', 1000;  has term 2 within a second, and A is ended.
--  b. A: BEGIN TRANSACTION; DECLARE @f bigint; EXEC termgate.check_term N'facts-b', 7, @f OUTPUT;   B: EXEC termgate.seal N'facts-b', 9;  evicted 1.
--  c. A: BEGIN TRANSACTION; EXEC termgate.renew_lease N'facts', N'b', 2, 1000;   B, two seconds later: EXEC termgate.acquire_lease N'facts', N'c', 1000;  has a new term.
--  d. A: BEGIN TRANSACTION; UPDATE termgate.fences SET raised_at = raised_at WHERE scope = N'facts';   B: EXEC termgate.seal N'facts', 9;  50006 after 5 s, with A's session.
-- A third session throughout: DECLARE @n bigint; EXEC termgate.append N'facts-neighbour', 1, 0x01, @sequence_no = @n OUTPUT;  never waits.
-- An attention: sqlcmd -t 1, EXEC termgate.seal N'facts', 99; while a session that cannot be ended holds the scope. Then a check in the
-- same session passes, and the checks of others do too.
-- A pooled connection that was reset (SQL_COPT_SS_RESET_CONNECTION, .NET's pool): SELECT SESSION_CONTEXT(N'termgate.term') is NULL, and the
-- locks of the session are gone.
-- Restores: note number 39; RESTORE to the end, to a point in time, revert to a database snapshot, a planned, an automatic and a forced
-- failover of an availability group. If 39 differs afterwards, EXEC termgate.doctor reports untrusted; if it is the same, an operator must
-- declare it (declare_untrusted).
PRINT 'done';
GO
