-- What an upgrade must change on the owners' tables, and the recovery fork that a new database begins with. Parameters: none. Locks: those
-- of CREATE TRIGGER. First, the triggers of protect and adopt, as this version writes them.
DECLARE @table int = -2147483648, @name nvarchar(600), @scope_column nvarchar(128), @scope nvarchar(400), @mode nvarchar(20), @trigger nvarchar(300), @prefix nvarchar(150);
WHILE 1 = 1
BEGIN
  SET @name = NULL;
  SELECT TOP (1) @table = p.table_id, @name = QUOTENAME(OBJECT_SCHEMA_NAME(p.table_id)) + N'.' + QUOTENAME(OBJECT_NAME(p.table_id)), @scope_column = p.scope_column, @scope = p.scope, @mode = p.mode, @prefix = p.scope_prefix
    FROM @schema@.protected p WHERE p.table_id > @table AND OBJECT_NAME(p.table_id) IS NOT NULL ORDER BY p.table_id;
  IF @name IS NULL BREAK;
  EXEC @schema@._protect_trigger @table, @name, @scope_column, @scope, @mode, @trigger OUTPUT, @prefix;
END
GO
DECLARE @table int = -2147483648, @name nvarchar(600), @scope_column nvarchar(128), @term_column nvarchar(128), @prefix nvarchar(150);
WHILE 1 = 1
BEGIN
  SET @name = NULL;
  SELECT TOP (1) @table = a.table_id, @name = QUOTENAME(OBJECT_SCHEMA_NAME(a.table_id)) + N'.' + QUOTENAME(OBJECT_NAME(a.table_id)), @scope_column = a.scope_column, @term_column = a.term_column, @prefix = a.scope_prefix
    FROM @schema@.adopted a WHERE a.table_id > @table AND OBJECT_NAME(a.table_id) IS NOT NULL ORDER BY a.table_id;
  IF @name IS NULL BREAK;
  EXEC @schema@._adopt_trigger @table, @name, @scope_column, @term_column, @prefix;
END
GO
-- Recorded here, so that no client is the first to record it.
DECLARE @fork nvarchar(100);
IF OBJECT_ID(N'sys.database_recovery_status') IS NOT NULL
  EXEC sp_executesql N'SELECT @fork = CONVERT(nvarchar(100), recovery_fork_guid) FROM sys.database_recovery_status WHERE database_id = DB_ID()', N'@fork nvarchar(100) OUTPUT', @fork = @fork OUTPUT;
UPDATE @schema@.incarnation SET recovery_fork = @fork WHERE recovery_fork IS NULL;
GO
