-- Followers: programs that read a stream, or all streams of a scope, one write after the other, and how far each has come. A stream's
-- numbers are assigned under its row's lock, which is held to the end of the transaction, so they become visible in order: a position is
-- one number for each stream. run: a later start of the same name has a higher one, and a lower one can move no position any more.
-- Parameters: none. Locks: those of CREATE. A call that is not in a transaction has one of its own.
IF OBJECT_ID(N'@schema@.followers', N'U') IS NULL
CREATE TABLE @schema@.followers (
  name_key   varbinary(800) NOT NULL PRIMARY KEY,
  name       nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  stream_key varbinary(800) NULL,
  stream_id  nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  scope_key  varbinary(800) NULL,
  scope      nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  run        bigint NOT NULL DEFAULT 1,
  started_at datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  started_by nvarchar(128) NOT NULL DEFAULT ORIGINAL_LOGIN()
);
GO
-- No row: nothing of the stream has been handled yet.
IF OBJECT_ID(N'@schema@.follower_positions', N'U') IS NULL
CREATE TABLE @schema@.follower_positions (
  name_key   varbinary(800) NOT NULL,
  stream_key varbinary(800) NOT NULL,
  position   bigint NOT NULL CHECK (position >= 0),
  moved_at   datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  PRIMARY KEY (name_key, stream_key)
);
GO
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.streams') AND i.name LIKE N'streams_scope%') CREATE INDEX streams_scope ON @schema@.streams (scope_key);
GO
DROP VIEW IF EXISTS @schema@.follower_status;
DROP PROCEDURE IF EXISTS @schema@.follower_start;
DROP PROCEDURE IF EXISTS @schema@.follower_behind;
DROP PROCEDURE IF EXISTS @schema@.follower_advance;
DROP PROCEDURE IF EXISTS @schema@.follower_remove;
GO
-- behind: the writes not handled yet; behind_since: when the oldest of them was written.
CREATE VIEW @schema@.follower_status AS
  SELECT f.name_key, f.name, f.stream_id, f.scope, f.run, f.started_at, @schema@._ms(f.started_at) AS started_at_ms, f.started_by,
         (SELECT ISNULL(SUM(s.last_no - ISNULL(p.position, 0)), 0) FROM @schema@.streams s LEFT JOIN @schema@.follower_positions p ON p.name_key = f.name_key AND p.stream_key = s.stream_key
           WHERE (s.stream_key = f.stream_key OR s.scope_key = f.scope_key) AND s.last_no > ISNULL(p.position, 0)) AS behind,
         (SELECT MIN(w.created_at) FROM @schema@.streams s LEFT JOIN @schema@.follower_positions p ON p.name_key = f.name_key AND p.stream_key = s.stream_key
            JOIN @schema@.stream_writes w ON w.stream_key = s.stream_key AND w.sequence_no > ISNULL(p.position, 0)
           WHERE (s.stream_key = f.stream_key OR s.scope_key = f.scope_key) AND s.last_no > ISNULL(p.position, 0)) AS behind_since,
         (SELECT MAX(p.moved_at) FROM @schema@.follower_positions p WHERE p.name_key = f.name_key) AS moved_at
    FROM @schema@.followers f;
GO
-- follower_start(name, stream, scope, from_end) → run. Give either stream or scope, and for one name always the same. from_end: the first
-- start of a name begins after what is committed now. It locks the follower's row, to the end of the transaction.
CREATE PROCEDURE @schema@.follower_start @name nvarchar(4000), @stream nvarchar(4000) = NULL, @scope nvarchar(4000) = NULL, @from_end bit = 0, @run bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @key varbinary(800), @stream_key varbinary(800), @scope_key varbinary(800), @own bit, @one int, @message nvarchar(2048), @of_stream varbinary(800), @of_scope varbinary(800), @of nvarchar(400);
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_scope @name, N'follower';
  IF (@stream IS NULL AND @scope IS NULL) OR (@stream IS NOT NULL AND @scope IS NOT NULL)
    THROW 50005, 'TG005 a follower follows one stream or all streams of one scope: give one of the two', 1;
  IF @stream IS NOT NULL EXEC @schema@._need_scope @stream, N'stream';
  IF @scope IS NOT NULL EXEC @schema@._need_scope @scope;
  SET @key = CONVERT(varbinary(800), @name);
  SET @stream_key = CONVERT(varbinary(800), @stream);
  SET @scope_key = CONVERT(varbinary(800), @scope);
  IF @own = 1 BEGIN TRANSACTION;
  UPDATE @schema@.followers WITH (ROWLOCK) SET run = run + 1, started_at = SYSUTCDATETIME(), started_by = ORIGINAL_LOGIN() WHERE name_key = @key;
  IF @@ROWCOUNT = 0
  BEGIN
    -- Two first starts at once: the key lets one of them in, and the other fails without having changed anything.
    INSERT INTO @schema@.followers (name_key, name, stream_key, stream_id, scope_key, scope) VALUES (@key, @name, @stream_key, @stream, @scope_key, @scope);
    IF @from_end = 1
      INSERT INTO @schema@.follower_positions (name_key, stream_key, position)
      SELECT @key, s.stream_key, s.last_no FROM @schema@.streams s WHERE (s.stream_key = @stream_key OR s.scope_key = @scope_key) AND s.last_no > 0;
  END
  SELECT @run = f.run, @of_stream = f.stream_key, @of_scope = f.scope_key, @of = ISNULL(f.stream_id, f.scope) FROM @schema@.followers f WHERE f.name_key = @key;
  IF ISNULL(@of_stream, 0x) <> ISNULL(@stream_key, 0x) OR ISNULL(@of_scope, 0x) <> ISNULL(@scope_key, 0x)
  BEGIN
    SET @message = CONCAT(N'TG005 follower "', @name, N'" follows "', @of, N'": give it another name, or remove it first');
    EXEC @schema@._throw 50005, @message;
  END
  IF @own = 1 COMMIT TRANSACTION;
