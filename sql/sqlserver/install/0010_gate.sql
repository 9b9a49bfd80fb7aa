-- The gate, for a proxy that fences a client's own statements: the session itself holds the check's lock from before its first write until
-- after its last, across any number of autocommit batches and transactions, a ROLLBACK among them (docs/reference/lock-protocol.md, SQL
-- Server). The proxy enters by RPC, forwards, and leaves; only it knows when.
-- Entering and leaving report an error in their answer and never raise one, which under the client's XACT_ABORT would roll back its
-- transaction. They leave no transaction of their own open, not even under IMPLICIT_TRANSACTIONS, and what they SET ends with them. Only an
-- answer with the nonce or the proof counts: under SET NOEXEC, FMTONLY or PARSEONLY a call that did nothing ends without an error. Locks:
-- the gate of the scope, shared, for the session. A raise takes it exclusively and evicts its holders. Keeps F1, F2, F4, F5.
DROP FUNCTION IF EXISTS @schema@._key_lock;
DROP PROCEDURE IF EXISTS @schema@._leave;
DROP PROCEDURE IF EXISTS @schema@._enter_by;
DROP PROCEDURE IF EXISTS @schema@._leave_by;
DROP PROCEDURE IF EXISTS @schema@.enter;
DROP PROCEDURE IF EXISTS @schema@.leave;
DROP PROCEDURE IF EXISTS @schema@.gate_hello;
DROP PROCEDURE IF EXISTS @schema@.gate_enter;
DROP PROCEDURE IF EXISTS @schema@.gate_leave;
DROP PROCEDURE IF EXISTS @schema@.gates_wanted;
GO
-- The name of the lock that represents the secret of whoever entered. It does not show the secret, without which nobody can take the lock
-- or leave.
CREATE FUNCTION @schema@._key_lock(@scope_key varbinary(800), @secret varbinary(64)) RETURNS nvarchar(64) AS
BEGIN
  RETURN N'tgk:' + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(@schema@._resource(N'k', @scope_key), N' ', @schema@._digits(HASHBYTES('SHA2_256', @secret))))));
