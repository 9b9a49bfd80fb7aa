-- Owners' own tables: protect puts a trigger on them that refuses whoever has not passed the check, adopt one that reports their terms. Both run as their caller, who
-- must own the table; names are spliced by QUOTENAME alone. Locks: the check's, in the statement's own transaction. TRUNCATE fires no trigger: it takes ALTER on the table,
-- which an application should not have (doctor). Keeps F2, F3, F6.
DROP PROCEDURE IF EXISTS @schema@._guard;
DROP PROCEDURE IF EXISTS @schema@._need_table;
DROP PROCEDURE IF EXISTS @schema@.protect;
DROP PROCEDURE IF EXISTS @schema@.unprotect;
DROP PROCEDURE IF EXISTS @schema@._adopted_row;
DROP PROCEDURE IF EXISTS @schema@.adopt;
DROP PROCEDURE IF EXISTS @schema@.unadopt;
GO
-- What the trigger of protect asks, once for every scope in the statement: has this transaction passed @scope, or is its session in the gate of @scope? Else the declared scope and term are checked, shared; a trigger never raises.
-- An application lock taken by hand is no pass: the mark's name holds the fence's secret (0002).
CREATE PROCEDURE @schema@._guard @table_id int, @scope nvarchar(4000), @mode varchar(7) AS
BEGIN
  SET NOCOUNT ON;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @role sysname = @schema_lit@ + N'_lock', @key varbinary(800), @fence bigint, @message nvarchar(2048), @code varchar(5), @declared nvarchar(400), @text nvarchar(100), @term bigint, @passed bit = 0;
  IF @scope IS NULL OR @schema@._name_problem(@scope) IS NOT NULL
  BEGIN
    SET @code = 'TG005';
    SET @message = CONCAT(N'TG005 a row of table ', OBJECT_NAME(@table_id), N' has a scope that ', @schema@._name_problem(@scope));
  END
  ELSE IF @scope = N'*'
  BEGIN
    IF EXISTS (SELECT 1 FROM @schema@.fences f WHERE f.marked = 1 AND (APPLOCK_MODE(@role, @schema@._resource(N'p', f.scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID)))), N'Transaction') <> N'NoLock'
          OR (APPLOCK_MODE(@role, @schema@._resource(N'm', f.scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID)))), N'Session') <> N'NoLock'
            AND APPLOCK_MODE(@role, @schema@._resource(N'g', f.scope_key), N'Session') = N'Shared'))) RETURN 0;
  END
  ELSE
  BEGIN
    SET @key = CONVERT(varbinary(800), @scope);
    SELECT @fence = f.term, @passed = CASE WHEN APPLOCK_MODE(@role, @schema@._resource(N'p', f.scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID)))), N'Transaction') <> N'NoLock' THEN 1
          WHEN APPLOCK_MODE(@role, @schema@._resource(N'm', f.scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID)))), N'Session') <> N'NoLock'
            AND APPLOCK_MODE(@role, @schema@._resource(N'g', f.scope_key), N'Session') = N'Shared' THEN 1 ELSE 0 END
      FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @key;
    IF @passed = 1 RETURN 0;
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
    ELSE IF @term IS NOT NULL AND @declared IS NOT NULL AND (@scope = N'*' OR CONVERT(varbinary(800), @declared) = @key)
    BEGIN
      IF @mode = 'enforce'
      BEGIN
        SET @key = CONVERT(varbinary(800), @declared);
        EXEC @schema@._share @declared, @key;
        EXEC @schema@._compare @declared, @key, @term;
        RETURN 0;
      END
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
    INSERT INTO @schema@.observed (table_id, table_name, scope, code, reason, client)
    VALUES (@table_id, CONCAT(OBJECT_SCHEMA_NAME(@table_id), N'.', OBJECT_NAME(@table_id)), LEFT(@scope, 400), @code, @message, LEFT(CONCAT(HOST_NAME(), N' ', APP_NAME()), 300));
    RETURN 0;
  END
  IF @code = 'TG005' THROW 50005, @message, 1;
  THROW 50002, @message, 1;
END
GO
-- An ordinary table of this database, by its name; @name comes back quoted.
CREATE PROCEDURE @schema@._need_table @target nvarchar(600), @table_id int OUTPUT, @name nvarchar(600) OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @message nvarchar(2048);
  SET @table_id = OBJECT_ID(@target, N'U');
  IF @table_id IS NULL
  BEGIN
    SET @message = CONCAT(N'TG005 there is no table ', @target, N' in this database, or you may not see it');
    THROW 50005, @message, 1;
  END
  IF OBJECT_SCHEMA_NAME(@table_id) = @schema_lit@ THROW 50005, 'TG005 the tables of layer 1 guard themselves', 1;
  SET @name = QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(OBJECT_NAME(@table_id));
