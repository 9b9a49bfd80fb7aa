-- Runs after all files of install/, in their transaction. Parameters: none. Locks: those of GRANT.
-- Whoever could call a procedure or read a view before an upgrade can do so afterwards. A dropped procedure has lost its signature: run
-- sign.sql again (doctor reports it).
DECLARE @id int = 0, @line nvarchar(1000);
WHILE 1 = 1
BEGIN
  SET @line = NULL;
  SELECT TOP (1) @id = g.id, @line = g.line FROM #termgate_grants g WHERE g.id > @id AND OBJECT_ID(N'@schema@.' + QUOTENAME(g.name)) IS NOT NULL ORDER BY g.id;
  IF @line IS NULL BREAK;
  EXEC(@line);
END
GO
DROP TABLE #termgate_grants;
GO
