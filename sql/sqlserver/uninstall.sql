-- Removes layer 1: the triggers of protect() and adopt() on the owners' tables, then layer 1's own procedures, views, functions, tables,
-- roles, schema and user. Nothing else is ever dropped. If the schema contains something else, or something else depends on layer 1, it
-- changes nothing and ends with an error that lists each object with the command to run first. Parameters: none. @own_objects@ is what
-- install/ creates; sql/embed.cmake fills it in. Locks: those of DROP. The installer runs it in one transaction. Afterwards no fence is
-- remembered: F3 ends here, on purpose. Members are removed from the roles, and what was granted to the roles goes with them.
-- Objects are handled one by one, because engines differ in what they promise about SELECT @text = @text + …. They are dropped youngest
-- first, because a younger one may refer to an older one. Each id comes once, so that an object that cannot be dropped ends in an error and
-- not in a loop. Each kind has its own loop: one query over all of them would mix catalogs whose collations may differ.
DECLARE @list nvarchar(max) = N'', @line nvarchar(max), @id int = -2147483648, @more int = 0, @query nvarchar(max), @message nvarchar(2048);
WHILE 1 = 1
BEGIN
  SET @line = NULL;
  SELECT TOP (1) @id = o.object_id,
         @line = CASE WHEN o.parent_object_id <> 0 THEN N'DROP TRIGGER @schema@.' + QUOTENAME(o.name) + N';'
                      ELSE N'ALTER SCHEMA [dbo] TRANSFER @schema@.' + QUOTENAME(o.name) + N'; or DROP ' + CASE o.type WHEN 'U' THEN N'TABLE' WHEN 'V' THEN N'VIEW' WHEN 'P' THEN N'PROCEDURE' WHEN 'PC' THEN N'PROCEDURE'
                             WHEN 'SO' THEN N'SEQUENCE' WHEN 'SN' THEN N'SYNONYM' WHEN 'AF' THEN N'AGGREGATE' WHEN 'R' THEN N'RULE' WHEN 'D' THEN N'DEFAULT' WHEN 'SQ' THEN N'QUEUE' ELSE N'FUNCTION' END
                           + N' @schema@.' + QUOTENAME(o.name) + N';' END
    FROM sys.objects o WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND (o.parent_object_id = 0 OR o.type IN ('TR', 'TA')) AND o.object_id > @id AND o.name NOT IN (@own_objects@) ORDER BY o.object_id;
  IF @line IS NULL BREAK;
  IF LEN(@list) < 1700 SET @list = CONCAT(@list, NCHAR(10), N'in the schema: ', @line);
  ELSE SET @more = @more + 1;
END
SET @id = -2147483648;
WHILE 1 = 1
BEGIN
  SET @line = NULL;
  SELECT TOP (1) @id = t.user_type_id, @line = N'ALTER SCHEMA [dbo] TRANSFER TYPE::@schema@.' + QUOTENAME(t.name) + N'; or DROP TYPE @schema@.' + QUOTENAME(t.name) + N';'
    FROM sys.types t WHERE t.schema_id = SCHEMA_ID(@schema_lit@) AND t.user_type_id > @id AND t.name NOT IN (@own_objects@) ORDER BY t.user_type_id;
  IF @line IS NULL BREAK;
  IF LEN(@list) < 1700 SET @list = CONCAT(@list, NCHAR(10), N'in the schema: ', @line);
  ELSE SET @more = @more + 1;
END
SET @id = -2147483648;
WHILE 1 = 1
BEGIN
  SET @line = NULL;
  SELECT TOP (1) @id = f.object_id, @line = N'ALTER TABLE ' + QUOTENAME(OBJECT_SCHEMA_NAME(f.parent_object_id)) + N'.' + QUOTENAME(OBJECT_NAME(f.parent_object_id)) + N' DROP CONSTRAINT ' + QUOTENAME(f.name) + N';'
    FROM sys.foreign_keys f WHERE OBJECT_SCHEMA_NAME(f.referenced_object_id) = @schema_lit@ AND OBJECT_SCHEMA_NAME(f.parent_object_id) <> @schema_lit@ AND f.object_id > @id ORDER BY f.object_id;
  IF @line IS NULL BREAK;
  IF LEN(@list) < 1700 SET @list = CONCAT(@list, NCHAR(10), N'depends on it: ', @line);
  ELSE SET @more = @more + 1;
