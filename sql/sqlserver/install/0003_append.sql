-- Streams: the check and the insert in one transaction. Locks: the check's, then the stream's row to the end of the transaction, so that
-- numbers are consecutive and in commit order. Keeps F1, F2, F5.
DROP FUNCTION IF EXISTS @schema@._known_id;
DROP PROCEDURE IF EXISTS @schema@._stream_scope;
DROP PROCEDURE IF EXISTS @schema@._advance;
DROP PROCEDURE IF EXISTS @schema@._enter;
DROP PROCEDURE IF EXISTS @schema@.append;
DROP PROCEDURE IF EXISTS @schema@.append_many;
DROP PROCEDURE IF EXISTS @schema@.claim_write;
GO
-- The scope of a stream, which its first write fixes: the one named, else the declared one, else the only one that this transaction has
-- passed, else the stream's own name. A row that somebody is creating or moving is skipped (READPAST) if one of the first three gives the
-- scope; _advance compares it under the lock. Otherwise the row is waited for.
-- Locks: row streams S statement
-- Locks: row fences none statement
CREATE PROCEDURE @schema@._stream_scope @stream nvarchar(4000), @named nvarchar(4000), @scope nvarchar(400) OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @message nvarchar(2048), @role sysname = @schema_lit@ + N'_lock', @key varbinary(800);
  SET @scope = NULL;
  -- First, because nearly every write gets here: names that are in a row need no other test. A name that is too long is in no row.
  IF DATALENGTH(@stream) <= 800 SET @key = CONVERT(varbinary(800), @stream);
  SELECT @scope = s.scope FROM @schema@.streams s WITH (INDEX (streams_identity), READPAST, READCOMMITTEDLOCK) WHERE s.stream_key = @key;
  IF @scope IS NOT NULL AND (@named IS NULL OR (DATALENGTH(@named) = DATALENGTH(@scope) AND CONVERT(varbinary(800), @named) = CONVERT(varbinary(800), @scope))) RETURN 0;
  EXEC @schema@._need_scope @stream, N'stream';
  IF @named IS NOT NULL EXEC @schema@._need_scope @named;
  IF @scope IS NOT NULL
  BEGIN
    SET @message = CONCAT(N'TG005 stream "', @stream, N'" belongs to scope "', @scope, N'", not "', @named, N'"');
    EXEC @schema@._throw 50005, @message;
  END
  SET @scope = @named;
  IF @scope IS NULL SET @scope = NULLIF(CAST(SESSION_CONTEXT(N'termgate.scope') AS nvarchar(400)), N'');
  IF @scope IS NULL AND @@TRANCOUNT > 0
    SELECT @scope = CASE WHEN COUNT(*) = 1 THEN MAX(f.scope) END FROM @schema@.fences f WITH (NOLOCK) WHERE APPLOCK_MODE(@role, @schema@._resource(N'q', f.scope_key), N'Transaction') <> N'NoLock';
  IF @scope IS NULL SELECT @scope = s.scope FROM @schema@.streams s WITH (INDEX (streams_identity), READCOMMITTEDLOCK) WHERE s.stream_key = @key;
  IF @scope IS NULL SET @scope = @stream;
  EXEC @schema@._need_scope @scope;
END
GO
-- Takes the next @count numbers of the stream; @last: the number before them. 50003 if that is not the expected one. The row is held to the
-- end of the transaction: another writer of the same term waits for it, for 5 s at most.
-- Locks: stream exclusive transaction
-- Locks: row streams X transaction
CREATE PROCEDURE @schema@._advance @stream nvarchar(400), @scope nvarchar(400), @count bigint, @expected bigint, @last bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @stream), @owner varbinary(800), @message nvarchar(2048), @known bit = 0;
  SELECT @known = 1 FROM @schema@.streams s WITH (INDEX (streams_identity), READPAST, READCOMMITTEDLOCK) WHERE s.stream_key = @key;
  IF @known = 0
  BEGIN
    -- Two first writers of one term are kept apart by a lock of the stream's own, so that no hint has to do it.
    DECLARE @lock nvarchar(64) = @schema@._resource(N's', @key), @role sysname = @schema_lit@ + N'_lock', @rc int, @wait int = CAST(@schema@._setting('check_wait_ms') AS int) + 1;
    EXEC @rc = sp_getapplock @Resource = @lock, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = @wait, @DbPrincipal = @role;
    IF @rc = -3 THROW 50006, 'TG006 chosen as the victim of a deadlock at a new stream: nothing was written', 1;
    IF @rc < 0 EXEC @schema@._blocked @scope, @lock, N'the first write to a stream';
    SELECT @known = 1 FROM @schema@.streams s WITH (INDEX (streams_identity), READCOMMITTEDLOCK) WHERE s.stream_key = @key;
    IF @known = 0
      INSERT INTO @schema@.streams (stream_key, stream_id, scope_key, scope) VALUES (@key, @stream, CONVERT(varbinary(800), @scope), @scope);
  END
  UPDATE @schema@.streams WITH (ROWLOCK) SET last_no = last_no + @count WHERE stream_key = @key;
  -- The row is ours until the end of the transaction.
  SELECT @last = s.last_no - @count, @owner = s.scope_key FROM @schema@.streams s WITH (READCOMMITTEDLOCK) WHERE s.stream_key = @key;
  IF @owner <> CONVERT(varbinary(800), @scope)
  BEGIN
    SET @message = CONCAT(N'TG005 stream "', @stream, N'" belongs to another scope than "', @scope, N'": another session made or moved it meanwhile');
    EXEC @schema@._throw 50005, @message;
  END
  IF @expected <> @last
  BEGIN
    SET @message = CONCAT(N'TG003 stream "', @stream, N'" stands at ', @last, N', not at the expected ', @expected);
    EXEC @schema@._throw 50003, @message;
  END
