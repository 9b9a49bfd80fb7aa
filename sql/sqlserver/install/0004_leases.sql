-- Leases. Locks of an acquisition: the fence's (as any raise), then the lease's own, then its row. A renewal takes the lease's lock without
-- waiting and never waits for the fence, so the two cannot deadlock. The time is SYSUTCDATETIME(), read after the lock. Keeps F2, F3, F4.
DROP FUNCTION IF EXISTS @schema@._acquisition;
DROP PROCEDURE IF EXISTS @schema@._need_owner;
DROP PROCEDURE IF EXISTS @schema@._need_ttl;
DROP PROCEDURE IF EXISTS @schema@._lease_lock;
DROP PROCEDURE IF EXISTS @schema@._out_of_terms;
DROP PROCEDURE IF EXISTS @schema@._admit;
DROP PROCEDURE IF EXISTS @schema@.acquire_lease;
DROP PROCEDURE IF EXISTS @schema@.renew_lease;
DROP PROCEDURE IF EXISTS @schema@.renew_leases;
DROP PROCEDURE IF EXISTS @schema@.release_lease;
DROP PROCEDURE IF EXISTS @schema@.force_release;
GO
CREATE PROCEDURE @schema@._need_owner @owner nvarchar(4000) AS
BEGIN
  SET NOCOUNT ON;
  IF @owner IS NULL OR DATALENGTH(@owner) NOT BETWEEN 1 AND 800 THROW 50005, 'TG005 the owner of a lease must be named, in 1 to 200 characters', 1;
  IF @schema@._name_problem(@owner) IS NOT NULL THROW 50005, 'TG005 the owner of a lease must be named, in 1 to 200 characters and without a NUL', 1;
END
GO
CREATE PROCEDURE @schema@._need_ttl @ttl_ms bigint AS
BEGIN
  SET NOCOUNT ON;
  IF @ttl_ms IS NULL OR @ttl_ms NOT BETWEEN 100 AND 86400000 THROW 50005, 'TG005 the TTL must be from 100 ms to 1 day', 1;
END
GO
-- Takes the lease's lock, to the end of the transaction, without waiting: whoever holds it is acquiring the lease, or works on it in a
-- transaction.
-- Locks: lease exclusive transaction
CREATE PROCEDURE @schema@._lease_lock @scope nvarchar(400), @scope_key varbinary(800) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @lease nvarchar(64) = @schema@._resource(N'l', @scope_key), @role sysname = @schema_lit@ + N'_lock', @rc int;
  EXEC @rc = sp_getapplock @Resource = @lease, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 1, @DbPrincipal = @role;
  IF @rc < 0 EXEC @schema@._blocked @scope, @lease, N'the lease';
END
GO
CREATE PROCEDURE @schema@._out_of_terms @scope nvarchar(400), @known bigint AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @message nvarchar(2048) = CONCAT(N'TG005 scope "', @scope, N'" stands at ', @known, N': no term is left above it; a term mistyped this high is taken back by reset_fence');
  EXEC @schema@._throw 50005, @message;
END
GO
-- The generation of the database as it is now, with which a scope is vouched for. @untrusted: whether a scope of @fence_generation is
-- untrusted. 50004 if this is called in a transaction and nobody has recorded a restore yet: that is recorded only outside one (_look).
-- Locks: row incarnation S statement
CREATE PROCEDURE @schema@._admit @fence_generation bigint, @generation bigint OUTPUT, @untrusted bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @suspect bit;
  EXEC @schema@._look @suspect OUTPUT;
  IF @suspect = 1 THROW 50004, 'TG004 every fence of this database is untrusted, for it was restored or failed over: repeat this outside a transaction', 1;
  SELECT @generation = i.generation, @untrusted = CASE WHEN ISNULL(@fence_generation, 0) < i.trusted_since THEN 1 ELSE 0 END FROM @schema@.incarnation i WITH (READCOMMITTEDLOCK);