END
SET @id = -2147483648;
WHILE 1 = 1
BEGIN
  SET @line = NULL;
  SELECT TOP (1) @id = p.object_id, @line = N'DROP ' + CASE OBJECTPROPERTY(p.object_id, 'IsProcedure') WHEN 1 THEN N'PROCEDURE ' ELSE N'FUNCTION ' END
         + QUOTENAME(OBJECT_SCHEMA_NAME(p.object_id)) + N'.' + QUOTENAME(OBJECT_NAME(p.object_id)) + N';'
    FROM sys.all_parameters p WHERE p.user_type_id = TYPE_ID(N'@schema@.payload_batch') AND OBJECT_SCHEMA_NAME(p.object_id) <> @schema_lit@ AND p.object_id > @id ORDER BY p.object_id;
  IF @line IS NULL BREAK;
  IF LEN(@list) < 1700 SET @list = CONCAT(@list, NCHAR(10), N'depends on it: ', @line);
  ELSE SET @more = @more + 1;
END
-- What is bound to it by schema: views and functions WITH SCHEMABINDING, constraints and computed columns that call a function. An engine
-- that lacks this catalog view itself refuses to drop what something is bound to.
SET @id = -2147483648;
SET @query = N'SELECT TOP (1) @id = o.object_id, @line = CASE WHEN o.type IN (''C'', ''D'') THEN N''ALTER TABLE '' + QUOTENAME(OBJECT_SCHEMA_NAME(o.parent_object_id)) + N''.'' + QUOTENAME(OBJECT_NAME(o.parent_object_id)) + N'' DROP CONSTRAINT '' + QUOTENAME(o.name) + N'';''
   WHEN o.type = ''U'' THEN N''ALTER TABLE '' + QUOTENAME(OBJECT_SCHEMA_NAME(o.object_id)) + N''.'' + QUOTENAME(o.name) + N'' DROP COLUMN: its computed column''
   ELSE N''DROP '' + CASE o.type WHEN ''V'' THEN N''VIEW '' WHEN ''P'' THEN N''PROCEDURE '' WHEN ''TR'' THEN N''TRIGGER '' ELSE N''FUNCTION '' END + QUOTENAME(OBJECT_SCHEMA_NAME(o.object_id)) + N''.'' + QUOTENAME(o.name) + N'';'' END
  FROM sys.objects o WHERE o.object_id > @id AND o.schema_id <> SCHEMA_ID(@schema)
   AND EXISTS (SELECT 1 FROM sys.sql_expression_dependencies d WHERE d.referencing_id = o.object_id AND d.is_schema_bound_reference = 1 AND d.referenced_class = 1 AND OBJECT_SCHEMA_NAME(d.referenced_id) = @schema) ORDER BY o.object_id';
WHILE OBJECT_ID(N'sys.sql_expression_dependencies') IS NOT NULL
BEGIN
  SET @line = NULL;
  EXEC sp_executesql @query, N'@schema sysname, @id int OUTPUT, @line nvarchar(max) OUTPUT', @schema = @schema_lit@, @id = @id OUTPUT, @line = @line OUTPUT;
  IF @line IS NULL BREAK;
  IF LEN(@list) < 1700 SET @list = CONCAT(@list, NCHAR(10), N'depends on it: ', @line);
  ELSE SET @more = @more + 1;