END
GO
-- The check of an append or a claimed write, inside a transaction: the write id is looked up under the lock, before the term is compared.
-- @done: the write has happened. @raise 1: the exclusive lock is held, and the fence is to be raised.
-- Locks: row write_ids S statement
-- Locks: row stream_writes S statement
CREATE PROCEDURE @schema@._enter @scope nvarchar(400), @scope_key varbinary(800), @term bigint, @raise bit, @evicted int, @write_id uniqueidentifier, @stream nvarchar(400), @done bit OUTPUT, @sequence_no bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @stored bigint, @previous bigint, @of varbinary(800), @found bit = 0, @message nvarchar(2048);
  IF @raise = 0 EXEC @schema@._share @scope, @scope_key;
  IF @write_id IS NOT NULL SELECT @found = 1, @sequence_no = i.sequence_no, @of = i.stream_key FROM @schema@.write_ids i WITH (READCOMMITTEDLOCK) WHERE i.write_id = @write_id;
  SET @done = @found;
  IF @done = 1
  BEGIN
    IF ISNULL(@of, 0x00) = ISNULL(CONVERT(varbinary(800), @stream), 0x00) RETURN 0;
    SET @message = CONCAT(N'TG005 write id ', CONVERT(nvarchar(40), @write_id), N' was used for another stream, or outside streams, before');
    EXEC @schema@._throw 50005, @message;
  END
  IF @raise = 1 EXEC @schema@._raise @scope, @scope_key, @term, 'check', @evicted, @previous OUTPUT;
  ELSE EXEC @schema@._compare @scope, @scope_key, @term, N'Transaction', 1;
  -- Rows with a higher term, in case the fence was lowered or lost: one index probe.
  IF EXISTS (SELECT 1 FROM @schema@.stream_writes w WITH (READCOMMITTEDLOCK) WHERE w.scope_key = @scope_key AND w.term > @term)
  BEGIN
    SET @stored = @schema@._stored_max(@scope_key);
    IF @stored > @term EXEC @schema@._stale @scope, @term, @stored;
  END
END
GO
-- Whether a write id is known, read by NOLOCK. _enter reads it again under the lock.
-- Locks: row write_ids none statement
CREATE FUNCTION @schema@._known_id(@write_id uniqueidentifier) RETURNS bit AS
BEGIN
  RETURN CASE WHEN @write_id IS NOT NULL AND EXISTS (SELECT 1 FROM @schema@.write_ids i WITH (NOLOCK) WHERE i.write_id = @write_id) THEN 1 ELSE 0 END;
