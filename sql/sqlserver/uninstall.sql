-- Takes all of layer 1 away: triggers on the owner's tables first, then schema, data and roles. Parameters: none. Locks: those of DROP. After it no fence is remembered: F3
-- ends here, on purpose. The roles' members are taken out; a role that somebody has given other rights to goes as well.
-- One by one, the youngest first, for what is younger may refer to what is older; each id once, so that one that cannot be dropped ends in an error and not in a loop.
-- The loop stands by each kind, for what it drops is to be read here: one query over all of them would mix catalogs whose collations may differ.
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
   WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type IN ('P', 'V') AND o.object_id < @id ORDER BY o.object_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = o.object_id, @text = N'DROP FUNCTION @schema@.' + QUOTENAME(o.name) FROM sys.objects o
   WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type = 'FN' AND o.object_id < @id ORDER BY o.object_id DESC;
  IF @text IS NULL BREAK;
  EXEC(@text);
END
GO
IF TYPE_ID(N'@schema@.payload_batch') IS NOT NULL DROP TYPE @schema@.payload_batch;
GO
DECLARE @id int = 2147483647, @text nvarchar(max);
WHILE 1 = 1
BEGIN
  SET @text = NULL;
  SELECT TOP (1) @id = t.object_id, @text = N'DROP TABLE @schema@.' + QUOTENAME(t.name) FROM sys.tables t
   WHERE t.schema_id = SCHEMA_ID(@schema_lit@) AND t.object_id < @id ORDER BY t.object_id DESC;
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