END
GO
-- The name of the lock that proves that this very transaction has acquired a term: an application lock of the transaction, whose name only
-- those can compute who can read the fence's secret. It ends with the transaction, and with the server. NOLOCK is enough: the name counts
-- only if this transaction has the lock, and then nobody else changes the row. NULL: the fence is not at that term. @arguments: '' for the
-- acquisition itself, otherwise what it was called with.
-- Locks: row fences none statement
CREATE FUNCTION @schema@._acquisition(@scope_key varbinary(800), @term bigint, @arguments nvarchar(2100)) RETURNS nvarchar(200) AS
BEGIN
  DECLARE @name nvarchar(200);
  SELECT @name = @schema@._resource(N'h', @scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(8000), CONCAT(f.pass_key, N' ', @term, N' ', @arguments))))
    FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key AND f.term = @term;
  RETURN @name;
END
GO
-- acquire_lease(scope, owner, ttl_ms, endpoint, grace_ms) → one row. Takes a free or expired lease, or the caller's own, under a new term,
-- and seals it in the same transaction. If another owner's lease is live: acquired is 0 at once, without a lock on the scope (if somebody
-- holds the lease's row, after a wait for the lease's lock). Afterwards an untrusted scope is trusted again: its term jumps by 2^32 to
-- 2^33. Called again in the caller's transaction with the same owner, TTL and endpoint it returns the first call's row.
-- Locks: row first_read S statement
-- Locks: row leases none statement
-- Locks: row leases S statement
-- Locks: lease exclusive statement
-- Locks: row leases U transaction
-- Locks: row fences U transaction
-- Locks: row leases X transaction
CREATE PROCEDURE @schema@.acquire_lease @scope nvarchar(4000), @owner nvarchar(4000), @ttl_ms bigint, @endpoint nvarchar(2000) = NULL, @grace_ms bigint = NULL AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @evicted int = 0, @known bigint, @evidence bigint, @term bigint, @now datetime2(3), @expires datetime2(3), @released datetime2(3);
  DECLARE @holder nvarchar(400), @issued bigint, @generation bigint, @fence_generation bigint, @previous bigint, @acquired bit = 0, @detail nvarchar(max), @own_lease bit, @untrusted bit, @announced bigint, @session int, @login nvarchar(30), @who nvarchar(1000), @raising bigint, @asleep bit;
  DECLARE @seen bit = 0, @raise bit, @winner nvarchar(400), @won bigint, @lock_owner nvarchar(32), @grace_until datetime2(3), @until datetime2(3), @ended int = 0, @before bigint, @over datetime2(3);
  DECLARE @role sysname = @schema_lit@ + N'_lock', @name nvarchar(200), @rc int, @arguments nvarchar(2100) = CONCAT(@ttl_ms, CASE WHEN @endpoint IS NOT NULL THEN N' ' END, @endpoint), @message nvarchar(2048);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_owner @owner;
  EXEC @schema@._need_ttl @ttl_ms;
  IF @grace_ms NOT BETWEEN 0 AND 3600000 THROW 50005, 'TG005 the grace must be from 0 to 3600000 ms', 1;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    SELECT @holder = l.owner_id, @issued = l.term, @expires = l.expires_at, @released = l.released_at FROM @schema@.leases l WITH (NOLOCK) WHERE l.scope_key = @key;
    SET @own_lease = CASE WHEN @holder IS NULL OR CONVERT(varbinary(800), @holder) = CONVERT(varbinary(800), @owner) THEN 1 ELSE 0 END;
    IF @own_lease = 0 AND @released IS NULL AND @expires > SYSUTCDATETIME()
    BEGIN
      -- A live lease is believed if it is committed. If somebody holds its row (READPAST skips that), the row is read again under the
      -- lease's own lock: that evicts a session that has renewed or acquired the lease in an idle transaction, and no other.
      SELECT @seen = 1 FROM @schema@.leases l WITH (READPAST, READCOMMITTEDLOCK) WHERE l.scope_key = @key;
      IF @seen = 0
      BEGIN
        SET @name = @schema@._resource(N'l', @key);
        SET @lock_owner = CASE WHEN @own = 1 THEN N'Session' ELSE N'Transaction' END;
        SET @grace_until = DATEADD(millisecond, ISNULL(@grace_ms, CAST(@schema@._setting('eviction_grace_ms') AS bigint)), SYSUTCDATETIME());
        SET @until = DATEADD(millisecond, CAST(@schema@._setting('check_wait_ms') AS int), @grace_until);
        EXEC @schema@._take @scope, 4611686018427387904, @name, @lock_owner, @grace_until, @until, @ended OUTPUT;
        SET @holder = NULL;
        SELECT @holder = l.owner_id, @issued = l.term, @expires = l.expires_at, @released = l.released_at FROM @schema@.leases l WITH (READCOMMITTEDLOCK) WHERE l.scope_key = @key;
        EXEC sp_releaseapplock @Resource = @name, @LockOwner = @lock_owner, @DbPrincipal = @role;
        SET @name = NULL;
        SET @own_lease = CASE WHEN @holder IS NULL OR CONVERT(varbinary(800), @holder) = CONVERT(varbinary(800), @owner) THEN 1 ELSE 0 END;
        IF @holder IS NULL SET @issued = NULL;
      END
    END
    IF @own = 0 SET @name = @schema@._acquisition(@key, @issued, N'');
    IF @name IS NOT NULL AND @own_lease = 1 AND @released IS NULL AND @expires > SYSUTCDATETIME() AND APPLOCK_MODE(@role, ISNULL(@name, N'tg'), N'Transaction') = N'Exclusive'
    BEGIN
      IF APPLOCK_MODE(@role, @schema@._acquisition(@key, @issued, @arguments), N'Transaction') <> N'Exclusive'
      BEGIN
        SET @message = CONCAT(N'TG005 this transaction has acquired the lease of scope "', @scope, N'" already, with another TTL or endpoint: use renew_lease');
        EXEC @schema@._throw 50005, @message;
      END
      SET @acquired = 1;
    END
    ELSE IF (@own_lease = 1 OR @released IS NOT NULL OR @expires <= SYSUTCDATETIME()) AND @schema@._may_follow(@key, @issued, @owner) = 1
    BEGIN
      -- No adopted table is read before the lock is held: a stale leader may have locked one.
      SET @evidence = @schema@._shown(@key);
      SET @known = CASE WHEN @issued > @evidence THEN @issued ELSE @evidence END;
      IF @known >= 4611686018427387904 EXEC @schema@._out_of_terms @scope, @known;
      SET @announced = @known + 1;
      -- An acquisition that is idle in its client's transaction has announced this very term, and would never be evicted: go one above it.
      SET @name = @schema@._resource(N't', @key);
      EXEC @schema@._holder @name, @key, -2147483648, @session OUTPUT, @login OUTPUT, @who OUTPUT, @raising OUTPUT, @asleep OUTPUT;
      IF @asleep = 1 AND @raising >= @announced AND @raising < 4611686018427387904 SET @announced = @raising + 1;
      -- The time of an expired lease was the grace, so the shorter setting applies.
      IF @grace_ms IS NULL AND @released IS NULL AND @expires <= SYSUTCDATETIME()
        SELECT @grace_ms = MIN(CAST(s.value AS bigint)) FROM @schema@.settings s WITH (NOLOCK) WHERE s.name IN ('eviction_grace_ms', 'grace_after_expiry_ms');
      SET @raise = 1;
      SET @winner = @owner;
      EXEC @schema@._exclude @scope, @key, @announced, @grace_ms, @own, @evicted OUTPUT, 1, @raise OUTPUT, @winner OUTPUT, @won OUTPUT, @expires OUTPUT;
      IF @raise = 0
      BEGIN
        SET @holder = @winner;
        SET @issued = @won;
      END
      ELSE
      BEGIN
        SET @evicted = @evicted + @ended;
        IF @own = 1 EXEC @schema@._look;
        IF @own = 1 BEGIN TRANSACTION;
        SET @holder = NULL;
        SET @issued = NULL;
        SELECT @holder = l.owner_id, @issued = l.term, @expires = l.expires_at, @released = l.released_at FROM @schema@.leases l WITH (UPDLOCK, ROWLOCK) WHERE l.scope_key = @key;
        SET @now = SYSUTCDATETIME();
        SET @own_lease = CASE WHEN @holder IS NULL OR CONVERT(varbinary(800), @holder) = CONVERT(varbinary(800), @owner) THEN 1 ELSE 0 END;
        IF (@own_lease = 1 OR @released IS NOT NULL OR @expires <= @now) AND @schema@._may_follow(@key, @issued, @owner) = 1
        BEGIN
          SET @before = @issued;
          SET @over = CASE WHEN @released IS NOT NULL THEN @released WHEN @expires < @now THEN @expires ELSE @now END;
          SELECT @previous = f.term, @fence_generation = f.generation FROM @schema@.fences f WITH (UPDLOCK, ROWLOCK) WHERE f.scope_key = @key;
          EXEC @schema@._admit @fence_generation, @generation OUTPUT, @untrusted OUTPUT;
          -- A fence that exists and is trusted covers the adopted tables: each of their rows has raised it.
          IF @previous IS NULL OR @untrusted = 1 EXEC @schema@._evidence @scope, @key, @evidence OUTPUT;
          ELSE
          BEGIN
            SET @evidence = @schema@._stored_max(@key);
            IF @previous > @evidence SET @evidence = @previous;
          END
          SET @known = CASE WHEN @issued > @evidence THEN @issued ELSE @evidence END;
          -- A random distance: the next failover may lose this very acquisition, and its successor must not issue the same term again.
          IF @untrusted = 1 SET @known = @known + 4294967296 + CONVERT(bigint, SUBSTRING(CONVERT(varbinary(16), NEWID()), 1, 4));
          SET @term = @known + 1;
          IF @term > 4611686018427387904 EXEC @schema@._out_of_terms @scope, @known;
          SET @expires = DATEADD(millisecond, @ttl_ms, @now);
          UPDATE @schema@.leases WITH (ROWLOCK) SET owner_id = @owner, term = @term, expires_at = @expires, acquired_at = @now, renewed_at = @now, released_at = NULL, endpoint = @endpoint WHERE scope_key = @key;
          IF @@ROWCOUNT = 0
            INSERT INTO @schema@.leases (scope_key, scope, owner_id, term, expires_at, acquired_at, renewed_at, endpoint) VALUES (@key, @scope, @owner, @term, @expires, @now, @now, @endpoint);
          SET @detail = (SELECT @owner AS owner, @holder AS previous_owner, @previous AS previous, @evicted AS evicted, @expires AS expires_at, @endpoint AS endpoint, @untrusted AS was_untrusted FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
          IF @evicted > 0 EXEC @schema@._audit 'evict', @scope, NULL, @detail;
          IF @before IS NOT NULL EXEC @schema@._handed_over @scope, @key, @before, @released, @over, @owner, @term, @now;
          EXEC @schema@._set_fence @scope, @key, @term, 'acquire', @owner, @detail, @generation;
          SET @acquired = 1;
          SET @holder = @owner;
          SET @issued = @term;
          IF @own = 0
          BEGIN
            SET @name = @schema@._acquisition(@key, @term, N'');
            EXEC @rc = sp_getapplock @Resource = @name, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 1000, @DbPrincipal = @role;
            SET @name = @schema@._acquisition(@key, @term, @arguments);
            IF @rc >= 0 EXEC @rc = sp_getapplock @Resource = @name, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 1000, @DbPrincipal = @role;
            IF @rc < 0 THROW 50006, 'TG006 the mark of an acquisition is held by another session', 1;
          END
        END
        IF @own = 1 COMMIT TRANSACTION;
        IF @own = 1 EXEC @schema@._release @key, @announced;
      END
    END
    SELECT @acquired AS acquired, @issued AS term, @schema@._ms(@expires) AS expires_at_ms, @holder AS owner_id, DATEDIFF_BIG(millisecond, SYSUTCDATETIME(), @expires) AS remaining_ms, @expires AS expires_at;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @announced;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- renew_lease(scope, owner, term, ttl_ms) → one row. Only the holder can renew, under the same term, before expiry. leave_in_ms: the holder
-- is asked to give the lease back within this time (0016); after that it is renewed no more.
-- Locks: row first_read S statement
-- Locks: row fences none statement
-- Locks: row leases X transaction
CREATE PROCEDURE @schema@.renew_lease @scope nvarchar(4000), @owner nvarchar(4000), @term bigint, @ttl_ms bigint AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @now datetime2(3), @expires datetime2(3), @renewed bit = 0, @generation bigint, @leave datetime2(3);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_owner @owner;
  EXEC @schema@._need_term @term;
  EXEC @schema@._need_ttl @ttl_ms;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._lease_lock @scope, @key;
    -- NOLOCK: a raise of this scope may hold the row, and a renewal never waits for one. A raise changes the generation only if it vouches
    -- for the scope.
    SELECT @generation = f.generation FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @key;
    EXEC @schema@._need_trusted @scope, @generation;
    SET @leave = @schema@._leave_before(@key, @term);
    SET @now = SYSUTCDATETIME();
    UPDATE @schema@.leases WITH (ROWLOCK) SET expires_at = DATEADD(millisecond, @ttl_ms, @now), renewed_at = @now
     WHERE scope_key = @key AND CONVERT(varbinary(800), owner_id) = CONVERT(varbinary(800), @owner) AND term = @term AND released_at IS NULL AND expires_at > @now AND (@leave IS NULL OR @leave > @now);
    IF @@ROWCOUNT = 1 SET @renewed = 1;
    SELECT @expires = l.expires_at FROM @schema@.leases l WITH (READCOMMITTEDLOCK) WHERE l.scope_key = @key;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
  SELECT @renewed AS renewed, @schema@._ms(@expires) AS expires_at_ms, DATEDIFF_BIG(millisecond, SYSUTCDATETIME(), @expires) AS remaining_ms, DATEDIFF_BIG(millisecond, SYSUTCDATETIME(), @leave) AS leave_in_ms, @expires AS expires_at;
END
GO
-- renew_leases(leases) → one row for each, in order. outcome: renewed, lost, or busy (another session is working on that lease);
-- leave_in_ms as in renew_lease. `leases` is a JSON array of {scope, owner, term, ttl_ms}, at most 500, no scope twice. One transaction. An
-- untrusted scope fails the whole call with TG004: then renew the leases one by one.
CREATE PROCEDURE @schema@.renew_leases @leases nvarchar(max) AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @asked TABLE (place int NOT NULL PRIMARY KEY, scope nvarchar(400), owner nvarchar(400), term bigint, ttl_ms bigint, outcome nvarchar(10), leave_before datetime2(3));
  DECLARE @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @now datetime2(3), @generation bigint, @place int = 0, @count int, @scope nvarchar(400), @owner nvarchar(400),
          @term bigint, @ttl_ms bigint, @lease nvarchar(64), @role sysname = @schema_lit@ + N'_lock', @rc int, @one int, @at int = 0, @element nvarchar(max), @leave datetime2(3);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @count = 0;
  WHILE 1 = 1
  BEGIN
    EXEC @schema@._next_element @leases, N'the leases to renew', @at OUTPUT, @element OUTPUT;
    IF @element IS NULL BREAK;
    IF @count = 500 THROW 50005, 'TG005 at most 500 leases are renewed in one call', 1;
    INSERT INTO @asked (place, scope, owner, term, ttl_ms)
    VALUES (@count, JSON_VALUE(@element, '$.scope'), JSON_VALUE(@element, '$.owner'), TRY_CAST(JSON_VALUE(@element, '$.term') AS bigint), TRY_CAST(JSON_VALUE(@element, '$.ttl_ms') AS bigint));
    SET @count = @count + 1;
  END
  IF EXISTS (SELECT 1 FROM @asked a WHERE a.scope IS NULL OR a.owner IS NULL OR a.term IS NULL OR a.ttl_ms IS NULL OR a.ttl_ms NOT BETWEEN 100 AND 86400000)
    THROW 50005, 'TG005 each lease needs scope, owner, term and a ttl_ms from 100 to 86400000', 1;
  IF (SELECT COUNT(DISTINCT CONVERT(varbinary(800), a.scope)) FROM @asked a) <> @count THROW 50005, 'TG005 a scope is named twice among the leases to renew', 1;
  BEGIN TRY
    IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    WHILE @place < @count
    BEGIN
      SELECT @scope = a.scope, @owner = a.owner, @term = a.term, @ttl_ms = a.ttl_ms FROM @asked a WHERE a.place = @place;
      SET @key = CONVERT(varbinary(800), @scope);
      SET @lease = @schema@._resource(N'l', @key);
      EXEC @rc = sp_getapplock @Resource = @lease, @LockMode = N'Exclusive', @LockOwner = N'Transaction', @LockTimeout = 0, @DbPrincipal = @role;
      IF @rc < 0 UPDATE @asked SET outcome = N'busy' WHERE place = @place;
      ELSE
      BEGIN
        SET @generation = NULL;
        SELECT @generation = f.generation FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @key;
        EXEC @schema@._need_trusted @scope, @generation;
        SET @leave = @schema@._leave_before(@key, @term);
        SET @now = SYSUTCDATETIME();
        UPDATE @schema@.leases WITH (ROWLOCK) SET expires_at = DATEADD(millisecond, @ttl_ms, @now), renewed_at = @now
         WHERE scope_key = @key AND CONVERT(varbinary(800), owner_id) = CONVERT(varbinary(800), @owner) AND term = @term AND released_at IS NULL AND expires_at > @now AND (@leave IS NULL OR @leave > @now);
        UPDATE @asked SET outcome = CASE WHEN @@ROWCOUNT = 1 THEN N'renewed' ELSE N'lost' END, leave_before = @leave WHERE place = @place;
      END
      SET @place = @place + 1;
    END
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
  SELECT a.outcome, DATEDIFF_BIG(millisecond, SYSUTCDATETIME(), a.leave_before) AS leave_in_ms FROM @asked a ORDER BY a.place;
END
GO
-- release_lease(scope, owner, term) → released. Row, term and fence stay.
-- Locks: row first_read S statement
-- Locks: row leases X transaction
CREATE PROCEDURE @schema@.release_lease @scope nvarchar(4000), @owner nvarchar(4000), @term bigint, @released bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @detail nvarchar(max);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_owner @owner;
  EXEC @schema@._need_term @term;
  SET @key = CONVERT(varbinary(800), @scope);
  SET @released = 0;
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._lease_lock @scope, @key;
    UPDATE @schema@.leases WITH (ROWLOCK) SET released_at = SYSUTCDATETIME() WHERE scope_key = @key AND CONVERT(varbinary(800), owner_id) = CONVERT(varbinary(800), @owner) AND term = @term AND released_at IS NULL;
    IF @@ROWCOUNT = 1
    BEGIN
      SET @released = 1;
      SET @detail = (SELECT @term AS term, @owner AS owner FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
      EXEC @schema@._audit 'release', @scope, @owner, @detail;
    END
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- force_release(scope, actor, reason) → released: whether there was a lease to end. Seals the next term, which shuts the holder out at
-- once.
-- Locks: row first_read S statement
-- Locks: row leases none statement
-- Locks: row leases U transaction
-- Locks: row fences S statement
-- Locks: row leases X transaction
CREATE PROCEDURE @schema@.force_release @scope nvarchar(4000), @actor nvarchar(4000), @reason nvarchar(4000), @released bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @evicted int = 0, @evidence bigint, @term bigint, @holder nvarchar(400), @issued bigint, @generation bigint, @detail nvarchar(max), @announced bigint, @fence bigint;
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_reason @actor, @reason;
  SET @key = CONVERT(varbinary(800), @scope);
  SET @released = 0;
  SELECT @announced = l.term + 1 FROM @schema@.leases l WITH (NOLOCK) WHERE l.scope_key = @key AND l.released_at IS NULL;
  IF @announced IS NULL RETURN 0;
  BEGIN TRY
    EXEC @schema@._exclude @scope, @key, @announced, NULL, @own, @evicted OUTPUT, 1;
    IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    SELECT @holder = l.owner_id, @issued = l.term FROM @schema@.leases l WITH (UPDLOCK, ROWLOCK) WHERE l.scope_key = @key AND l.released_at IS NULL;
    IF @issued IS NOT NULL
    BEGIN
      SELECT @fence = f.term, @generation = f.generation FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @key;
      EXEC @schema@._need_trusted @scope, @generation;
      IF @generation IS NULL EXEC @schema@._evidence @scope, @key, @evidence OUTPUT;
      ELSE
      BEGIN
        SET @evidence = @schema@._stored_max(@key);
        IF @fence > @evidence SET @evidence = @fence;
      END
      SET @term = 1 + CASE WHEN @issued > @evidence THEN @issued ELSE @evidence END;
      IF @term > 4611686018427387904 EXEC @schema@._out_of_terms @scope, @evidence;
      UPDATE @schema@.leases WITH (ROWLOCK) SET released_at = SYSUTCDATETIME() WHERE scope_key = @key;  -- it keeps the holder's term
      SET @detail = (SELECT @holder AS owner, @evidence AS previous, @reason AS reason, @evicted AS evicted FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
      EXEC @schema@._set_fence @scope, @key, @term, 'force_release', @actor, @detail;
      SET @released = 1;
    END
    IF @own = 1 COMMIT TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @announced;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @announced;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