END
GO
-- append(stream, term, payload, expected, scope, write_id) → sequence_no.
-- Locks: row first_read S statement
-- Locks: row stream_writes X transaction
-- Locks: row write_ids X transaction
CREATE PROCEDURE @schema@.append @stream nvarchar(4000), @term bigint, @payload varbinary(max), @expected bigint = NULL, @scope nvarchar(4000) = NULL, @write_id uniqueidentifier = NULL, @sequence_no bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @of nvarchar(400), @key varbinary(800), @own bit, @one int, @raise bit = 0, @evicted int = 0, @done bit, @last bigint, @message nvarchar(2048);
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_term @term;
  IF @expected < 0 THROW 50005, 'TG005 the expected number is negative: 0 stands for an empty stream', 1;
  IF @payload IS NULL THROW 50005, 'TG005 the payload is NULL: an empty one is allowed', 1;
  IF DATALENGTH(@payload) > 1048576 AND DATALENGTH(@payload) > CAST(@schema@._setting('payload_bytes_max') AS bigint)
  BEGIN
    SET @message = CONCAT(N'TG005 the payload has ', DATALENGTH(@payload), N' bytes: the setting payload_bytes_max allows ', @schema@._setting('payload_bytes_max'));
    EXEC @schema@._throw 50005, @message;
  END
  BEGIN TRY
    EXEC @schema@._stream_scope @stream, @scope, @of OUTPUT;
    SET @key = CONVERT(varbinary(800), @of);
    IF @schema@._known_id(@write_id) = 0 EXEC @schema@._wants_raise @of, @key, @term, 'check', @raise OUTPUT;
    IF @raise = 1 EXEC @schema@._exclude @of, @key, @term, NULL, @own, @evicted OUTPUT, 0, @raise OUTPUT;
    ELSE IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._enter @of, @key, @term, @raise, @evicted, @write_id, @stream, @done OUTPUT, @sequence_no OUTPUT;
    IF @done = 0
    BEGIN
      EXEC @schema@._advance @stream, @of, 1, @expected, @last OUTPUT;
      SET @sequence_no = @last + 1;
      INSERT INTO @schema@.stream_writes (stream_key, sequence_no, stream_id, scope_key, scope, term, payload, write_id)
      VALUES (CONVERT(varbinary(800), @stream), @sequence_no, @stream, @key, @of, @term, @payload, @write_id);
      IF @write_id IS NOT NULL
        INSERT INTO @schema@.write_ids (write_id, stream_key, stream_id, sequence_no, scope_key, scope, term)
        VALUES (@write_id, CONVERT(varbinary(800), @stream), @stream, @sequence_no, @key, @of, @term);
    END
    IF @own = 1 COMMIT TRANSACTION;
    IF @own = 1 AND @raise = 1 EXEC @schema@._release @key, @term;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 AND @key IS NOT NULL EXEC @schema@._release @key, @term;
    EXEC @schema@._late @of;
    THROW;
  END CATCH