END
GO
-- follower_behind(name, limit) → the streams of which the follower has not handled all writes, in order; one row with NULLs if there is
-- none; no row: no such follower.
CREATE PROCEDURE @schema@.follower_behind @name nvarchar(4000), @limit bigint = 1000 AS
BEGIN
  SET NOCOUNT ON;
  SET LOCK_TIMEOUT 2000;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @name);
  SELECT f.run, d.stream_id AS stream, d.position, d.last_no, ISNULL(d.behind, 0) AS behind
    FROM @schema@.followers f LEFT JOIN (
      SELECT TOP (@limit) s.stream_key, s.stream_id, ISNULL(p.position, 0) AS position, s.last_no, SUM(s.last_no - ISNULL(p.position, 0)) OVER () AS behind
        FROM @schema@.followers g JOIN @schema@.streams s ON s.stream_key = g.stream_key OR s.scope_key = g.scope_key
        LEFT JOIN @schema@.follower_positions p ON p.name_key = g.name_key AND p.stream_key = s.stream_key
       WHERE g.name_key = @key AND s.last_no > ISNULL(p.position, 0) ORDER BY s.stream_key) d ON 1 = 1
   WHERE f.name_key = @key ORDER BY d.stream_key;
END
GO
-- follower_advance(name, run, stream, from_no, to_no) → moved; taken: a later start has taken the follower over; elsewhere: the position is
-- not from_no, or no start has had this run. Called in the transaction that handles the writes, it makes each of them count exactly once.
-- It locks the follower's row, shared, and the position, to the end of the transaction; a start waits for these.
CREATE PROCEDURE @schema@.follower_advance @name nvarchar(4000), @run bigint, @stream nvarchar(4000), @from_no bigint, @to_no bigint, @outcome nvarchar(20) OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @name), @stream_key varbinary(800) = CONVERT(varbinary(800), @stream), @own bit, @one int, @message nvarchar(2048), @current bigint, @last bigint = 0;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  IF @own = 1 BEGIN TRANSACTION;
  SELECT @current = f.run FROM @schema@.followers f WITH (REPEATABLEREAD, ROWLOCK) WHERE f.name_key = @key;
  IF @current IS NULL
  BEGIN
    SET @message = CONCAT(N'TG005 there is no follower "', @name, N'": follower_start makes it');
    EXEC @schema@._throw 50005, @message;
  END
  SELECT @last = s.last_no FROM @schema@.streams s WHERE s.stream_key = @stream_key;
  IF @from_no IS NULL OR @to_no IS NULL OR @from_no < 0 OR @to_no < @from_no OR @to_no > @last
  BEGIN
    SET @message = CONCAT(N'TG005 a position of stream "', @stream, N'" moves forward, and to ', @last, N' at most, not from ', @from_no, N' to ', @to_no);
    EXEC @schema@._throw 50005, @message;
  END
  SET @outcome = CASE WHEN @current > @run THEN N'taken' ELSE N'elsewhere' END;
  IF @current = @run
  BEGIN
    UPDATE @schema@.follower_positions WITH (ROWLOCK) SET position = @to_no, moved_at = SYSUTCDATETIME() WHERE name_key = @key AND stream_key = @stream_key AND position = @from_no;
    IF @@ROWCOUNT = 1 SET @outcome = N'moved';
    ELSE IF @from_no = 0 AND NOT EXISTS (SELECT 1 FROM @schema@.follower_positions p WHERE p.name_key = @key AND p.stream_key = @stream_key)
    BEGIN
      INSERT INTO @schema@.follower_positions (name_key, stream_key, position) VALUES (@key, @stream_key, @to_no);
      SET @outcome = N'moved';
    END
  END
  IF @own = 1 COMMIT TRANSACTION;
END
GO
-- follower_remove(name) → removed. Its positions are deleted too: a later follower of that name begins from the start.
CREATE PROCEDURE @schema@.follower_remove @name nvarchar(4000), @removed bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @name), @own bit, @one int;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  SET @removed = 0;
  IF @own = 1 BEGIN TRANSACTION;
  DELETE FROM @schema@.followers WHERE name_key = @key;
  IF @@ROWCOUNT = 1 SET @removed = 1;
  DELETE FROM @schema@.follower_positions WHERE name_key = @key;
  IF @own = 1 COMMIT TRANSACTION;
END
GO
DECLARE @text nvarchar(max);
SET @text = N'GRANT EXECUTE ON @schema@.follower_behind TO ' + QUOTENAME(@schema_lit@ + N'_read') + N'; GRANT SELECT ON @schema@.follower_status TO ' + QUOTENAME(@schema_lit@ + N'_read') +
  N'; GRANT EXECUTE ON @schema@.follower_start TO ' + QUOTENAME(@schema_lit@ + N'_write') + N'; GRANT EXECUTE ON @schema@.follower_advance TO ' + QUOTENAME(@schema_lit@ + N'_write') +
  N'; GRANT EXECUTE ON @schema@.follower_remove TO ' + QUOTENAME(@schema_lit@ + N'_write');
EXEC(@text);
GO
