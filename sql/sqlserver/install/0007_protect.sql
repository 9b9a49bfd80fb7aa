-- Owners' own tables. protect gives a table a trigger that refuses writes that have not passed the check; adopt gives it one that reports
-- its terms. Both run as their caller, who must own the table; names are inserted only by QUOTENAME. Locks: the check's, in the statement's
-- own transaction. TRUNCATE fires no trigger: it takes ALTER on the table, which an application should not have (doctor). Keeps F2, F3, F6.
DROP PROCEDURE IF EXISTS @schema@._guard;
DROP PROCEDURE IF EXISTS @schema@._need_table;
DROP PROCEDURE IF EXISTS @schema@._trigger_first;
DROP PROCEDURE IF EXISTS @schema@._protect_trigger;
DROP PROCEDURE IF EXISTS @schema@.protect;
DROP PROCEDURE IF EXISTS @schema@.unprotect;
DROP PROCEDURE IF EXISTS @schema@._adopted_raise;
DROP PROCEDURE IF EXISTS @schema@._adopted_row;
DROP PROCEDURE IF EXISTS @schema@._adopt_trigger;
DROP PROCEDURE IF EXISTS @schema@.adopt;
DROP PROCEDURE IF EXISTS @schema@.unadopt;
GO
-- The trigger of protect calls this once for every scope in the statement: has this transaction passed @scope, or is its session in the
-- gate of @scope? If neither, the declared scope and term are checked, shared; a trigger never raises. An application lock taken by hand is
-- no pass: the mark's name contains the fence's secret (0002), and it counts only together with the lock of the scope. @any 1: any scope
-- that was passed is enough; a value in a scope column never means that. Runs as termgate_guard (0001), so that a writer to the table needs
-- no right here and can take none of its locks by hand (a caller outside the lock's role would get error 1202: "APPLOCK_MODE
-- (Transact-SQL)"). @suspect: the result of _look in the trigger, which runs as its caller and may see the recovery fork.
-- Locks: row fences none statement
-- Locks: row observed none statement
-- Locks: row observed X transaction
CREATE PROCEDURE @schema@._guard @table_id int, @scope nvarchar(4000), @mode varchar(7), @any bit = 0, @suspect bit = 0
WITH EXECUTE AS 'termgate_guard' AS
BEGIN
  SET NOCOUNT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @role sysname = @schema_lit@ + N'_lock', @key varbinary(800), @fence bigint, @message nvarchar(2048), @code varchar(5), @declared nvarchar(400), @text nvarchar(100), @term bigint;
  DECLARE @lock nvarchar(64), @pass nvarchar(60), @login nvarchar(128) = ORIGINAL_LOGIN(), @seen bit = 0;
  IF ISNULL(TRIGGER_NESTLEVEL(), 0) = 0 THROW 50005, 'TG005 only the trigger of a protected table asks this', 1;
  IF @any = 0 AND (@scope IS NULL OR @schema@._name_problem(@scope) IS NOT NULL)
  BEGIN
    SET @code = 'TG005';
    SET @message = CONCAT(N'TG005 a row of table ', OBJECT_NAME(@table_id), N' has a scope that ', @schema@._name_problem(@scope));
  END
  ELSE IF @any = 1
  BEGIN
    IF EXISTS (SELECT 1 FROM @schema@.fences f WITH (NOLOCK)
                WHERE f.marked = 1
                  AND ((APPLOCK_MODE(@role, @schema@._resource(N'q', f.scope_key), N'Transaction') <> N'NoLock'
                        AND APPLOCK_MODE(@role, @schema@._resource(N'p', f.scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID)))), N'Transaction') <> N'NoLock')
                    OR (APPLOCK_MODE(@role, @schema@._resource(N'g', f.scope_key), N'Session') = N'Shared'
                        AND APPLOCK_MODE(@role, @schema@._resource(N'm', f.scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID)))), N'Session') <> N'NoLock'))) RETURN 0;
  END
  ELSE
  BEGIN
    SET @key = CONVERT(varbinary(800), @scope);
    SET @lock = @schema@._resource(N'q', @key);
    -- NOLOCK is enough: while this session holds queue or gate nobody raises, and if it holds neither the answer decides nothing.
    SELECT @fence = f.term, @pass = @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID)))) FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @key;
    IF @pass IS NOT NULL
    BEGIN
      IF APPLOCK_MODE(@role, @lock, N'Transaction') <> N'NoLock' AND APPLOCK_MODE(@role, STUFF(@lock, 3, 1, N'p') + @pass, N'Transaction') <> N'NoLock' RETURN 0;
      IF APPLOCK_MODE(@role, STUFF(@lock, 3, 1, N'g'), N'Session') = N'Shared' AND APPLOCK_MODE(@role, STUFF(@lock, 3, 1, N'm') + @pass, N'Session') <> N'NoLock' RETURN 0;
    END
  END
  IF @code IS NULL
  BEGIN
    SET @declared = NULLIF(CAST(SESSION_CONTEXT(N'termgate.scope') AS nvarchar(400)), N'');
    SET @text = NULLIF(CAST(SESSION_CONTEXT(N'termgate.term') AS nvarchar(100)), N'');
    SET @term = TRY_CAST(@text AS bigint);
    IF @text IS NOT NULL AND (@term IS NULL OR @term NOT BETWEEN 1 AND 4611686018427387904)
    BEGIN
      SET @code = 'TG005';
      SET @message = CONCAT(N'TG005 the declared term "', @text, N'" is none: terms run from 1 to 4611686018427387904');
    END
    ELSE IF @term IS NOT NULL AND @declared IS NOT NULL AND (@any = 1 OR CONVERT(varbinary(800), @declared) = @key)
    BEGIN
      SET @key = CONVERT(varbinary(800), @declared);
      IF @mode = 'enforce'
      BEGIN
        BEGIN TRY
          EXEC @schema@._share @declared, @key;
          IF @suspect = 1 THROW 50004, 'TG004 every fence of this database is untrusted, for it was restored or failed over, and nobody has vouched for them since', 1;
          EXEC @schema@._compare @declared, @key, @term;
        END TRY
        BEGIN CATCH
          EXEC @schema@._late @declared;
          THROW;
        END CATCH
        RETURN 0;
      END
      SELECT @fence = f.term FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @key;
      IF @fence = @term RETURN 0;
      SET @code = CASE WHEN @fence > @term THEN 'TG001' ELSE 'TG005' END;
      SET @message = CONCAT(@code, N' declared term ', @term, N' and the fence of scope "', @declared, N'" at ', ISNULL(@fence, 0));
    END
    ELSE
    BEGIN
      SET @code = 'TG002';
      SET @message = CONCAT(N'TG002 table ', OBJECT_SCHEMA_NAME(@table_id), N'.', OBJECT_NAME(@table_id), N' is fenced: this transaction has not passed the check for scope "', @scope, N'"');
    END
  END
  IF @mode = 'observe'
  BEGIN
    -- One row a minute is enough for doctor to find, and keeps a table fast that is written to all the time.
    SELECT TOP (1) @seen = 1 FROM @schema@.observed o WITH (NOLOCK)
     WHERE o.table_id = @table_id AND o.code = @code AND o.login_name = @login AND o.at > DATEADD(minute, -1, SYSUTCDATETIME()) AND (o.scope = LEFT(@scope, 400) OR (o.scope IS NULL AND @scope IS NULL));
    IF @seen = 0
      INSERT INTO @schema@.observed (table_id, table_name, scope, code, reason, client)
      VALUES (@table_id, CONCAT(OBJECT_SCHEMA_NAME(@table_id), N'.', OBJECT_NAME(@table_id)), LEFT(@scope, 400), @code, @message, LEFT(CONCAT(HOST_NAME(), N' ', APP_NAME()), 300));
    RETURN 0;
  END
  IF @code = 'TG005' EXEC @schema@._throw 50005, @message;
  EXEC @schema@._throw 50002, @message;