END
SET @id = -2147483648;
WHILE 1 = 1
BEGIN
  SET @line = NULL;
  SELECT TOP (1) @id = s.schema_id, @line = N'ALTER AUTHORIZATION ON SCHEMA::' + QUOTENAME(s.name) + N' TO [dbo];' FROM sys.schemas s JOIN sys.database_principals r ON r.principal_id = s.principal_id
   WHERE s.schema_id > @id AND s.name <> @schema_lit@ AND r.type = 'R'
     AND r.name IN (@schema_lit@ + N'_lock', @schema_lit@ + N'_read', @schema_lit@ + N'_write', @schema_lit@ + N'_lead', @schema_lit@ + N'_operate') ORDER BY s.schema_id;
  IF @line IS NULL BREAK;
  IF LEN(@list) < 1700 SET @list = CONCAT(@list, NCHAR(10), N'belongs to one of its roles: ', @line);
  ELSE SET @more = @more + 1;
END
IF @list <> N''
BEGIN
  SET @message = LEFT(CONCAT(N'uninstall changed nothing, because of what is not Termgate''s.', @list, CASE WHEN @more > 0 THEN CONCAT(NCHAR(10), N'and ', @more, N' more') END, NCHAR(10), N'Then run termgate uninstall again.'), 2048);
  THROW 50000, @message, 1;
END
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = t.object_id, @text = N'DROP TRIGGER ' + QUOTENAME(OBJECT_SCHEMA_NAME(t.object_id)) + N'.' + QUOTENAME(t.name) FROM sys.triggers t
   WHERE t.parent_class = 1 AND t.object_id < @id AND (t.name = CONCAT(@schema_lit@, N'_protect_', t.parent_id) OR t.name = CONCAT(@schema_lit@, N'_adopt_', t.parent_id)) ORDER BY t.object_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
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
IF TYPE_ID(N'@schema@.payload_batch') IS NOT NULL DROP TYPE @schema@.payload_batch;
GO
-- It refers to the others, and on SQL Server ids are not in the order of creation.
DROP TABLE IF EXISTS @schema@.anchors;
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = t.object_id, @text = N'DROP TABLE @schema@.' + QUOTENAME(t.name) FROM sys.tables t
   WHERE t.schema_id = SCHEMA_ID(@schema_lit@) AND t.object_id < @id AND t.name IN (@own_objects@) ORDER BY t.object_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = o.object_id, @text = N'DROP SEQUENCE @schema@.' + QUOTENAME(o.name) FROM sys.objects o
   WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type = 'SO' AND o.object_id < @id AND o.name IN (@own_objects@) ORDER BY o.object_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
IF SCHEMA_ID(@schema_lit@) IS NOT NULL EXEC(N'DROP SCHEMA @schema@');
GO
DECLARE @of int = 2147483647, @member int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @of = r.principal_id, @member = m.principal_id, @text = N'ALTER ROLE ' + QUOTENAME(r.name) + N' DROP MEMBER ' + QUOTENAME(m.name)
    FROM sys.database_role_members x JOIN sys.database_principals r ON r.principal_id = x.role_principal_id JOIN sys.database_principals m ON m.principal_id = x.member_principal_id
   WHERE r.name IN (@schema_lit@ + N'_lock', @schema_lit@ + N'_read', @schema_lit@ + N'_write', @schema_lit@ + N'_lead', @schema_lit@ + N'_operate')
     AND (r.principal_id < @of OR (r.principal_id = @of AND m.principal_id < @member)) ORDER BY r.principal_id DESC, m.principal_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = r.principal_id, @text = N'DROP ROLE ' + QUOTENAME(r.name) FROM sys.database_principals r
   WHERE r.type = 'R' AND r.principal_id < @id AND r.name IN (@schema_lit@ + N'_lock', @schema_lit@ + N'_read', @schema_lit@ + N'_write', @schema_lit@ + N'_lead', @schema_lit@ + N'_operate')
   ORDER BY r.principal_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
-- The user that procedures ran as, unless those of another schema do.
IF SERVERPROPERTY('Babelfish') IS NULL AND NOT EXISTS (SELECT 1 FROM sys.sql_modules m WHERE m.execute_as_principal_id = DATABASE_PRINCIPAL_ID(N'termgate_guard')) EXEC(N'DROP USER IF EXISTS [termgate_guard]');
GO
