-- What operators do: lowering a fence, moving and pruning streams, settings, and declaring scopes trusted or untrusted. All of it except
-- pruning is audited. Locks: those at the head of each. Keeps F3.
DROP PROCEDURE IF EXISTS @schema@.reset_fence;
DROP PROCEDURE IF EXISTS @schema@.set_raise_by;
DROP PROCEDURE IF EXISTS @schema@._need_own;
DROP PROCEDURE IF EXISTS @schema@._set_setting;
DROP PROCEDURE IF EXISTS @schema@.set_setting;
DROP PROCEDURE IF EXISTS @schema@.set_settings;
DROP PROCEDURE IF EXISTS @schema@.prune;
DROP PROCEDURE IF EXISTS @schema@.prune_history;
DROP PROCEDURE IF EXISTS @schema@.stream_move;
DROP PROCEDURE IF EXISTS @schema@.declare_restored;
DROP PROCEDURE IF EXISTS @schema@.declare_nothing_lost;
DROP PROCEDURE IF EXISTS @schema@.declare_untrusted;
GO
-- reset_fence(scope, term, actor, reason) → previous. The only way down. A lease with a higher term ends.
-- Locks: row first_read S statement
-- Locks: row fences U transaction
-- Locks: row resets X transaction
-- Locks: row adopted_terms X transaction
-- Locks: row leases X transaction
CREATE PROCEDURE @schema@.reset_fence @scope nvarchar(4000), @term bigint, @actor nvarchar(4000), @reason nvarchar(4000), @previous bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @evicted int = 0, @evidence bigint, @generation bigint, @detail nvarchar(max), @message nvarchar(2048);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_term @term;
  EXEC @schema@._need_reason @actor, @reason;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    EXEC @schema@._exclude @scope, @key, @term, NULL, @own, @evicted OUTPUT, 1;
    IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    SET @previous = NULL;
    SELECT @previous = f.term, @generation = f.generation FROM @schema@.fences f WITH (UPDLOCK, ROWLOCK) WHERE f.scope_key = @key;
    IF @previous IS NULL THROW 50005, 'TG005 the scope has no fence', 1;
    IF @term > @previous
    BEGIN
      SET @message = CONCAT(N'TG005 the fence of scope "', @scope, N'" stands at ', @previous, N': a reset lowers it, a seal raises it');
      EXEC @schema@._throw 50005, @message;
    END
    EXEC @schema@._need_trusted @scope, @generation;
    EXEC @schema@._evidence @scope, @key, @evidence OUTPUT;
    IF @term < @previous INSERT INTO @schema@.resets (scope_key, from_term, to_term) VALUES (@key, @previous, @term);
    UPDATE @schema@.adopted_terms SET term = @term WHERE scope_key = @key AND term > @term;
    -- The rows show more than the fence did, so their terms are taken back too.
    IF @evidence > @previous INSERT INTO @schema@.resets (scope_key, from_term, to_term) VALUES (@key, @evidence, @term);
    UPDATE @schema@.leases WITH (ROWLOCK) SET term = @term, released_at = ISNULL(released_at, SYSUTCDATETIME()) WHERE scope_key = @key AND term > @term;
    SET @detail = (SELECT @previous AS previous, @evidence AS evidence, @reason AS reason, @evicted AS evicted FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
    EXEC @schema@._set_fence @scope, @key, @term, 'reset', @actor, @detail;
    UPDATE @schema@.resets SET open_now = 0 WHERE scope_key = @key AND open_now = 1;
    IF @own = 1 COMMIT TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @term;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @term;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- set_raise_by(scope, raise_by). writer: any writer with a higher term raises the fence. seal: no writer does.
-- Locks: row first_read S statement
-- Locks: row fences U transaction
-- Locks: row fences X transaction
CREATE PROCEDURE @schema@.set_raise_by @scope nvarchar(4000), @raise_by nvarchar(100) AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @evicted int = 0, @detail nvarchar(max), @evidence bigint, @announced bigint;
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  IF @raise_by IS NULL OR @raise_by NOT IN (N'writer', N'seal') THROW 50005, 'TG005 raise_by must be writer or seal', 1;
  SET @key = CONVERT(varbinary(800), @scope);
  -- It raises no fence that is there. It announces the fence's term, so that every raise above that goes first.
  SET @announced = @schema@._shown(@key);
  IF @announced < 1 SET @announced = 1;
  BEGIN TRY
    EXEC @schema@._exclude @scope, @key, @announced, NULL, @own, @evicted OUTPUT;
    IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    SET @detail = (SELECT @raise_by AS raise_by, @evicted AS evicted FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
    IF NOT EXISTS (SELECT 1 FROM @schema@.fences f WITH (UPDLOCK, ROWLOCK) WHERE f.scope_key = @key)
    BEGIN
      EXEC @schema@._need_trusted @scope, NULL;
      EXEC @schema@._evidence @scope, @key, @evidence OUTPUT;
      EXEC @schema@._set_fence @scope, @key, @evidence, 'raise', NULL, @detail;
    END
    UPDATE @schema@.fences WITH (ROWLOCK) SET raise_by = @raise_by WHERE scope_key = @key;
    EXEC @schema@._audit 'set_raise_by', @scope, NULL, @detail;
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
-- For calls that change a row which every check reads: in a caller's transaction the change would stop all checks until that ends.
CREATE PROCEDURE @schema@._need_own @what nvarchar(100) AS
BEGIN
  SET NOCOUNT ON;
  IF @@TRANCOUNT = 0 RETURN 0;
  DECLARE @message nvarchar(2048) = CONCAT(N'TG005 ', @what, N' inside a transaction would hold up every check until that ends: call it in a statement of its own');
  EXEC @schema@._throw 50005, @message;
END
GO
-- Changes one setting, in its caller's transaction.
-- Locks: row settings X transaction
CREATE PROCEDURE @schema@._set_setting @name nvarchar(100), @value nvarchar(100) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @before nvarchar(100), @detail nvarchar(max), @message nvarchar(2048);
  SELECT @before = s.value FROM @schema@.settings s WITH (NOLOCK) WHERE s.name = @name;
  IF @before IS NULL
  BEGIN
    SET @message = CONCAT(N'TG005 there is no setting "', @name, N'": the settings are check_wait_ms, default_raise_by, eviction_grace_ms, failover, grace_after_expiry_ms, payload_bytes_max');
    EXEC @schema@._throw 50005, @message;
  END
  IF @value IS NULL THROW 50005, 'TG005 a setting cannot be NULL', 1;
  SET @detail = (SELECT @name AS name, @value AS value, @before AS previous FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  UPDATE @schema@.settings SET value = @value WHERE name = @name;
  EXEC @schema@._audit 'setting', NULL, NULL, @detail;
END
GO
-- set_setting(name, value). In a transaction of its own.
CREATE PROCEDURE @schema@.set_setting @name nvarchar(100), @value nvarchar(100) AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_own N'set_setting';
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._set_setting @name, @value;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @name;
    THROW;
  END CATCH
END
GO
-- set_settings(settings) → changed: how many. All or none. `settings` is a JSON array of {name, value}. In a transaction of its own.
CREATE PROCEDURE @schema@.set_settings @settings nvarchar(max), @changed bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @asked TABLE (place int NOT NULL PRIMARY KEY, name nvarchar(100), value nvarchar(100));
  DECLARE @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @place int = 0, @count int = 0, @name nvarchar(100), @value nvarchar(100), @at int = 0, @element nvarchar(max);
  EXEC @schema@._need_own N'set_settings';
  WHILE 1 = 1
  BEGIN
    EXEC @schema@._next_element @settings, N'the settings', @at OUTPUT, @element OUTPUT;
    IF @element IS NULL BREAK;
    INSERT INTO @asked (place, name, value) VALUES (@count, JSON_VALUE(@element, '$.name'), JSON_VALUE(@element, '$.value'));
    SET @count = @count + 1;
  END
  BEGIN TRY
    IF @own = 1 BEGIN TRANSACTION;
    WHILE @place < @count
    BEGIN
      SELECT @name = a.name, @value = a.value FROM @asked a WHERE a.place = @place;
      EXEC @schema@._set_setting @name, @value;
      SET @place = @place + 1;
    END
    IF @own = 1 COMMIT TRANSACTION;
    SET @changed = @count;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late N'settings';
    THROW;
  END CATCH
END
GO
-- prune(stream, before) → pruned: how many writes with a lower number were deleted. Fence, numbering and write ids stay. Nothing is pruned
-- if the fence is below what the rows show. Outside a transaction it deletes 1,000 rows at a time, each time in a transaction of its own;
-- what was pruned before an error stays pruned.
-- Locks: row streams S statement
-- Locks: row fences S statement
-- Locks: row stream_writes X transaction
CREATE PROCEDURE @schema@.prune @stream nvarchar(4000), @before bigint, @pruned bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @scope nvarchar(400), @scope_key varbinary(800), @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @stored bigint, @fence bigint, @message nvarchar(2048), @deleted int = 1;
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @stream, N'stream';
  IF @before IS NULL OR @before < 1 THROW 50005, 'TG005 prune deletes what stands before a sequence number: 1 or more', 1;
  SET @key = CONVERT(varbinary(800), @stream);
  SET @pruned = 0;
  BEGIN TRY
    SELECT @scope = s.scope, @scope_key = s.scope_key FROM @schema@.streams s WITH (INDEX (streams_identity), READCOMMITTEDLOCK) WHERE s.stream_key = @key;
    IF @scope IS NULL
    BEGIN
      SET @message = CONCAT(N'TG005 there is no stream "', @stream, N'"');
      EXEC @schema@._throw 50005, @message;
    END
    -- NOLOCK first: the newest rows may belong to a transaction that is still open.
    SELECT @fence = f.term FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @scope_key;
    SET @stored = @schema@._stored_look(@scope_key);
    IF @fence < @stored SET @stored = @schema@._stored_max(@scope_key);
    IF @fence IS NULL OR @fence < @stored THROW 50005, 'TG005 the fence of this scope stands below its rows: they are its only memory; seal the scope first', 1;
    WHILE @deleted > 0
    BEGIN
      IF @own = 1 BEGIN TRANSACTION;
      DELETE TOP (1000) FROM @schema@.stream_writes WITH (ROWLOCK) WHERE stream_key = @key AND sequence_no < @before;
      SET @deleted = @@ROWCOUNT;
      IF @own = 1 COMMIT TRANSACTION;
      SET @pruned = @pruned + @deleted;
    END
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- prune_history(older_than_ms) → pruned: old rows of the audit, of observations and of ended job runs, up to 3,000 rows at a time. Fences
-- and resets stay.
-- Locks: row audit X transaction
-- Locks: row job_runs X transaction
-- Locks: row observed X transaction
CREATE PROCEDURE @schema@.prune_history @older_than_ms bigint, @pruned bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @until datetime2(3), @deleted int, @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  IF @older_than_ms IS NULL OR @older_than_ms NOT BETWEEN 0 AND 3153600000000 THROW 50005, 'TG005 the age is a number of milliseconds, up to 100 years', 1;
  SET @until = DATEADD(millisecond, -CAST(@older_than_ms % 86400000 AS int), DATEADD(day, -CAST(@older_than_ms / 86400000 AS int), SYSUTCDATETIME()));
  SET @pruned = 0;
  SET @deleted = 1;
  BEGIN TRY
    WHILE @deleted > 0
    BEGIN
      IF @own = 1 BEGIN TRANSACTION;
      DELETE TOP (1000) FROM @schema@.audit WITH (ROWLOCK) WHERE at < @until;
      SET @deleted = @@ROWCOUNT;
      -- The last completed run of a job shows when the next one is due (--once-per), and the last run's checkpoint shows where it begins
      -- (--resume). Dry runs, and requests that nobody has begun, show neither.
      DELETE TOP (1000) FROM @schema@.job_runs WITH (ROWLOCK) WHERE completed_at < @until
         AND (status <> 'completed' OR request = 'dry-run'
              OR EXISTS (SELECT 1 FROM @schema@.job_runs o WITH (READCOMMITTEDLOCK) WHERE o.scope_key = job_runs.scope_key AND o.job_name = job_runs.job_name AND o.status = 'completed' AND (o.request IS NULL OR o.request <> 'dry-run')
                         AND (o.started_at > job_runs.started_at OR o.started_at = job_runs.started_at AND o.run_id > job_runs.run_id) AND o.started_at <= SYSUTCDATETIME()))
         AND (status = 'completed' OR [checkpoint] IS NULL OR request = 'dry-run'
              OR EXISTS (SELECT 1 FROM @schema@.job_runs o WITH (READCOMMITTEDLOCK) WHERE o.scope_key = job_runs.scope_key AND o.job_name = job_runs.job_name AND o.term > 0 AND (o.request IS NULL OR o.request <> 'dry-run')
                         AND (o.started_at > job_runs.started_at OR o.started_at = job_runs.started_at AND o.run_id > job_runs.run_id) AND o.started_at <= SYSUTCDATETIME()));
      SET @deleted = @deleted + @@ROWCOUNT;
      DELETE TOP (1000) FROM @schema@.observed WITH (ROWLOCK) WHERE at < @until;
      SET @deleted = @deleted + @@ROWCOUNT;
      IF @own = 1 COMMIT TRANSACTION;
      SET @pruned = @pruned + @deleted;
    END
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late NULL;
    THROW;
  END CATCH
END
GO
-- stream_move(stream, scope, actor, reason) → moved; 0: that scope guards the stream already. Both fences are locked, in the order of their
-- bytes. Terms never fall along the stream.
-- Locks: row first_read S statement
-- Locks: row streams S statement
-- Locks: row stream_writes none statement
-- Locks: row fences S statement
-- Locks: row stream_writes S statement
-- Locks: row streams X transaction
CREATE PROCEDURE @schema@.stream_move @stream nvarchar(4000), @scope nvarchar(4000), @actor nvarchar(4000), @reason nvarchar(4000), @moved bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @from nvarchar(400), @from_key varbinary(800), @to_key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @evicted int = 0, @evicted_to int = 0, @from_term bigint, @to_term bigint, @highest bigint, @fence bigint, @of bigint, @generation bigint, @to_generation bigint;
  DECLARE @detail nvarchar(max), @message nvarchar(2048);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @stream, N'stream';
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_reason @actor, @reason;
  SET @key = CONVERT(varbinary(800), @stream);
  SET @to_key = CONVERT(varbinary(800), @scope);
  SET @moved = 0;
  SELECT @from = s.scope, @from_key = s.scope_key FROM @schema@.streams s WITH (INDEX (streams_identity), READCOMMITTEDLOCK) WHERE s.stream_key = @key;
  IF @from IS NULL
  BEGIN
    SET @message = CONCAT(N'TG005 there is no stream "', @stream, N'"');
    EXEC @schema@._throw 50005, @message;
  END
  IF @from_key = @to_key RETURN 0;
  -- It announces the old scope's fence, and the term to which the new scope may be raised, so that a raise to less does not evict it.
  SET @from_term = @schema@._shown(@from_key);
  SET @to_term = @schema@._shown(@to_key);
  SELECT @highest = MAX(w.term) FROM @schema@.stream_writes w WITH (NOLOCK) WHERE w.stream_key = @key AND w.term <= @from_term;
  IF @highest > @to_term SET @to_term = @highest;
  IF @from_term < 1 SET @from_term = 1;
  IF @to_term < 1 SET @to_term = 1;
  BEGIN TRY
    IF @from_key < @to_key EXEC @schema@._exclude @from, @from_key, @from_term, NULL, @own, @evicted OUTPUT;
    EXEC @schema@._exclude @scope, @to_key, @to_term, NULL, @own, @evicted_to OUTPUT;
    IF @from_key > @to_key EXEC @schema@._exclude @from, @from_key, @from_term, NULL, @own, @evicted OUTPUT;
    IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    SELECT @generation = f.generation FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @from_key;
    EXEC @schema@._need_trusted @from, @generation;
    SELECT @to_generation = f.generation FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @to_key;
    EXEC @schema@._need_trusted @scope, @to_generation;
    EXEC @schema@._evidence @from, @from_key, @of OUTPUT;
    SELECT @highest = ISNULL(MAX(w.term), 0) FROM @schema@.stream_writes w WITH (READCOMMITTEDLOCK) WHERE w.stream_key = @key AND w.term <= @of;
    EXEC @schema@._evidence @scope, @to_key, @fence OUTPUT;
    IF @highest > @fence OR NOT EXISTS (SELECT 1 FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @to_key)
    BEGIN
      EXEC @schema@._need_issued @scope, @to_key, @highest;
      SET @detail = (SELECT @fence AS previous, @reason AS reason FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
      IF @fence > @highest SET @highest = @fence;
      IF @highest < 1 SET @highest = 1;
      EXEC @schema@._set_fence @scope, @to_key, @highest, 'raise', @actor, @detail;
    END
    UPDATE @schema@.streams WITH (ROWLOCK) SET scope = @scope, scope_key = @to_key WHERE stream_key = @key AND scope_key = @from_key;
    IF @@ROWCOUNT <> 1 THROW 50005, 'TG005 the stream was moved by another session meanwhile', 1;
    SET @detail = (SELECT @stream AS stream, @from AS [from], @reason AS reason FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
    EXEC @schema@._audit 'stream_move', @scope, @actor, @detail;
    IF @evicted > 0
    BEGIN
      SET @detail = CONCAT(N'{"term":', @from_term, N',"evicted":', @evicted, N'}');
      EXEC @schema@._audit 'evict', @from, @actor, @detail;
    END
    IF @evicted_to > 0
    BEGIN
      SET @detail = CONCAT(N'{"term":', @to_term, N',"evicted":', @evicted_to, N'}');
      EXEC @schema@._audit 'evict', @scope, @actor, @detail;
    END
    IF @own = 1 COMMIT TRANSACTION;
    SET @moved = 1;
    IF @own = 1 EXEC @schema@._release @from_key, @from_term;
    IF @own = 1 EXEC @schema@._release @to_key, @to_term;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @from_key, @from_term;
    IF @own = 1 EXEC @schema@._release @to_key, @to_term;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- declare_restored(scope, above, actor, reason) → fence, which is at least `above`: the highest term that the authority that issues the
-- terms has given out. Releases the scope's lease. This one scope is trusted again.
-- Locks: row first_read S statement
-- Locks: row leases X transaction
CREATE PROCEDURE @schema@.declare_restored @scope nvarchar(4000), @above bigint, @actor nvarchar(4000), @reason nvarchar(4000), @fence bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @evicted int = 0, @generation bigint, @untrusted bit, @detail nvarchar(max);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_term @above;
  EXEC @schema@._need_reason @actor, @reason;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    EXEC @schema@._exclude @scope, @key, @above, NULL, @own, @evicted OUTPUT, 1;
    IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    EXEC @schema@._evidence @scope, @key, @fence OUTPUT;
    IF @above > @fence SET @fence = @above;
    EXEC @schema@._admit NULL, @generation OUTPUT, @untrusted OUTPUT;
    UPDATE @schema@.leases WITH (ROWLOCK) SET term = CASE WHEN term > @fence THEN term ELSE @fence END, released_at = ISNULL(released_at, SYSUTCDATETIME()) WHERE scope_key = @key;
    SET @detail = (SELECT @above AS above, @reason AS reason, @evicted AS evicted FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
    EXEC @schema@._set_fence @scope, @key, @fence, 'declare_restored', @actor, @detail, @generation;
    IF @own = 1 COMMIT TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @above;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @above;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- declare_nothing_lost(actor, reason) → how many scopes were untrusted: no raise is missing in this database (a planned failover).
-- Locks: row incarnation X transaction
-- Locks: row fences none statement
CREATE PROCEDURE @schema@.declare_nothing_lost @actor nvarchar(4000), @reason nvarchar(4000), @scopes bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @detail nvarchar(max), @since bigint, @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_reason @actor, @reason;
  EXEC @schema@._need_own N'declare_nothing_lost';
  BEGIN TRY
    EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    SELECT @since = i.trusted_since FROM @schema@.incarnation i WITH (UPDLOCK, ROWLOCK);
    UPDATE @schema@.incarnation SET trusted_since = 0;
    SELECT @scopes = COUNT(*) FROM @schema@.fences f WITH (NOLOCK) WHERE f.generation < @since;
    SET @detail = (SELECT @reason AS reason, @scopes AS scopes FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
    EXEC @schema@._audit 'declare_nothing_lost', NULL, @actor, @detail;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late NULL;
    THROW;
  END CATCH
END
GO
-- declare_untrusted(actor, reason) → how many scopes are untrusted now. For an older copy of this database that was put back in a way that
-- the database cannot detect.
-- Locks: row incarnation X transaction
-- Locks: row fences none statement
CREATE PROCEDURE @schema@.declare_untrusted @actor nvarchar(4000), @reason nvarchar(4000), @scopes bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @detail nvarchar(max), @since bigint, @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_reason @actor, @reason;
  EXEC @schema@._need_own N'declare_untrusted';
  SET @detail = (SELECT @reason AS reason FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  BEGIN TRY
    EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    UPDATE @schema@.incarnation SET generation = generation + 1, trusted_since = generation + 1;
    SELECT @scopes = COUNT(*) FROM @schema@.fences f WITH (NOLOCK);
    EXEC @schema@._audit 'declare_untrusted', NULL, @actor, @detail;
    IF @own = 1 COMMIT TRANSACTION;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    EXEC @schema@._late NULL;
    THROW;
  END CATCH
END
GO