END
GO
-- Releases the gate of a scope, however often it was entered. The lock goes first: a mark without it is no pass.
-- Locks: row fences none statement
CREATE PROCEDURE @schema@._leave @scope_key varbinary(800) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @gate nvarchar(64) = @schema@._resource(N'g', @scope_key), @role sysname = @schema_lit@ + N'_lock', @rc int = 0, @name nvarchar(200);
  DECLARE @turnstile nvarchar(64) = STUFF(@gate, 3, 1, N't');
  -- The mark's name contains the term of the fence. NOLOCK is enough while the gate is still held: nobody raises meanwhile.
  SELECT @name = @schema@._resource(N'm', @scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', f.term, N' ', @@SPID))))
    FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key AND f.marked = 1;
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @gate, N'Session') = N'Shared' EXEC @rc = sp_releaseapplock @Resource = @gate, @LockOwner = N'Session', @DbPrincipal = @role;
  -- The session may still hold the turnstile, from a call that was cancelled while it waited.
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @turnstile, N'Session') = N'Shared' EXEC @rc = sp_releaseapplock @Resource = @turnstile, @LockOwner = N'Session', @DbPrincipal = @role;
  IF @rc < 0 THROW 50006, 'TG006 the gate could not be given back: end this session', 1;
  IF @name IS NOT NULL
    WHILE @rc >= 0 AND APPLOCK_MODE(@role, @name, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @name, @LockOwner = N'Session', @DbPrincipal = @role;
END
GO
-- Enters the gate with a secret, for `enter` and for a proxy. @code 0: passed. @raise 1: refused because the fence must be raised first. A
-- session that is in the gate already must show the secret with which it was entered.
-- Locks: row first_read S statement
-- Locks: row fences S statement
-- Locks: key shared session
CREATE PROCEDURE @schema@._enter_by @scope nvarchar(4000), @term bigint, @secret varbinary(64), @may_raise bit, @code bigint OUTPUT, @fence bigint OUTPUT, @message nvarchar(2048) OUTPUT, @raise bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @role sysname = @schema_lit@ + N'_lock', @key varbinary(800), @mode nvarchar(32) = N'NoLock', @passed bigint, @one int, @name nvarchar(64), @rc int;
  SET @code = 0;
  SET @fence = NULL;
  SET @message = NULL;
  SET @raise = 0;
  BEGIN TRY
    -- At the client's level, so that a transaction of level SNAPSHOT begins as one.
    IF @@TRANCOUNT > 0 SELECT @one = r.one FROM @schema@.first_read r;
    EXEC @schema@._need_scope @scope;
    EXEC @schema@._need_term @term;
    -- Whatever the client's level: a snapshot may be older than the lock, and the comparison must read after it.
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET @key = CONVERT(varbinary(800), @scope);
    SET @name = @schema@._key_lock(@key, @secret);
    SET @mode = APPLOCK_MODE(@role, @schema@._resource(N'g', @key), N'Session');
    -- Exclusive outside a transaction: a cancelled raise has left it.
    IF @mode = N'Exclusive' AND @@TRANCOUNT = 0
    BEGIN
      EXEC @schema@._release @key, @term;
      SET @mode = N'NoLock';
    END
    IF @mode <> N'NoLock' AND APPLOCK_MODE(@role, @name, N'Session') = N'NoLock'
    BEGIN
      SET @message = CONCAT(N'TG005 this session is in the gate of scope "', @scope, N'" already, and was let in by somebody else');
      EXEC @schema@._throw 50005, @message;
    END
    EXEC @schema@._wants_raise @scope, @key, @term, 'check', @raise OUTPUT;
    IF @raise = 1 AND @mode <> N'NoLock'
    BEGIN
      SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'", and this session is in the gate of that scope: its term is fixed until it leaves');
      EXEC @schema@._throw 50005, @message;
    END
    IF @raise = 1 AND (@@TRANCOUNT > 0 OR @may_raise = 0)
    BEGIN
      SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'", and a gate that is entered inside a transaction does not raise: seal first, in another session');
      EXEC @schema@._throw 50005, @message;
    END
    -- Outside a transaction the check raises as seal does, and releases its locks.
    IF @raise = 1 EXEC @schema@.check_term @scope, @term, @passed OUTPUT;
    SET @raise = 0;
    IF @@TRANCOUNT > 0
    BEGIN
      IF APPLOCK_MODE(@role, @schema@._resource(N'q', @key), N'Transaction') = N'Exclusive'
      BEGIN
        SET @message = CONCAT(N'TG005 this transaction has raised the fence of scope "', @scope, N'", and may still roll that back: enter after its end');
        EXEC @schema@._throw 50005, @message;
      END
    END
    -- The key first: so a session in the gate always has it and can leave, even after a call that was cancelled half way.
    IF APPLOCK_MODE(@role, @name, N'Session') = N'NoLock'
    BEGIN
      EXEC @rc = sp_getapplock @Resource = @name, @LockMode = N'Shared', @LockOwner = N'Session', @LockTimeout = 1000, @DbPrincipal = @role;
      IF @rc < 0 THROW 50006, 'TG006 the key of the gate is held by another session', 1;
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
      SET @rc = 0;
      WHILE @rc >= 0 AND APPLOCK_MODE(@role, @name, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @name, @LockOwner = N'Session', @DbPrincipal = @role;
    END TRY
    BEGIN CATCH
      SET @message = LEFT(CONCAT(@message, N'; ', ERROR_MESSAGE()), 2048);
    END CATCH
  END
END
GO
-- Leaves the gate with the secret with which it was entered. @code 0: the session is not in it.
CREATE PROCEDURE @schema@._leave_by @scope nvarchar(4000), @secret varbinary(64), @code bigint OUTPUT, @message nvarchar(2048) OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @role sysname = @schema_lit@ + N'_lock', @key varbinary(800), @name nvarchar(64), @rc int = 0;
  SET @code = 0;
  SET @message = NULL;
  BEGIN TRY
    EXEC @schema@._need_scope @scope;
    SET @key = CONVERT(varbinary(800), @scope);
    SET @name = @schema@._key_lock(@key, @secret);
    IF APPLOCK_MODE(@role, @name, N'Session') = N'NoLock' AND APPLOCK_MODE(@role, @schema@._resource(N'g', @key), N'Session') = N'Shared'
      THROW 50005, 'TG005 this session is in the gate, and was let in by somebody else', 1;
    EXEC @schema@._leave @key;
    WHILE @rc >= 0 AND APPLOCK_MODE(@role, @name, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @name, @LockOwner = N'Session', @DbPrincipal = @role;
    IF @rc < 0 THROW 50006, 'TG006 the gate could not be given back: end this session', 1;
  END TRY
  BEGIN CATCH
    SET @code = ERROR_NUMBER();
    SET @message = ERROR_MESSAGE();
  END CATCH
END
GO
-- enter(scope, term, nonce) → one row: nonce, code, fence, message; the code is the return code too. 0: passed, and the session holds the
-- gate until leave or its own end. 50001 to 50006 as everywhere, otherwise the server's number. A refusal changes nothing: what the session
-- held before, it still holds. fence: its term, if it was compared. A term above the fence raises it, if the scope lets writers raise, in a
-- transaction of its own that is committed first: only outside a transaction, and only by a session that is not in the gate (50005: leave
-- first, or raise in another session). In the gate the term is fixed; if it is entered again with that term, the gate is held once. A
-- distributed transaction may be committed after its session, and so the gate, has ended: a proxy refuses those in a fenced session.
CREATE PROCEDURE @schema@.enter @scope nvarchar(4000), @term bigint, @nonce bigint AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @code bigint = 50005, @fence bigint, @raise bit, @message nvarchar(2048) = N'TG005 the nonce is NULL: without it an answer proves nothing';
  IF @nonce IS NOT NULL EXEC @schema@._enter_by @scope, @term, 0x, 1, @code OUTPUT, @fence OUTPUT, @message OUTPUT, @raise OUTPUT;
  SELECT @nonce AS nonce, @code AS code, @fence AS fence, @message AS message;
  RETURN @code;
END
GO
-- leave(scope, nonce) → one row: nonce, code, message; the code is the return code too. 0: the session is not in the gate of the scope,
-- however often it had entered it, or never. It does not test for an open transaction: the proxy knows when the last fenced write has
-- ended. A transaction that has written in the gate and goes on after leave is not fenced. A session that entered by gate_enter leaves by
-- gate_leave (50005).
CREATE PROCEDURE @schema@.leave @scope nvarchar(4000), @nonce bigint AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @code bigint = 50005, @message nvarchar(2048) = N'TG005 the nonce is NULL: without it an answer proves nothing';
  IF @nonce IS NOT NULL EXEC @schema@._leave_by @scope, 0x, @code OUTPUT, @message OUTPUT;
  SELECT @nonce AS nonce, @code AS code, @message AS message;
  RETURN @code;
END
GO
-- gate_hello, gate_enter and gate_leave are for a proxy. They answer by OUTPUT parameters, which come once, after everything else in an
-- answer (result sets of SET STATISTICS XML, for example).
-- In all three, @proof comes in as a number and goes out as -@proof - 1, set by the last statement: an answer without it proves nothing.
-- @trancount, and @xact_state of gate_enter and gate_leave, show the state of the session afterwards, which the tokens of a batch may not
-- show. The client's own login calls them, on its own session, and they run as termgate_guard (0001), so that the client needs no right and
-- is in no role. @secret of gate_enter and gate_leave keeps the client from leaving by itself.
-- gate_hello(proof) → the version of layer 1, the eviction grace, and whether the session has declared anything (1), perhaps by a logon
-- trigger. Called once for each login.
-- Locks: row migrations S statement
CREATE PROCEDURE @schema@.gate_hello @proof bigint OUTPUT, @version bigint = NULL OUTPUT, @grace_ms bigint = NULL OUTPUT, @declared bigint = NULL OUTPUT, @trancount bigint = NULL OUTPUT
WITH EXECUTE AS 'termgate_guard' AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SELECT @version = MAX(m.version) FROM @schema@.migrations m WITH (READCOMMITTEDLOCK);
  SET @grace_ms = CAST(@schema@._setting('eviction_grace_ms') AS bigint);
  SET @declared = CASE WHEN SESSION_CONTEXT(N'termgate.scope') IS NULL AND SESSION_CONTEXT(N'termgate.term') IS NULL THEN 0 ELSE 1 END;
  SET @trancount = @@TRANCOUNT;
  SET @proof = -@proof - 1;
END
GO
-- gate_enter(scope, term, secret, proof) → code and the rest. If @scope and @term are both NULL: what the session has declared
-- (SESSION_CONTEXT), which is returned in them. 0: passed, and the session holds the gate. 50002: not given, and not both declared. It
-- never raises: @raise 1 means that the fence must be raised first, in another session. A refusal leaves the client's transaction as it
-- was, except after a deadlock inside, which @xact_state shows.
CREATE PROCEDURE @schema@.gate_enter @scope nvarchar(4000) = NULL OUTPUT, @term bigint = NULL OUTPUT, @secret varbinary(64), @proof bigint OUTPUT, @code bigint = NULL OUTPUT, @fence bigint = NULL OUTPUT,
  @raise bigint = NULL OUTPUT, @trancount bigint = NULL OUTPUT, @xact_state bigint = NULL OUTPUT, @message nvarchar(2048) = NULL OUTPUT
WITH EXECUTE AS 'termgate_guard' AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @text nvarchar(100), @must_raise bit = 0, @of bigint;
  SET @code = 0;
  IF @scope IS NULL AND @term IS NULL
  BEGIN
    SET @scope = NULLIF(CAST(SESSION_CONTEXT(N'termgate.scope') AS nvarchar(400)), N'');
    SET @text = NULLIF(CAST(SESSION_CONTEXT(N'termgate.term') AS nvarchar(100)), N'');
    SET @term = TRY_CAST(@text AS bigint);
    IF @scope IS NULL OR @text IS NULL
    BEGIN
      SET @code = 50002;
      SET @message = N'TG002 no term for a fenced write: this session has declared no scope and term';
    END
    ELSE IF @term IS NULL
    BEGIN
      SET @code = 50005;
      SET @message = CONCAT(N'TG005 the declared term "', @text, N'" is not a number');
    END
  END
  IF @code = 0 EXEC @schema@._enter_by @scope, @term, @secret, 0, @code OUTPUT, @of OUTPUT, @message OUTPUT, @must_raise OUTPUT;
  SET @fence = @of;
  SET @raise = @must_raise;
  SET @trancount = @@TRANCOUNT;
  SET @xact_state = XACT_STATE();
  SET @proof = -@proof - 1;
END
GO
-- gate_leave(scope, secret, proof) → code. 0: the session is not in the gate. 1: a transaction is open, so nothing was done. So the server
-- decides when a fenced transaction has ended. Otherwise a refusal's number.
CREATE PROCEDURE @schema@.gate_leave @scope nvarchar(4000), @secret varbinary(64), @proof bigint OUTPUT, @code bigint = NULL OUTPUT,
  @trancount bigint = NULL OUTPUT, @xact_state bigint = NULL OUTPUT, @message nvarchar(2048) = NULL OUTPUT
WITH EXECUTE AS 'termgate_guard' AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  IF @@TRANCOUNT > 0 SET @code = 1;
  ELSE EXEC @schema@._leave_by @scope, @secret, @code OUTPUT, @message OUTPUT;
  SET @trancount = @@TRANCOUNT;
  SET @xact_state = XACT_STATE();
  SET @proof = -@proof - 1;
END
GO
-- gates_wanted(scopes) → those of the JSON array `scopes` (at most 500) that a raise waits for: a raise holds the scope's turnstile
-- exclusively from its first wait to its end. A proxy calls this on a connection of its own. Its sessions give back the gates of the scopes
-- in the answer, and every gate if no answer comes in time. The procedure takes no lock and waits for nothing. For level lead, whose role may test the locks.
-- Locks: turnstile test statement
CREATE PROCEDURE @schema@.gates_wanted @scopes nvarchar(max) AS
BEGIN
  SET NOCOUNT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @asked TABLE (place int NOT NULL PRIMARY KEY, scope nvarchar(400), wanted bit);
  DECLARE @role sysname = @schema_lit@ + N'_lock', @place int = 0, @count int = 0, @scope nvarchar(400), @turnstile nvarchar(64), @at int = 0, @element nvarchar(max);
  WHILE 1 = 1
  BEGIN
    EXEC @schema@._next_element @scopes, N'the scopes', @at OUTPUT, @element OUTPUT;
    IF @element IS NULL BREAK;
    IF @count = 500 THROW 50005, 'TG005 at most 500 scopes are asked for in one call', 1;
    INSERT INTO @asked (place, scope) VALUES (@count, JSON_VALUE(CONCAT(N'[', @element, N']'), '$[0]'));
    SET @count = @count + 1;
  END
  WHILE @place < @count
  BEGIN
    SELECT @scope = a.scope FROM @asked a WHERE a.place = @place;
    SET @turnstile = @schema@._resource(N't', CONVERT(varbinary(800), @scope));
    IF APPLOCK_TEST(@role, @turnstile, N'Shared', N'Session') = 0 UPDATE @asked SET wanted = 1 WHERE place = @place;
    SET @place = @place + 1;
  END
  SELECT a.scope FROM @asked a WHERE a.wanted = 1 ORDER BY a.place;
END
GO
-- Whoever may check may enter. The gate of a proxy is open to every client, and of no use to one: it delays a raise for the grace at most,
-- and nobody enters it but with a current term.
DECLARE @text nvarchar(max) = N'GRANT EXECUTE ON @schema@.enter TO ' + QUOTENAME(@schema_lit@ + N'_write') + N'; GRANT EXECUTE ON @schema@.leave TO ' + QUOTENAME(@schema_lit@ + N'_write');
EXEC(@text);
SET @text = N'GRANT EXECUTE ON @schema@.gates_wanted TO ' + QUOTENAME(@schema_lit@ + N'_lead');
EXEC(@text);
GRANT EXECUTE ON @schema@.gate_hello TO public;
GRANT EXECUTE ON @schema@.gate_enter TO public;
GRANT EXECUTE ON @schema@.gate_leave TO public;
GO
