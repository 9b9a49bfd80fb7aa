-- Runs before all files of install/, in their transaction. Parameters: none. @own_objects@ is what install/ creates. Locks: those of DROP,
-- for at most 10 s each: a session that is frozen in a transaction must not block an upgrade, and everybody queued after it, for ever.
-- Records who may call what, so that no upgrade takes a grant away (after_install.sql), and drops procedures, views and functions, which
-- the files create again. Tables stay.
SET LOCK_TIMEOUT 10000;
GO
IF OBJECT_ID(N'tempdb..#termgate_grants') IS NOT NULL DROP TABLE #termgate_grants;
CREATE TABLE #termgate_grants (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY, name nvarchar(128) NOT NULL, line nvarchar(1000) NOT NULL);
GO
IF SERVERPROPERTY('Babelfish') IS NULL
  INSERT INTO #termgate_grants (name, line)
  SELECT o.name, CASE g.state WHEN 'D' THEN N'DENY ' ELSE N'GRANT ' END + g.permission_name COLLATE DATABASE_DEFAULT + N' ON @schema@.' + QUOTENAME(o.name) COLLATE DATABASE_DEFAULT + N' TO ' + QUOTENAME(u.name) COLLATE DATABASE_DEFAULT + CASE g.state WHEN 'W' THEN N' WITH GRANT OPTION' ELSE N'' END
    FROM sys.database_permissions g JOIN sys.objects o ON o.object_id = g.major_id JOIN sys.database_principals u ON u.principal_id = g.grantee_principal_id
   WHERE g.class = 1 AND g.minor_id = 0 AND o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type IN ('P', 'V', 'FN') AND o.name IN (@own_objects@) AND o.name <> N'_adopted_row'
     -- Level write had adopt in earlier versions, and has it no more.
     AND NOT (o.name = N'adopt' AND u.name = CONCAT(@schema_lit@, N'_write'));
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = o.object_id, @text = N'DROP ' + CASE o.type WHEN 'P' THEN N'PROCEDURE' WHEN 'V' THEN N'VIEW' END + N' @schema@.' + QUOTENAME(o.name) FROM sys.objects o
   WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type IN ('P', 'V') AND o.object_id < @id AND o.name IN (@own_objects@) ORDER BY o.object_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = o.object_id, @text = N'DROP FUNCTION @schema@.' + QUOTENAME(o.name) FROM sys.objects o
   WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type = 'FN' AND o.object_id < @id AND o.name IN (@own_objects@) ORDER BY o.object_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