END
GO
-- Finds an ordinary table of this database by its name; @name is returned quoted. A table that our triggers cannot guard is refused, with
-- the reason.
CREATE PROCEDURE @schema@._need_table @target nvarchar(600), @table_id int OUTPUT, @name nvarchar(600) OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @message nvarchar(2048), @kind nvarchar(100);
  SET @table_id = OBJECT_ID(@target, N'U');
  IF @table_id IS NULL
  BEGIN
    SET @message = CONCAT(N'TG005 there is no table ', @target, N' in this database, or you may not see it');
    EXEC @schema@._throw 50005, @message;
  END
  IF OBJECT_SCHEMA_NAME(@table_id) = @schema_lit@ THROW 50005, 'TG005 the tables of layer 1 guard themselves', 1;
  SET @name = QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(OBJECT_NAME(@table_id));
  IF SERVERPROPERTY('Babelfish') IS NULL
    SELECT @kind = CASE WHEN t.is_memory_optimized = 1 THEN N'a memory-optimized table, whose triggers are compiled natively'
                        WHEN t.temporal_type = 1 THEN N'the history of a temporal table, which the server writes: take the table itself'
                        WHEN t.is_external = 1 THEN N'an external table' WHEN t.is_filetable = 1 THEN N'a FileTable, which files reach without a statement' END
      FROM sys.tables t WHERE t.object_id = @table_id;
  IF @kind IS NOT NULL
  BEGIN
    SET @message = CONCAT(N'TG005 ', @name, N' is ', @kind);
    EXEC @schema@._throw 50005, @message;
  END
