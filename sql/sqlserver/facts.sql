-- What Termgate's SQL believes of the server, asked statement by statement. For a database of Microsoft's SQL Server 2016 SP1 or later in which the login is db_owner, best a scratch
-- one; it makes objects named termgate_facts… in dbo and takes them away again.
--
--   sqlcmd -I -S HOST -U sa -P … -d SCRATCH -i sql/sqlserver/facts.sql
--
-- Each line says ok or WRONG, the number and the fact; "left out" where the login or the edition cannot ask. A WRONG tells which promise rests on it: open an issue with the line
-- and the output of SELECT @@VERSION. Some facts need VIEW SERVER STATE; number 28 needs a login that may create users. Takes some seconds. What two sessions or a restore
-- are needed for stands at the end, to be done by hand.
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
-- What other triggers do: a number of IDENTITY, and a client's ROWCOUNT with a cascade
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
-- The number of a transaction, and what an AND asks
CREATE PROCEDURE dbo.termgate_facts_chunks AS
BEGIN
  COMMIT TRANSACTION;
  BEGIN TRANSACTION;
END
GO
BEGIN TRY
  EXEC(N'SET NOCOUNT ON; DECLARE @before bigint, @after bigint, @n int; BEGIN TRANSACTION; UPDATE dbo.termgate_facts SET n = n WHERE id = 10; SET @before = CURRENT_TRANSACTION_ID(); EXEC dbo.termgate_facts_chunks;
    UPDATE dbo.termgate_facts SET n = n WHERE id = 10; SET @after = CURRENT_TRANSACTION_ID(); ROLLBACK TRANSACTION;
    SELECT CASE WHEN @before <> @after THEN ''ok'' ELSE ''WRONG'' END AS verdict, ''43 CURRENT_TRANSACTION_ID is another behind COMMIT; BEGIN TRANSACTION in a procedure'' AS fact');
END TRY
BEGIN CATCH
  SELECT 'WRONG' AS verdict, CONCAT('43 CURRENT_TRANSACTION_ID: ', ERROR_MESSAGE()) AS fact;
END CATCH
GO
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
DROP PROCEDURE dbo.termgate_facts_chunks;
GO
BEGIN TRY
  DECLARE @zero int = 0, @asked int = 0;
  IF @zero = 1 AND APPLOCK_MODE(N'public', N'termgate facts', N'Transaction') = N'NoLock' SET @asked = 1;
  SELECT 'info' AS verdict, '44 an AND whose left side is false does not ask the right one (nothing rests on it)' AS fact;
END TRY
BEGIN CATCH
  SELECT 'info' AS verdict, CONCAT('44 an AND asks its right side though the left one is false: error ', ERROR_NUMBER(), ' (nothing rests on it)') AS fact;
END CATCH
GO
-- Names in JSON, as renew_leases and gates_wanted get them
SELECT CASE WHEN JSON_VALUE(N'{"s":"a\"b\\c\td"}', '$.s') = N'a"b\c' + NCHAR(9) + N'd' THEN 'ok' ELSE 'WRONG' END AS verdict, '45 JSON_VALUE gives a name back as it was before it was escaped' AS fact;
SELECT CASE WHEN j.value = N'a"b' THEN 'ok' ELSE 'WRONG' END AS verdict, '46 OPENJSON does, too' AS fact FROM OPENJSON(N'["a\"b"]') j;
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
-- Rights: EXECUTE AS OWNER, metadata, the role of the locks
CREATE PROCEDURE dbo.termgate_facts_lock WITH EXECUTE AS OWNER AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @rc int;
  EXEC @rc = sp_getapplock @Resource = N'termgate facts', @LockMode = N'Shared', @LockOwner = N'Transaction', @LockTimeout = 100, @DbPrincipal = N'termgate_facts_role';
  SELECT CASE WHEN @rc >= 0 AND ORIGINAL_LOGIN() <> N'' AND OBJECT_NAME(OBJECT_ID(N'dbo.termgate_facts')) = N'termgate_facts' THEN 'ok' ELSE 'WRONG' END AS verdict, '34 a procedure WITH EXECUTE AS OWNER takes the role''s lock and sees tables for a user without rights' AS fact;
END
GO
CREATE PROCEDURE dbo.termgate_facts_sees AS
BEGIN
  SET NOCOUNT ON;
  SELECT CASE WHEN OBJECT_NAME(@@PROCID) = N'termgate_facts_sees' AND OBJECT_ID(N'dbo.termgate_facts') IS NULL THEN 'ok' ELSE 'WRONG' END AS verdict, '35 without EXECUTE AS a caller without rights does not see the table' AS fact;
END
GO
BEGIN TRY
  EXEC(N'CREATE ROLE termgate_facts_role; CREATE USER termgate_facts_user WITHOUT LOGIN; GRANT EXECUTE ON dbo.termgate_facts_lock TO termgate_facts_user; GRANT EXECUTE ON dbo.termgate_facts_sees TO termgate_facts_user');
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
  SELECT CASE WHEN ERROR_NUMBER() = 1202 THEN 'ok' ELSE 'WRONG' END AS verdict, CONCAT('36 APPLOCK_MODE by a user outside the role is error ', ERROR_NUMBER(), ' (why _guard runs as the owner)') AS fact;
END CATCH
GO
IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
GO
DROP PROCEDURE IF EXISTS dbo.termgate_facts_lock;
DROP PROCEDURE IF EXISTS dbo.termgate_facts_sees;
DROP USER IF EXISTS termgate_facts_user;
DROP ROLE IF EXISTS termgate_facts_role;
GO
-- SNAPSHOT: a transaction whose first read was at READ COMMITTED cannot read on at SNAPSHOT (3951), one whose first read was at SNAPSHOT can, whatever a procedure did in between
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
DROP TABLE dbo.termgate_facts;
GO
-- By two sessions at once, without layer 1: tests/live/sqlserver_facts_test.py, which runs this file, too (facts 51 and on).
-- By hand
--
-- Two sessions, A and B, in a database with layer 1, once with READ_COMMITTED_SNAPSHOT OFF and once with ON (A: EXEC termgate.acquire_lease N'facts', N'a', 1000;)
--  a. A: BEGIN TRANSACTION; DECLARE @n bigint; EXEC termgate.append N'facts', 1, 0x01, @sequence_no = @n OUTPUT;  and is left alone.
--     B, two seconds later: EXEC termgate.acquire_lease N'facts', N'b', 1000;  has term 2 after about a second, and A is ended.
--  b. A: BEGIN TRANSACTION; DECLARE @f bigint; EXEC termgate.check_term N'facts-b', 7, @f OUTPUT;   B: EXEC termgate.seal N'facts-b', 9;  evicted 1.
--  c. A: BEGIN TRANSACTION; EXEC termgate.renew_lease N'facts', N'b', 2, 1000;   B, two seconds later: EXEC termgate.acquire_lease N'facts', N'c', 1000;  has a new term.
--  d. A: BEGIN TRANSACTION; UPDATE termgate.fences SET raised_at = raised_at WHERE scope = N'facts';   B: EXEC termgate.seal N'facts', 9;  50006 after 5 s, with A's session.
-- A third session throughout: DECLARE @n bigint; EXEC termgate.append N'facts-neighbour', 1, 0x01, @sequence_no = @n OUTPUT;  never waits.
-- An attention: sqlcmd -t 1, EXEC termgate.seal N'facts', 99; behind a session that cannot be ended; then a check in the same session passes, and others' checks do too.
-- A pooled connection that was reset (SQL_COPT_SS_RESET_CONNECTION, .NET's pool): SELECT SESSION_CONTEXT(N'termgate.term') is NULL, the locks of the session are gone.
-- Restores: note number 39; RESTORE to the end, to a point in time, revert to a database snapshot, a planned, an automatic and a forced failover of an availability group. Where 39
-- differs afterwards, EXEC termgate.doctor says untrusted; where it is the same, an operator must say so (declare_untrusted).
PRINT 'done';
GO