END
GO
-- append_many(stream, term, batch, expected, scope) → sequence_no, the last. All or nothing: with write ids, either all of them were
-- written before or none. Positions are consecutive from 0. If bytes is given, a payload that arrived with another length is refused.
-- Locks: row first_read S statement
-- Locks: row stream_writes X transaction
-- Locks: row write_ids X transaction
CREATE PROCEDURE @schema@.append_many @stream nvarchar(4000), @term bigint, @batch @schema@.payload_batch READONLY, @expected bigint = NULL, @scope nvarchar(4000) = NULL, @sequence_no bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @of nvarchar(400), @key varbinary(800), @stream_key varbinary(800), @own bit, @one int, @raise bit = 0, @evicted int = 0, @done bit, @last bigint, @first uniqueidentifier;
  DECLARE @count bigint, @ids bigint, @known bigint, @limit bigint, @low bigint, @high bigint, @moved int;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_term @term;
  IF @expected < 0 THROW 50005, 'TG005 the expected number is negative: 0 stands for an empty stream', 1;
  SET @limit = CAST(@schema@._setting('payload_bytes_max') AS bigint);
  SELECT @count = COUNT(*), @ids = COUNT(b.write_id), @low = MIN(b.position), @high = MAX(b.position) FROM @batch b;
  IF @count = 0 THROW 50005, 'TG005 a batch needs at least one payload', 1;
  IF @low <> 0 OR @high <> @count - 1 THROW 50005, 'TG005 the positions of a batch are consecutive from 0', 1;
  IF EXISTS (SELECT 1 FROM @batch b WHERE b.payload IS NULL) THROW 50005, 'TG005 a payload of the batch is NULL: an empty one is allowed', 1;
  IF EXISTS (SELECT 1 FROM @batch b WHERE DATALENGTH(b.payload) <> b.bytes) THROW 50005, 'TG005 a payload of the batch arrived with another length than it was sent with', 1;
  IF EXISTS (SELECT 1 FROM @batch b WHERE DATALENGTH(b.payload) > @limit) THROW 50005, 'TG005 a payload of the batch has more bytes than the setting payload_bytes_max allows', 1;
  IF @ids <> 0 AND @ids <> @count THROW 50005, 'TG005 a batch needs as many write ids as payloads, or none', 1;
  IF @ids <> (SELECT COUNT(DISTINCT b.write_id) FROM @batch b) THROW 50005, 'TG005 a write id stands twice in the batch', 1;
  SELECT @first = b.write_id FROM @batch b WHERE b.position = 0;
  SET @stream_key = CONVERT(varbinary(800), @stream);
  BEGIN TRY
    EXEC @schema@._stream_scope @stream, @scope, @of OUTPUT;
    SET @key = CONVERT(varbinary(800), @of);
    IF @schema@._known_id(@first) = 0 EXEC @schema@._wants_raise @of, @key, @term, 'check', @raise OUTPUT;
    IF @raise = 1 EXEC @schema@._exclude @of, @key, @term, NULL, @own, @evicted OUTPUT, 0, @raise OUTPUT;
    ELSE IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._enter @of, @key, @term, @raise, @evicted, @first, @stream, @done OUTPUT, @sequence_no OUTPUT;
    IF @ids > 0
    BEGIN
      SELECT @known = COUNT(*), @low = MIN(i.sequence_no - b.position), @high = MAX(i.sequence_no - b.position), @last = MAX(i.sequence_no)
        FROM @batch b JOIN @schema@.write_ids i WITH (READCOMMITTEDLOCK) ON i.write_id = b.write_id AND i.stream_key = @stream_key;
      IF @known <> (SELECT COUNT(*) FROM @batch b JOIN @schema@.write_ids i WITH (READCOMMITTEDLOCK) ON i.write_id = b.write_id) OR (@known > 0 AND (@known <> @count OR @low <> @high))
        THROW 50005, 'TG005 some write ids of this batch were used before, and not for this same batch', 1;
      IF @known > 0
      BEGIN
        SET @done = 1;
        SET @sequence_no = @last;
      END
    END
    IF @done = 0
    BEGIN
      EXEC @schema@._advance @stream, @of, @count, @expected, @last OUTPUT;
      INSERT INTO @schema@.stream_writes (stream_key, sequence_no, stream_id, scope_key, scope, term, payload, write_id)
      SELECT @stream_key, @last + 1 + b.position, @stream, @key, @of, @term, b.payload, b.write_id FROM @batch b;
      SET @moved = @@ROWCOUNT;
      IF @moved <> @count THROW 50005, 'TG005 a part of the batch was not stored: nothing was written', 1;
      INSERT INTO @schema@.write_ids (write_id, stream_key, stream_id, sequence_no, scope_key, scope, term)
      SELECT b.write_id, @stream_key, @stream, @last + 1 + b.position, @key, @of, @term FROM @batch b WHERE b.write_id IS NOT NULL;
      SET @sequence_no = @last + @count;
    END
    IF @own = 1 COMMIT TRANSACTION;
    IF @own = 1 AND @raise = 1 EXEC @schema@._release @key, @term;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 AND @key IS NOT NULL EXEC @schema@._release @key, @term;
    EXEC @schema@._late @of;
    THROW;
  END CATCH
END
GO
-- claim_write(scope, term, write_id) → fresh, fence: the check for a write outside streams that may be sent twice. fresh 0: the write was
-- claimed before.
-- Locks: row first_read S statement
-- Locks: row write_ids X transaction
CREATE PROCEDURE @schema@.claim_write @scope nvarchar(4000), @term bigint, @write_id uniqueidentifier, @fresh bit OUTPUT, @fence bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @key varbinary(800), @own bit, @one int, @raise bit = 0, @evicted int = 0, @done bit, @no bigint, @other bit = 0;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_term @term;
  IF @write_id IS NULL THROW 50005, 'TG005 the write id is NULL', 1;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    IF @schema@._known_id(@write_id) = 0 EXEC @schema@._wants_raise @scope, @key, @term, 'check', @raise OUTPUT;
    IF @raise = 1 EXEC @schema@._exclude @scope, @key, @term, NULL, @own, @evicted OUTPUT, 0, @raise OUTPUT;
    ELSE IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._enter @scope, @key, @term, @raise, @evicted, @write_id, NULL, @done OUTPUT, @no OUTPUT;
    IF @done = 1 SELECT @other = 1 FROM @schema@.write_ids i WITH (READCOMMITTEDLOCK) WHERE i.write_id = @write_id AND i.scope_key <> @key;
    IF @other = 1 THROW 50005, 'TG005 the write id was used for another scope before', 1;
    IF @done = 0 INSERT INTO @schema@.write_ids (write_id, scope_key, scope, term) VALUES (@write_id, @key, @scope, @term);
    SET @fresh = 1 - @done;
    SELECT @fence = f.term FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @key;
    IF @own = 1 COMMIT TRANSACTION;
    IF @own = 1 AND @raise = 1 EXEC @schema@._release @key, @term;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @term;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
