-- The gate, for a proxy that fences a client's own statements: the session itself holds the check's lock from before its first write until after its last, across any number of
-- autocommit batches and transactions, a ROLLBACK among them (docs/reference/lock-protocol.md, SQL Server). The proxy calls enter by RPC, forwards, and calls leave; it alone knows when.
-- Both answer one row and a return code and never an error, which under the client's XACT_ABORT would roll back its transaction; they begin no transaction, under
-- IMPLICIT_TRANSACTIONS neither, and what they SET ends with them. Only a row that brings the nonce back is an answer: under SET NOEXEC, FMTONLY or PARSEONLY a call that did
-- nothing ends without an error. Locks: the gate of the scope, shared, for the session; a raise takes it exclusively and evicts who holds it. Keeps F1, F2, F4, F5.
DROP PROCEDURE IF EXISTS @schema@._leave;
DROP PROCEDURE IF EXISTS @schema@.enter;
DROP PROCEDURE IF EXISTS @schema@.leave;
GO
-- Gives the gate of a scope back, however often it was entered. The lock first: a mark without it is no pass.
-- Locks: row fences none statement
CREATE PROCEDURE @schema@._leave @scope_key varbinary(800) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @gate nvarchar(64) = @schema@._resource(N'g', @scope_key), @role sysname = @schema_lit@ + N'_lock', @rc int = 0, @name nvarchar(200);
  DECLARE @turnstile nvarchar(64) = STUFF(@gate, 3, 1, N't');
  -- The mark's name holds the term of the fence. By a look, while the gate is still held: nobody raises meanwhile.
  SELECT @name = @schema@._resource(N'm', @scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID))))
    FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key AND f.marked = 1;
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @gate, N'Session') = N'Shared' EXEC @rc = sp_releaseapplock @Resource = @gate, @LockOwner = N'Session', @DbPrincipal = @role;
  -- Of a call that was cancelled while it waited.
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @turnstile, N'Session') = N'Shared' EXEC @rc = sp_releaseapplock @Resource = @turnstile, @LockOwner = N'Session', @DbPrincipal = @role;
  IF @rc < 0 THROW 50006, 'TG006 the gate could not be given back: end this session', 1;
  IF @name IS NOT NULL
    WHILE @rc >= 0 AND APPLOCK_MODE(@role, @name, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @name, @LockOwner = N'Session', @DbPrincipal = @role;
END
GO
-- enter(scope, term, nonce) → one row: nonce, code, fence, message; the code is the return code too. 0: passed, and the session holds the gate until leave or its own end. 50001 to
-- 50006 as everywhere, else the server's number: a refusal changes nothing, and what the session held before, it holds. fence: as it stands, where it was compared. A term above
-- the fence raises it, where the scope lets writers raise, in a transaction of its own that is committed before: outside a transaction only, and by a session that is not in
-- the gate (50005: leave first, or raise in another session). In the gate the term is fixed; entered again with it, the gate is held once. A distributed transaction may be
-- committed after its session has ended, and the gate with it: a proxy refuses those in a fenced session.
-- Locks: row first_read S statement
-- Locks: row fences S statement
CREATE PROCEDURE @schema@.enter @scope nvarchar(4000), @term bigint, @nonce bigint AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @role sysname = @schema_lit@ + N'_lock', @key varbinary(800), @mode nvarchar(32) = N'NoLock', @raise bit, @fence bigint, @passed bigint, @code int = 0, @message nvarchar(2048), @one int;
  BEGIN TRY
    -- At the client's level, so that a transaction of level SNAPSHOT begins as one.
    IF @@TRANCOUNT > 0 SELECT @one = r.one FROM @schema@.first_read r;
    IF @nonce IS NULL THROW 50005, 'TG005 the nonce is NULL: without it an answer proves nothing', 1;
    EXEC @schema@._need_scope @scope;
    EXEC @schema@._need_term @term;
    -- Whatever the client's level: a snapshot may be older than the lock, and what is compared is read after it.
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET @key = CONVERT(varbinary(800), @scope);
    SET @mode = APPLOCK_MODE(@role, @schema@._resource(N'g', @key), N'Session');
    -- Exclusive outside a transaction: of a raise that was cancelled.
    IF @mode = N'Exclusive' AND @@TRANCOUNT = 0
    BEGIN
      EXEC @schema@._release @key, @term;
      SET @mode = N'NoLock';
    END
    EXEC @schema@._wants_raise @scope, @key, @term, 'check', @raise OUTPUT;
    IF @raise = 1 AND @mode <> N'NoLock'
    BEGIN
      SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'", and this session is in the gate of that scope: its term is fixed until it leaves');
      EXEC @schema@._throw 50005, @message;
    END
    IF @raise = 1 AND @@TRANCOUNT > 0
    BEGIN
      SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'", and a gate that is entered inside a transaction does not raise: seal first, in another session');
      EXEC @schema@._throw 50005, @message;
    END
    -- Outside a transaction the check raises as seal does, and gives its locks back.
    IF @raise = 1 EXEC @schema@.check_term @scope, @term, @passed OUTPUT;
    IF @@TRANCOUNT > 0
    BEGIN
      IF APPLOCK_MODE(@role, @schema@._resource(N'q', @key), N'Transaction') = N'Exclusive'
      BEGIN
        SET @message = CONCAT(N'TG005 this transaction has raised the fence of scope "', @scope, N'", and may still roll that back: enter after its end');
        EXEC @schema@._throw 50005, @message;
      END
    END
    EXEC @schema@._share @scope, @key, N'Session';
    SELECT @fence = f.term FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @key;
    EXEC @schema@._compare @scope, @key, @term, N'Session', 1;
  END TRY
  BEGIN CATCH
    SET @code = ERROR_NUMBER();
    SET @message = ERROR_MESSAGE();
  END CATCH
  IF @code = 1222
  BEGIN
    SET @code = 50006;
    SET @message = CONCAT(N'TG006 the gate of scope "', @scope, N'" is blocked by a session that has held a row of layer 1 for more than 5 s');
  END
  IF @code <> 0 AND @mode = N'NoLock' AND @key IS NOT NULL
  BEGIN
    BEGIN TRY
      EXEC @schema@._leave @key;
    END TRY
    BEGIN CATCH
      SET @message = LEFT(CONCAT(@message, N'; ', ERROR_MESSAGE()), 2048);
    END CATCH
  END
  SELECT @nonce AS nonce, @code AS code, @fence AS fence, @message AS message;
  RETURN @code;
