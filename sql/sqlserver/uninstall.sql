-- Takes all of layer 1 away: triggers on the owner's tables first, then schema, data and roles. Parameters: none. Locks: those of DROP. After it no fence is remembered: F3
-- ends here, on purpose. The roles' members are taken out; a role that somebody has given other rights to goes as well.
DECLARE @text nvarchar(max) = N'';
SELECT @text = @text + N'DROP TRIGGER ' + QUOTENAME(OBJECT_SCHEMA_NAME(t.object_id)) + N'.' + QUOTENAME(t.name) + N'; '
  FROM sys.triggers t WHERE t.parent_class = 1 AND (t.name = CONCAT(@schema_lit@, N'_protect_', t.parent_id) OR t.name = CONCAT(@schema_lit@, N'_adopt_', t.parent_id));
EXEC(@text);
GO
DECLARE @text nvarchar(max) = N'';
SELECT @text = @text + N'DROP ' + CASE o.type WHEN 'P' THEN N'PROCEDURE' WHEN 'V' THEN N'VIEW' END + N' @schema@.' + QUOTENAME(o.name) + N'; '
  FROM sys.objects o WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type IN ('P', 'V');
EXEC(@text);
GO
DECLARE @text nvarchar(max) = N'';
SELECT @text = @text + N'DROP FUNCTION @schema@.' + QUOTENAME(o.name) + N'; ' FROM sys.objects o WHERE o.schema_id = SCHEMA_ID(@schema_lit@) AND o.type = 'FN';
EXEC(@text);
GO
IF TYPE_ID(N'@schema@.payload_batch') IS NOT NULL DROP TYPE @schema@.payload_batch;
GO
DECLARE @text nvarchar(max) = N'';
SELECT @text = @text + N'DROP TABLE @schema@.' + QUOTENAME(t.name) + N'; ' FROM sys.tables t WHERE t.schema_id = SCHEMA_ID(@schema_lit@);
EXEC(@text);
GO
IF SCHEMA_ID(@schema_lit@) IS NOT NULL EXEC(N'DROP SCHEMA @schema@');
GO
DECLARE @text nvarchar(max) = N'';
SELECT @text = @text + N'ALTER ROLE ' + QUOTENAME(r.name) + N' DROP MEMBER ' + QUOTENAME(m.name) + N'; '
  FROM sys.database_role_members x JOIN sys.database_principals r ON r.principal_id = x.role_principal_id JOIN sys.database_principals m ON m.principal_id = x.member_principal_id
 WHERE r.name IN (@schema_lit@ + N'_lock', @schema_lit@ + N'_read', @schema_lit@ + N'_write', @schema_lit@ + N'_lead', @schema_lit@ + N'_operate');
EXEC(@text);
GO
DECLARE @text nvarchar(max) = N'';
SELECT @text = @text + N'DROP ROLE ' + QUOTENAME(r.name) + N'; ' FROM sys.database_principals r
 WHERE r.type = 'R' AND r.name IN (@schema_lit@ + N'_lock', @schema_lit@ + N'_read', @schema_lit@ + N'_write', @schema_lit@ + N'_lead', @schema_lit@ + N'_operate');
EXEC(@text);
GO