END
GO
-- protect(target, scope_column, scope, mode) → protected: how many tables, 1. One of column and scope must be given; '*': any scope that the transaction has passed.
CREATE PROCEDURE @schema@.protect @target nvarchar(600), @scope_column nvarchar(128) = NULL, @scope nvarchar(4000) = NULL, @mode nvarchar(20) = N'enforce', @protected bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  DECLARE @table_id int, @name nvarchar(600), @trigger nvarchar(300), @text nvarchar(max), @detail nvarchar(max), @type nvarchar(128), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  IF (@scope_column IS NULL AND @scope IS NULL) OR (@scope_column IS NOT NULL AND @scope IS NOT NULL) THROW 50005, 'TG005 protect needs a scope column or a scope, and not both', 1;
  IF @mode IS NULL OR @mode NOT IN (N'enforce', N'observe') THROW 50005, 'TG005 the mode is enforce or observe', 1;
  IF @scope IS NOT NULL EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  IF @scope_column IS NOT NULL
  BEGIN
    SELECT @type = t.name FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE c.object_id = @table_id AND c.name = @scope_column;
    IF @type IS NULL THROW 50005, 'TG005 the table has no such scope column', 1;
    IF @type NOT IN (N'nvarchar', N'varchar', N'int', N'bigint', N'smallint', N'uniqueidentifier') THROW 50005, 'TG005 a scope column is nvarchar, varchar, smallint, int, bigint or uniqueidentifier', 1;
  END
  SET @trigger = QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_protect_', @table_id));
  SET @text = N'CREATE TRIGGER ' + @trigger + N' ON ' + @name + N' AFTER INSERT, UPDATE, DELETE AS BEGIN SET NOCOUNT ON; ';
  IF @scope IS NOT NULL
    SET @text = @text + N'IF EXISTS (SELECT 1 FROM inserted) OR EXISTS (SELECT 1 FROM deleted) EXEC @schema@._guard ' + CAST(@table_id AS nvarchar(12)) + N', N''' + REPLACE(@scope, N'''', N'''''') + N''', ''' + @mode + N'''; END';
  ELSE
    -- Scopes one after the other, in the order of their bytes; a NULL first. UPDATE that moves a row asks for both.
    SET @text = @text + N'DECLARE @scope nvarchar(4000), @key varbinary(8000), @found int; DECLARE @scopes TABLE (scope nvarchar(4000) NULL, scope_key varbinary(8000) NULL); ' +
      N'INSERT INTO @scopes SELECT CONVERT(nvarchar(4000), i.' + QUOTENAME(@scope_column) + N'), CONVERT(varbinary(8000), CONVERT(nvarchar(4000), i.' + QUOTENAME(@scope_column) + N')) FROM inserted i; ' +
      N'INSERT INTO @scopes SELECT CONVERT(nvarchar(4000), d.' + QUOTENAME(@scope_column) + N'), CONVERT(varbinary(8000), CONVERT(nvarchar(4000), d.' + QUOTENAME(@scope_column) + N')) FROM deleted d; ' +
      N'IF EXISTS (SELECT 1 FROM @scopes WHERE scope IS NULL) EXEC @schema@._guard ' + CAST(@table_id AS nvarchar(12)) + N', NULL, ''' + @mode + N'''; ' +
      N'SET @key = 0x; SET @found = 1; WHILE @found = 1 BEGIN SET @found = 0; ' +
      N'SELECT TOP (1) @found = 1, @scope = s.scope, @key = s.scope_key FROM @scopes s WHERE s.scope_key > @key ORDER BY s.scope_key; ' +
      N'IF @found = 1 EXEC @schema@._guard ' + CAST(@table_id AS nvarchar(12)) + N', @scope, ''' + @mode + N'''; END; ' +
      N'IF EXISTS (SELECT 1 FROM @scopes WHERE scope_key = 0x) EXEC @schema@._guard ' + CAST(@table_id AS nvarchar(12)) + N', N'''', ''' + @mode + N'''; END';
  IF @own = 1 BEGIN TRANSACTION;
  SET @detail = N'DROP TRIGGER IF EXISTS ' + @trigger;
  EXEC(@detail);
  EXEC(@text);
  DELETE FROM @schema@.protected WHERE table_id = @table_id;
  INSERT INTO @schema@.protected (table_id, table_name, scope_column, scope, mode) VALUES (@table_id, @name, @scope_column, @scope, @mode);
  -- From now on checks leave marks. A transaction that passed one before this commits may be told 50002, once.
  UPDATE @schema@.fences SET marked = 1 WHERE marked = 0 AND (@scope_column IS NOT NULL OR @scope = N'*' OR scope_key = CONVERT(varbinary(800), @scope));
  SET @detail = (SELECT @name AS [table], @scope_column AS scope_column, @mode AS mode FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  EXEC @schema@._audit 'protect', @scope, NULL, @detail;
  IF @own = 1 COMMIT TRANSACTION;
  SET @protected = 1;
END
GO
-- unprotect(target) → unprotected; 0: it was not.
CREATE PROCEDURE @schema@.unprotect @target nvarchar(600), @unprotected bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  DECLARE @table_id int, @name nvarchar(600), @drop nvarchar(max), @detail nvarchar(max), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  SET @unprotected = 0;
  IF NOT EXISTS (SELECT 1 FROM @schema@.protected p WHERE p.table_id = @table_id) RETURN 0;
  SET @drop = N'DROP TRIGGER ' + QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_protect_', @table_id));
  SET @detail = (SELECT @name AS [table] FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  IF @own = 1 BEGIN TRANSACTION;
  EXEC(@drop);
  DELETE FROM @schema@.protected WHERE table_id = @table_id;
  EXEC @schema@._audit 'unprotect', NULL, NULL, @detail;
  IF @own = 1 COMMIT TRANSACTION;
  SET @unprotected = 1;
END
GO
-- What the trigger of adopt reports: a row with this term. Above the fence it raises it in the row's own transaction; below it nothing happens, for the row is evidence and no write of the law's.
CREATE PROCEDURE @schema@._adopted_row @scope nvarchar(4000), @term bigint AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @key varbinary(800), @raise bit, @evicted int = 0, @previous bigint;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_term @term;
  SET @key = CONVERT(varbinary(800), @scope);
  EXEC @schema@._wants_raise @scope, @key, @term, 'seal', @raise OUTPUT;
  IF @raise = 0 RETURN 0;
  EXEC @schema@._exclude @scope, @key, @term, NULL, 0, @evicted OUTPUT;
  -- The row itself is in the table by now: its own term must not be met as another's.
  EXEC @schema@._raise @scope, @key, @term, 'seal', @evicted, @previous OUTPUT;
END
GO
-- adopt(target, scope_column, term_column) → scopes whose fences were raised. Needs an index on (scope, term).
CREATE PROCEDURE @schema@.adopt @target nvarchar(600), @scope_column nvarchar(128), @term_column nvarchar(128), @scopes bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  DECLARE @table_id int, @name nvarchar(600), @trigger nvarchar(300), @text nvarchar(max), @detail nvarchar(max), @message nvarchar(2048), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  DECLARE @scope nvarchar(4000), @key varbinary(8000) = 0x, @term bigint, @found bit = 1, @fence bigint;
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  IF NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = @table_id AND c.name = @scope_column) OR NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = @table_id AND c.name = @term_column)
    THROW 50005, 'TG005 the table has no such column', 1;
  -- Every first raise of any scope compares it with this column: one that text cannot be compared with would stop them all.
  IF NOT EXISTS (SELECT 1 FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE c.object_id = @table_id AND c.name = @scope_column AND t.name IN (N'nvarchar', N'varchar'))
    THROW 50005, 'TG005 the scope column of an adopted table is nvarchar or varchar', 1;
  IF NOT EXISTS (SELECT 1 FROM sys.columns c JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE c.object_id = @table_id AND c.name = @term_column AND t.name IN (N'bigint', N'int', N'smallint'))
    THROW 50005, 'TG005 the term column of an adopted table is bigint, int or smallint', 1;
  IF NOT EXISTS (SELECT 1 FROM sys.indexes i JOIN sys.index_columns a ON a.object_id = i.object_id AND a.index_id = i.index_id AND a.key_ordinal = 1 JOIN sys.columns s ON s.object_id = a.object_id AND s.column_id = a.column_id
                   JOIN sys.index_columns b ON b.object_id = i.object_id AND b.index_id = i.index_id AND b.key_ordinal = 2 JOIN sys.columns t ON t.object_id = b.object_id AND t.column_id = b.column_id
                  WHERE i.object_id = @table_id AND i.is_disabled = 0 AND i.has_filter = 0 AND s.name = @scope_column AND t.name = @term_column)
  BEGIN
    SET @message = CONCAT(N'TG005 table ', @name, N' needs an index on (', @scope_column, N', ', @term_column, N'), or every first check of a scope reads all of it: CREATE INDEX termgate_terms ON ', @name, N' (',
                          QUOTENAME(@scope_column), N', ', QUOTENAME(@term_column), N')');
    THROW 50005, @message, 1;
  END
  SET @trigger = QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_adopt_', @table_id));
  SET @text = N'CREATE TRIGGER ' + @trigger + N' ON ' + @name + N' AFTER INSERT, UPDATE AS BEGIN SET NOCOUNT ON; DECLARE @scope nvarchar(4000), @key varbinary(8000) = 0x, @term bigint, @found bit = 1; ' +
    N'WHILE @found = 1 BEGIN SET @found = 0; SELECT TOP (1) @found = 1, @scope = q.scope, @key = q.scope_key, @term = q.term FROM (SELECT CONVERT(nvarchar(4000), i.' + QUOTENAME(@scope_column) +
    N') AS scope, CONVERT(varbinary(8000), CONVERT(nvarchar(4000), i.' + QUOTENAME(@scope_column) + N')) AS scope_key, CAST(i.' + QUOTENAME(@term_column) + N' AS bigint) AS term FROM inserted i WHERE i.' +
    QUOTENAME(@scope_column) + N' IS NOT NULL AND i.' + QUOTENAME(@term_column) + N' IS NOT NULL) q WHERE q.scope_key > @key ORDER BY q.scope_key, q.term DESC; IF @found = 1 EXEC @schema@._adopted_row @scope, @term; END; END';
  IF @own = 1 BEGIN TRANSACTION;
  SET @detail = N'DROP TRIGGER IF EXISTS ' + @trigger;
  EXEC(@detail);
  -- First the trigger, which holds up all writes to the table until this commits; then what it holds by now.
  EXEC(@text);
  DELETE FROM @schema@.adopted WHERE table_id = @table_id;
  INSERT INTO @schema@.adopted (table_id, table_name, scope_column, term_column) VALUES (@table_id, @name, @scope_column, @term_column);
  SET @scopes = 0;
  SET @text = N'SET @found = 0; SELECT TOP (1) @found = 1, @scope = q.scope, @key = q.scope_key, @term = q.term FROM (SELECT CONVERT(nvarchar(4000), i.' + QUOTENAME(@scope_column) +
    N') AS scope, CONVERT(varbinary(8000), CONVERT(nvarchar(4000), i.' + QUOTENAME(@scope_column) + N')) AS scope_key, CAST(i.' + QUOTENAME(@term_column) + N' AS bigint) AS term FROM ' + @name + N' i WHERE i.' +
    QUOTENAME(@scope_column) + N' IS NOT NULL AND i.' + QUOTENAME(@term_column) + N' IS NOT NULL) q WHERE q.scope_key > @key ORDER BY q.scope_key, q.term DESC';
  WHILE @found = 1
  BEGIN
    EXEC sp_executesql @text, N'@found bit OUTPUT, @scope nvarchar(4000) OUTPUT, @key varbinary(8000) OUTPUT, @term bigint OUTPUT', @found = @found OUTPUT, @scope = @scope OUTPUT, @key = @key OUTPUT, @term = @term OUTPUT;
    IF @found = 0 BREAK;
    SET @fence = NULL;
    SELECT @fence = f.term FROM @schema@.fences f WHERE f.scope_key = CONVERT(varbinary(800), @scope);
    IF @fence IS NULL OR @fence < @term
    BEGIN
      EXEC @schema@._adopted_row @scope, @term;
      SET @scopes = @scopes + 1;
    END
  END
  SET @detail = (SELECT @name AS [table], @scope_column AS scope_column, @term_column AS term_column FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  EXEC @schema@._audit 'adopt', NULL, NULL, @detail;
  IF @own = 1 COMMIT TRANSACTION;
END
GO
-- unadopt(target) → unadopted; fences stay.
CREATE PROCEDURE @schema@.unadopt @target nvarchar(600), @unadopted bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  DECLARE @table_id int, @name nvarchar(600), @drop nvarchar(max), @detail nvarchar(max), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_table @target, @table_id OUTPUT, @name OUTPUT;
  SET @unadopted = 0;
  IF NOT EXISTS (SELECT 1 FROM @schema@.adopted a WHERE a.table_id = @table_id) RETURN 0;
  SET @drop = N'DROP TRIGGER ' + QUOTENAME(OBJECT_SCHEMA_NAME(@table_id)) + N'.' + QUOTENAME(CONCAT(@schema_lit@, N'_adopt_', @table_id));
  SET @detail = (SELECT @name AS [table] FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  IF @own = 1 BEGIN TRANSACTION;
  EXEC(@drop);
  DELETE FROM @schema@.adopted WHERE table_id = @table_id;
  EXEC @schema@._audit 'unadopt', NULL, NULL, @detail;
  IF @own = 1 COMMIT TRANSACTION;
  SET @unadopted = 1;
END
GO