END
GO
-- leave(scope, nonce) → one row: nonce, code, message; the code is the return code too. 0: the session is not in the gate of the scope, whether or how often it had entered it. It
-- asks for no transaction: when the last fenced write has ended, the proxy knows. A transaction that has written under the gate and goes on after leave is not fenced.
CREATE PROCEDURE @schema@.leave @scope nvarchar(4000), @nonce bigint AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @key varbinary(800), @code int = 0, @message nvarchar(2048);
  BEGIN TRY
    IF @nonce IS NULL THROW 50005, 'TG005 the nonce is NULL: without it an answer proves nothing', 1;
    EXEC @schema@._need_scope @scope;
    SET @key = CONVERT(varbinary(800), @scope);
    EXEC @schema@._leave @key;
  END TRY
  BEGIN CATCH
    SET @code = ERROR_NUMBER();
    SET @message = ERROR_MESSAGE();
  END CATCH
  SELECT @nonce AS nonce, @code AS code, @message AS message;
  RETURN @code;
END
GO
-- Who may check may enter.
DECLARE @text nvarchar(max) = N'GRANT EXECUTE ON @schema@.enter TO ' + QUOTENAME(@schema_lit@ + N'_write') + N'; GRANT EXECUTE ON @schema@.leave TO ' + QUOTENAME(@schema_lit@ + N'_write');
EXEC(@text);
GO