END
GO
-- Makes our trigger the first for INSERT, UPDATE and DELETE, one after the other, so that a refusal comes before other triggers have sent a
-- mail or called a program. At the first failure (another trigger is the first already) it leaves the rest, and reports nothing. Does
-- nothing on Babelfish or inside a transaction.
CREATE PROCEDURE @schema@._trigger_first @trigger nvarchar(300) AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  IF SERVERPROPERTY('Babelfish') IS NOT NULL OR @@TRANCOUNT > 0 RETURN 0;
  DECLARE @said nvarchar(2048);
  BEGIN TRY
    EXEC sp_executesql N'EXEC sp_settriggerorder @trigger, ''First'', ''INSERT''; EXEC sp_settriggerorder @trigger, ''First'', ''UPDATE''; EXEC sp_settriggerorder @trigger, ''First'', ''DELETE''',
                       N'@trigger nvarchar(300)', @trigger = @trigger;
  END TRY
  BEGIN CATCH
    SET @said = ERROR_MESSAGE();
  END CATCH
END
GO
-- Creates the trigger of a protected table again. It checks the scopes of a statement one after the other, in the order of their bytes, a
-- NULL first; an UPDATE that moves a row checks both scopes. Names are cut at 401 units of UTF-16, which is too long for a scope anyhow.
CREATE PROCEDURE @schema@._protect_trigger @table_id int, @name nvarchar(600), @scope_column nvarchar(128), @scope nvarchar(4000), @mode nvarchar(20), @trigger nvarchar(300) OUTPUT, @prefix nvarchar(150) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @text nvarchar(max), @drop nvarchar(400), @id nvarchar(12) = CAST(@table_id AS nvarchar(12)), @part nvarchar(max), @value nvarchar(max);
  SET @trigger = QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_protect_', @table_id));
  SET @text = N'CREATE TRIGGER ' + @trigger + N' ON ' + @name + N' AFTER INSERT, UPDATE, DELETE AS BEGIN SET NOCOUNT ON; SET ROWCOUNT 0; ' +
    N'IF NOT EXISTS (SELECT 1 FROM inserted) AND NOT EXISTS (SELECT 1 FROM deleted) RETURN; DECLARE @suspect bit; EXEC @schema@._look @suspect OUTPUT; ';
  IF @scope IS NOT NULL
    SET @text = @text + N'EXEC @schema@._guard ' + @id + N', N''' + REPLACE(@scope, N'''', N'''''') + N''', ''' + @mode + N''', ' + CASE WHEN CONVERT(varbinary(800), @scope) = CONVERT(varbinary(800), N'*') THEN N'1' ELSE N'0' END + N', @suspect; END';
  ELSE
  BEGIN
    SET @value = N'CONVERT(nvarchar(401), N''' + REPLACE(@prefix, N'''', N'''''') + N''' + CONVERT(nvarchar(401), r.' + QUOTENAME(@scope_column) + N'))';
    SET @part = N'SELECT ' + @value + N' AS scope, CONVERT(varbinary(802), ' + @value + N') AS scope_key FROM ';
    SET @text = @text + N'DECLARE @scope nvarchar(401), @key varbinary(802), @found int; DECLARE @scopes TABLE (scope nvarchar(401) NULL, scope_key varbinary(802) NULL); ' +
      N'INSERT INTO @scopes (scope, scope_key) SELECT MAX(q.scope), q.scope_key FROM (' + @part + N'inserted r UNION ALL ' + @part + N'deleted r) q GROUP BY q.scope_key; ' +
      N'IF EXISTS (SELECT 1 FROM @scopes WHERE scope IS NULL) EXEC @schema@._guard ' + @id + N', NULL, ''' + @mode + N''', 0, @suspect; ' +
      N'SET @key = 0x; SET @found = 1; WHILE @found = 1 BEGIN SET @found = 0; ' +
      N'SELECT TOP (1) @found = 1, @scope = s.scope, @key = s.scope_key FROM @scopes s WHERE s.scope_key > @key ORDER BY s.scope_key; ' +
      N'IF @found = 1 EXEC @schema@._guard ' + @id + N', @scope, ''' + @mode + N''', 0, @suspect; END; ' +
      N'IF EXISTS (SELECT 1 FROM @scopes WHERE scope_key = 0x) EXEC @schema@._guard ' + @id + N', N'''', ''' + @mode + N''', 0, @suspect; END';
  END
  SET @drop = N'DROP TRIGGER IF EXISTS ' + @trigger;
  EXEC(@drop);
  EXEC(@text);
END
GO
-- protect(target, scope_column, scope, mode, protected, force, prefix) → protected: how many tables, 1. Give either a column or a scope;
-- '*': any scope that the transaction has passed. In a transaction of its own. Refused in mode enforce, unless @force is 1: a table with
-- text, ntext or image columns, which WRITETEXT and UPDATETEXT change without a trigger ("WRITETEXT (Transact-SQL)"), and a server with
-- nested triggers = 0, on which a write by another trigger fires none ("CREATE TRIGGER (Transact-SQL)").
-- Locks: row protected X transaction
-- Locks: row fences X transaction
CREATE PROCEDURE @schema@.protect @target nvarchar(600), @scope_column nvarchar(128) = NULL, @scope nvarchar(4000) = NULL, @mode nvarchar(20) = N'enforce', @protected bigint OUTPUT, @force bit = 0, @prefix nvarchar(300) = N'' AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @table_id int, @name nvarchar(600), @trigger nvarchar(300), @detail nvarchar(max), @type nvarchar(128), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  IF (@scope_column IS NULL AND @scope IS NULL) OR (@scope_column IS NOT NULL AND @scope IS NOT NULL) THROW 50005, 'TG005 protect needs a scope column or a scope, and not both', 1;
  IF @mode IS NULL OR @mode NOT IN (N'enforce', N'observe') THROW 50005, 'TG005 the mode is enforce or observe', 1;
  IF @scope IS NOT NULL EXEC @schema@._need_scope @scope;
  IF @prefix IS NULL OR LEN(@prefix) > 150 THROW 50005, 'TG005 the prefix of a scope has at most 150 characters', 1;
  IF DATALENGTH(@prefix) > 0 AND @scope_column IS NULL THROW 50005, 'TG005 a prefix is put in front of a scope column''s value: with one scope for the whole table there is none', 1;
  EXEC @schema@._need_own N'protect';
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  IF @scope_column IS NOT NULL
  BEGIN
    SELECT @type = t.name FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE c.object_id = @table_id AND c.name = @scope_column;
    IF @type IS NULL THROW 50005, 'TG005 the table has no such scope column', 1;
    IF @type NOT IN (N'nvarchar', N'varchar', N'int', N'bigint', N'smallint', N'uniqueidentifier') THROW 50005, 'TG005 a scope column is nvarchar, varchar, smallint, int, bigint or uniqueidentifier', 1;
  END
  IF @mode = N'enforce' AND ISNULL(@force, 0) = 0
  BEGIN
    IF EXISTS (SELECT 1 FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE c.object_id = @table_id AND t.name IN (N'text', N'ntext', N'image')) AND SERVERPROPERTY('Babelfish') IS NULL
      THROW 50005, 'TG005 the table has text, ntext or image columns, which WRITETEXT and UPDATETEXT change without firing a trigger: make them varchar(max), nvarchar(max) or varbinary(max), or say @force = 1', 1;
    IF EXISTS (SELECT 1 FROM sys.configurations c WHERE c.name = N'nested triggers' AND c.value_in_use = 0)
      THROW 50005, 'TG005 this server is configured with nested triggers = 0: a write that another trigger makes would not be checked; sp_configure ''nested triggers'', 1, or say @force = 1', 1;
  END
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._protect_trigger @table_id, @name, @scope_column, @scope, @mode, @trigger OUTPUT, @prefix;
    DELETE FROM @schema@.protected WHERE table_id = @table_id;
    INSERT INTO @schema@.protected (table_id, table_name, scope_column, scope, mode, scope_prefix) VALUES (@table_id, @name, @scope_column, @scope, @mode, @prefix);
    -- From now on checks leave marks. A transaction that passed a check before this commits can fail once with 50002.
    UPDATE @schema@.fences WITH (ROWLOCK) SET marked = 1 WHERE marked = 0 AND (@scope_column IS NOT NULL OR CONVERT(varbinary(800), @scope) = CONVERT(varbinary(800), N'*') OR scope_key = CONVERT(varbinary(800), @scope));
    SET @detail = (SELECT @name AS [table], @scope_column AS scope_column, @mode AS mode FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
    EXEC @schema@._audit 'protect', @scope, NULL, @detail;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
  EXEC @schema@._trigger_first @trigger;
  SET @protected = 1;
END
GO
-- unprotect(target) → unprotected; 0: it was not protected.
CREATE PROCEDURE @schema@.unprotect @target nvarchar(600), @unprotected bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @table_id int, @name nvarchar(600), @drop nvarchar(max), @detail nvarchar(max), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  SET @unprotected = 0;
  IF NOT EXISTS (SELECT 1 FROM @schema@.protected p WITH (READCOMMITTEDLOCK) WHERE p.table_id = @table_id) RETURN 0;
  SET @drop = N'DROP TRIGGER ' + QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_protect_', @table_id));
  SET @detail = (SELECT @name AS [table] FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    EXEC(@drop);
    DELETE FROM @schema@.protected WHERE table_id = @table_id;
    EXEC @schema@._audit 'unprotect', NULL, NULL, @detail;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late NULL;
    THROW;
  END CATCH
  SET @unprotected = 1;
END
GO
-- A row of an adopted table has this term. Above the fence it raises the fence, in the row's own transaction. Below it nothing happens,
-- because the row is evidence and not a write of layer 1.
-- Locks: row adopted_terms X transaction
CREATE PROCEDURE @schema@._adopted_raise @scope nvarchar(4000), @term bigint AS
BEGIN
  SET NOCOUNT ON;
  SET LOCK_TIMEOUT 5000;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @key varbinary(800), @raise bit, @evicted int = 0, @previous bigint;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_term @term;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    EXEC @schema@._wants_raise @scope, @key, @term, 'seal', @raise OUTPUT;
    IF @raise = 0 RETURN 0;
    EXEC @schema@._exclude @scope, @key, @term, NULL, 0, @evicted OUTPUT, 0, @raise OUTPUT;
    IF @raise = 0 RETURN 0;
    -- As a seal, which does not test raise_by and leaves no mark of a pass.
    EXEC @schema@._raise @scope, @key, @term, 'seal', @evicted, @previous OUTPUT;
    UPDATE @schema@.adopted_terms SET term = @term WHERE scope_key = @key AND term < @term;
    IF @@ROWCOUNT = 0 AND NOT EXISTS (SELECT 1 FROM @schema@.adopted_terms a WITH (READCOMMITTEDLOCK) WHERE a.scope_key = @key)
      INSERT INTO @schema@.adopted_terms (scope_key, term) VALUES (@key, @term);
  END TRY
  BEGIN CATCH
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- The trigger of adopt reports a term by this. A writer to the table has EXECUTE here, by the ownership chain or by the grant to the level
-- write, so this tests whether that very trigger is running: called by hand it would be a seal. Runs as termgate_guard, because it takes
-- locks that its caller may not.
CREATE PROCEDURE @schema@._adopted_row @scope nvarchar(4000), @term bigint, @table_id int
WITH EXECUTE AS 'termgate_guard' AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @trigger int, @level int = TRIGGER_NESTLEVEL();
  IF SERVERPROPERTY('Babelfish') IS NULL
  BEGIN
    SELECT @trigger = t.object_id FROM sys.triggers t WHERE t.parent_id = @table_id AND t.name = CONCAT(@schema_lit@, N'_adopt_', @table_id);
    SET @level = TRIGGER_NESTLEVEL(@trigger);
  END
  IF ISNULL(@level, 0) = 0 OR NOT EXISTS (SELECT 1 FROM @schema@.adopted a WITH (NOLOCK) WHERE a.table_id = @table_id) THROW 50005, 'TG005 only the trigger of an adopted table reports a term', 1;
  EXEC @schema@._adopted_raise @scope, @term;
END
GO
-- Creates the trigger of an adopted table again.
CREATE PROCEDURE @schema@._adopt_trigger @table_id int, @name nvarchar(600), @scope_column nvarchar(128), @term_column nvarchar(128), @prefix nvarchar(150) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @value nvarchar(max) = N'(N''' + REPLACE(@prefix, N'''', N'''''') + N''' + CONVERT(nvarchar(3800), i.' + QUOTENAME(@scope_column) + N'))';
  DECLARE @trigger nvarchar(300) = QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_adopt_', @table_id)), @text nvarchar(max), @drop nvarchar(400);
  SET @text = N'CREATE TRIGGER ' + @trigger + N' ON ' + @name + N' AFTER INSERT, UPDATE AS BEGIN SET NOCOUNT ON; SET ROWCOUNT 0; DECLARE @scope nvarchar(4000), @key varbinary(8000) = 0x, @term bigint, @found bit = 1, @suspect bit; ' +
    N'EXEC @schema@._look @suspect OUTPUT; WHILE @found = 1 BEGIN SET @found = 0; SELECT TOP (1) @found = 1, @scope = q.scope, @key = q.scope_key, @term = q.term FROM (SELECT ' + @value +
    N' AS scope, CONVERT(varbinary(8000), ' + @value + N') AS scope_key, CAST(i.' + QUOTENAME(@term_column) + N' AS bigint) AS term FROM inserted i WHERE i.' +
    QUOTENAME(@scope_column) + N' IS NOT NULL AND i.' + QUOTENAME(@term_column) + N' > 0) q WHERE q.scope_key > @key ORDER BY q.scope_key, q.term DESC; IF @found = 1 EXEC @schema@._adopted_row @scope, @term, ' + CAST(@table_id AS nvarchar(12)) + N'; END; END';
  SET @drop = N'DROP TRIGGER IF EXISTS ' + @trigger;
  EXEC(@drop);
  EXEC(@text);
END
GO
-- adopt(target, scope_column, term_column, scopes, prefix) → scopes: how many fences it raised. All in one transaction of its own. It reads
-- the table as its caller, once; from then on the trigger reports. Rows with NULL or a term below 1 are no evidence.
-- Locks: row adopted X transaction
-- Locks: row fences S statement
-- Locks: row ADOPTED S statement
CREATE PROCEDURE @schema@.adopt @target nvarchar(600), @scope_column nvarchar(128), @term_column nvarchar(128), @scopes bigint OUTPUT, @prefix nvarchar(300) = N'' AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @table_id int, @name nvarchar(600), @text nvarchar(max), @detail nvarchar(max), @message nvarchar(2048), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  DECLARE @scope nvarchar(4000), @key varbinary(8000) = 0x, @term bigint, @found bit = 1, @fence bigint, @value nvarchar(max);
  IF @prefix IS NULL OR LEN(@prefix) > 150 THROW 50005, 'TG005 the prefix of a scope has at most 150 characters', 1;
  EXEC @schema@._need_own N'adopt';
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  IF NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = @table_id AND c.name = @scope_column) OR NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = @table_id AND c.name = @term_column)
    THROW 50005, 'TG005 the table has no such column', 1;
  IF NOT EXISTS (SELECT 1 FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE c.object_id = @table_id AND c.name = @scope_column
                   AND t.name IN (N'nvarchar', N'varchar', N'int', N'bigint', N'smallint', N'uniqueidentifier'))
    THROW 50005, 'TG005 the scope column of an adopted table is nvarchar, varchar, smallint, int, bigint or uniqueidentifier', 1;
  IF NOT EXISTS (SELECT 1 FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE c.object_id = @table_id AND c.name = @term_column AND t.name IN (N'bigint', N'int', N'smallint'))
    THROW 50005, 'TG005 the term column of an adopted table is bigint, int or smallint', 1;
  -- A row that a security policy hides from us would be no evidence (row-level security filters dbo, too).
  IF SERVERPROPERTY('Babelfish') IS NULL
    IF EXISTS (SELECT 1 FROM sys.security_predicates q JOIN sys.security_policies y ON y.object_id = q.object_id WHERE q.target_object_id = @table_id AND y.is_enabled = 1)
      THROW 50005, 'TG005 the table is under a security policy, which could hide its terms: an adopted table has none', 1;
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    -- First the trigger, which blocks all writes to the table until this commits; then the rows that are there now.
    EXEC @schema@._adopt_trigger @table_id, @name, @scope_column, @term_column, @prefix;
    DELETE FROM @schema@.adopted WHERE table_id = @table_id;
    INSERT INTO @schema@.adopted (table_id, table_name, scope_column, term_column, scope_prefix) VALUES (@table_id, @name, @scope_column, @term_column, @prefix);
    SET @scopes = 0;
    SET @value = N'(@prefix + CONVERT(nvarchar(3800), i.' + QUOTENAME(@scope_column) + N'))';
    SET @text = N'SET @found = 0; SELECT TOP (1) @found = 1, @scope = q.scope, @key = q.scope_key, @term = q.term FROM (SELECT ' + @value +
      N' AS scope, CONVERT(varbinary(8000), ' + @value + N') AS scope_key, CAST(i.' + QUOTENAME(@term_column) + N' AS bigint) AS term FROM ' + @name + N' i WHERE i.' +
      QUOTENAME(@scope_column) + N' IS NOT NULL AND i.' + QUOTENAME(@term_column) + N' > 0) q WHERE q.scope_key > @key ORDER BY q.scope_key, q.term DESC';
    WHILE @found = 1
    BEGIN
      EXEC sp_executesql @text, N'@found bit OUTPUT, @scope nvarchar(4000) OUTPUT, @key varbinary(8000) OUTPUT, @term bigint OUTPUT, @prefix nvarchar(300)', @prefix = @prefix, @found = @found OUTPUT, @scope = @scope OUTPUT, @key = @key OUTPUT, @term = @term OUTPUT;
      IF @found = 0 BREAK;
      SET @fence = NULL;
      SELECT @fence = f.term FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = CONVERT(varbinary(800), @scope);
      IF @fence IS NULL OR @fence < @term
      BEGIN
        EXEC @schema@._adopted_raise @scope, @term;
        SET @scopes = @scopes + 1;
      END
    END
    SET @detail = (SELECT @name AS [table], @scope_column AS scope_column, @term_column AS term_column FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
    EXEC @schema@._audit 'adopt', NULL, NULL, @detail;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- unadopt(target) → unadopted; fences stay.
CREATE PROCEDURE @schema@.unadopt @target nvarchar(600), @unadopted bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @table_id int, @name nvarchar(600), @drop nvarchar(max), @detail nvarchar(max), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  SET @unadopted = 0;
  IF NOT EXISTS (SELECT 1 FROM @schema@.adopted a WITH (READCOMMITTEDLOCK) WHERE a.table_id = @table_id) RETURN 0;
  SET @drop = N'DROP TRIGGER ' + QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_adopt_', @table_id));
  SET @detail = (SELECT @name AS [table] FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    EXEC(@drop);
    DELETE FROM @schema@.adopted WHERE table_id = @table_id;
    EXEC @schema@._audit 'unadopt', NULL, NULL, @detail;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late NULL;
    THROW;
  END CATCH
  SET @unadopted = 1;
END
GO
