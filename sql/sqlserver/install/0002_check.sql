-- The check and the raise (docs/reference/lock-protocol.md, SQL Server). A scope has three application locks (turnstile, gate and queue)
-- and a row of fences. The locks order the waiting; the row is the truth. Locks: a check holds the queue shared to the end of its
-- transaction. A session in the gate of a proxy (0010) holds the gate shared. A raise holds all three exclusively. Inside a transaction,
-- the transaction owns them; otherwise the session does, around a transaction of its own, because KILL is not allowed inside a transaction.
-- Keeps F1, F2, F3, F4, F5.
-- What each procedure locks by itself is at its head, one line for each lock: `-- Locks: <resource> <mode> <until>`. Resources: turnstile,
-- gate, queue, lease, stream, announcement, mark, key (application locks) and row TABLE. Modes: shared, exclusive, test; S, U, X; none
-- (NOLOCK). Until: statement, transaction, session, owner (transaction or session, as @owner says).
-- Three rules hold everywhere:
-- 1. A read that only chooses the way takes no lock (NOLOCK): without READ_COMMITTED_SNAPSHOT it would wait for the very session that is to
-- be evicted ("SET TRANSACTION ISOLATION LEVEL (Transact-SQL)"). What decides is read under an application lock that keeps its writers
-- away: by a locking read, or by NOLOCK where nobody else can change it.
-- 2. No statement has HOLDLOCK, and checks, appends, leases and raises set the level READ COMMITTED: key-range locks would stop the next
-- scope. Each public procedure sets LOCK_TIMEOUT, and one that writes sets ROWCOUNT. What a procedure sets ends with it ("SET Statements
-- (Transact-SQL)").
-- 3. Nothing waits for a row longer than 5 s (LOCK_TIMEOUT), nor for an application lock longer than the settings say: then TG006.
-- (Procedures that only read wait 2 s: error 1222.)
DROP FUNCTION IF EXISTS @schema@._digits;
DROP FUNCTION IF EXISTS @schema@._resource;
DROP FUNCTION IF EXISTS @schema@._announcement;
DROP FUNCTION IF EXISTS @schema@._setting;
DROP FUNCTION IF EXISTS @schema@._name_problem;
DROP FUNCTION IF EXISTS @schema@._ms;
DROP FUNCTION IF EXISTS @schema@._stored_max;
DROP FUNCTION IF EXISTS @schema@._stored_look;
DROP FUNCTION IF EXISTS @schema@._shown;
DROP FUNCTION IF EXISTS @schema@._untrusted;
DROP PROCEDURE IF EXISTS @schema@._throw;
DROP PROCEDURE IF EXISTS @schema@._late;
DROP PROCEDURE IF EXISTS @schema@._need_scope;
DROP PROCEDURE IF EXISTS @schema@._need_term;
DROP PROCEDURE IF EXISTS @schema@._need_reason;
DROP PROCEDURE IF EXISTS @schema@._next_element;
DROP PROCEDURE IF EXISTS @schema@._stale;
DROP PROCEDURE IF EXISTS @schema@._audit;
DROP PROCEDURE IF EXISTS @schema@._look;
DROP PROCEDURE IF EXISTS @schema@._need_trusted;
DROP PROCEDURE IF EXISTS @schema@._holder;
DROP PROCEDURE IF EXISTS @schema@._row_holder;
DROP PROCEDURE IF EXISTS @schema@._kill;
DROP PROCEDURE IF EXISTS @schema@._blocked;
DROP PROCEDURE IF EXISTS @schema@._share;
DROP PROCEDURE IF EXISTS @schema@._take;
DROP PROCEDURE IF EXISTS @schema@._exclude;
DROP PROCEDURE IF EXISTS @schema@._release;
DROP PROCEDURE IF EXISTS @schema@._adopted_max;
DROP PROCEDURE IF EXISTS @schema@._evidence;
DROP PROCEDURE IF EXISTS @schema@._set_fence;
DROP PROCEDURE IF EXISTS @schema@._need_issued;
DROP PROCEDURE IF EXISTS @schema@._mark;
DROP PROCEDURE IF EXISTS @schema@._compare;
DROP PROCEDURE IF EXISTS @schema@._wants_raise;
DROP PROCEDURE IF EXISTS @schema@._raise;
DROP PROCEDURE IF EXISTS @schema@.check_term;
DROP PROCEDURE IF EXISTS @schema@.seal;
GO
-- 168 bits of a hash as decimal digits, seven bytes at a time so that no sign bit is in the way. Some T-SQL engines lack CONVERT's
-- hexadecimal styles and + between bytes.
CREATE FUNCTION @schema@._digits(@hash varbinary(32)) RETURNS nvarchar(60) AS
BEGIN
  RETURN CONCAT(CONVERT(bigint, SUBSTRING(@hash, 1, 7)), CONVERT(bigint, SUBSTRING(@hash, 8, 7)), CONVERT(bigint, SUBSTRING(@hash, 15, 7)));
END
GO
-- The name of an application lock: a kind and a hash of the schema and the scope's bytes. The kinds: q queue, g gate, t turnstile, l lease,
-- s new stream, p pass of a transaction, m pass of a session in the gate, a announcement, h acquisition, k key of the gate.
-- sys.dm_tran_locks shows 32 characters. The hash costs more than a lock, so another kind of the same scope is made by STUFF(name, 3, 1,
-- kind).
CREATE FUNCTION @schema@._resource(@kind nchar(1), @scope_key varbinary(800)) RETURNS nvarchar(64) AS
BEGIN
  RETURN N'tg' + @kind + N':' + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(400), CONCAT(@schema_lit@, N' ', @schema@._digits(HASHBYTES('SHA2_256', @scope_key))))));
END
GO
-- The lock by which a raise announces its term, so that a raise to a lower one does not evict it. Scope and term are within the 32
-- characters that others can see.
CREATE FUNCTION @schema@._announcement(@scope_key varbinary(800), @term bigint) RETURNS nvarchar(32) AS
BEGIN
  RETURN N'tga:' + LEFT(SUBSTRING(@schema@._resource(N'a', @scope_key), 5, 60), 9) + RIGHT(CONCAT(N'0000000000000000000', @term), 19);
END
GO
-- Locks: row settings none statement
CREATE FUNCTION @schema@._setting(@name varchar(40)) RETURNS nvarchar(100) AS
BEGIN
  RETURN (SELECT s.value FROM @schema@.settings s WITH (NOLOCK) WHERE s.name = @name);
END
GO
-- Milliseconds since 1970.
CREATE FUNCTION @schema@._ms(@at datetime2(3)) RETURNS bigint AS
BEGIN
  RETURN DATEDIFF_BIG(millisecond, CAST('19700101' AS datetime2(3)), @at);
END
GO
-- Why a name is not valid, or NULL. A dot is put after it because LEN leaves out trailing blanks. A pair of surrogates is one character.
-- 200 characters have at most 800 bytes, in UTF-16 and in UTF-8.
CREATE FUNCTION @schema@._name_problem(@name nvarchar(4000)) RETURNS nvarchar(200) AS
BEGIN
  DECLARE @units int = LEN((@name + N'.') COLLATE Latin1_General_BIN2) - 1, @characters int, @at int = 1;
  IF @name IS NULL RETURN N'is NULL';
  IF DATALENGTH(@name) = 0 RETURN N'is empty: it needs 1 to 200 characters';
  IF DATALENGTH(@name) > 800 RETURN N'has more than 200 characters';
  IF CHARINDEX(NCHAR(0) COLLATE Latin1_General_BIN2, @name COLLATE Latin1_General_BIN2) > 0 RETURN N'has a NUL';
  SET @characters = @units;
  IF @units > 200
    WHILE @at <= @units
    BEGIN
      IF UNICODE(SUBSTRING(@name COLLATE Latin1_General_BIN2, @at, 1)) BETWEEN 56320 AND 57343 SET @characters = @characters - 1;
      SET @at = @at + 1;
    END
  IF @characters > 200 RETURN N'has more than 200 characters';
  RETURN NULL;
END
GO
-- Raises a refusal whose message contains a name. In a message of THROW a % is written twice ("THROW (Transact-SQL)", Arguments); the
-- message stays within 2048 characters.
CREATE PROCEDURE @schema@._throw @number int, @message nvarchar(2048) AS
BEGIN
  SET NOCOUNT ON;
  IF SERVERPROPERTY('Babelfish') IS NULL
    SET @message = REPLACE(LEFT(@message, 2048 - (LEN(@message) - LEN(REPLACE(@message, N'%', N'')))), N'%', N'%%');
  THROW @number, @message, 1;
END
GO
CREATE PROCEDURE @schema@._need_scope @name nvarchar(4000), @what nvarchar(20) = N'scope' AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @problem nvarchar(200) = @schema@._name_problem(@name);
  IF @problem IS NULL RETURN 0;
  DECLARE @message nvarchar(2048) = CONCAT(N'TG005 the ', @what, N' ', @problem);
  EXEC @schema@._throw 50005, @message;
END
GO
CREATE PROCEDURE @schema@._need_term @term bigint AS
BEGIN
  SET NOCOUNT ON;
  IF @term IS NULL THROW 50005, 'TG005 the term is NULL', 1;
  IF @term BETWEEN 1 AND 4611686018427387904 RETURN 0;
  DECLARE @message nvarchar(2048) = CONCAT(N'TG005 term ', @term, N' is out of range: terms run from 1 to 4611686018427387904 (2^62)');
  EXEC @schema@._throw 50005, @message;
END
GO
CREATE PROCEDURE @schema@._need_reason @actor nvarchar(4000), @reason nvarchar(4000) AS
BEGIN
  SET NOCOUNT ON;
  IF LTRIM(RTRIM(ISNULL(@actor, N''))) = N'' OR DATALENGTH(@actor) > 800 THROW 50005, 'TG005 the actor must be named, in 1 to 200 characters: it is audited', 1;
  IF LTRIM(RTRIM(ISNULL(@reason, N''))) = N'' OR DATALENGTH(@reason) > 4000 THROW 50005, 'TG005 a reason must be given, in 1 to 2000 characters: it is audited', 1;
END
GO
-- The next element of a JSON array, for compatibility levels below 130, which have no OPENJSON. @at is 0 at first, then what the last call
-- left; @element NULL: there are no more. JSON_VALUE reads an element that is an object; any other it reads as the only element of an
-- array. TG005 if @json is no JSON array; @what names it.
CREATE PROCEDURE @schema@._next_element @json nvarchar(max), @what nvarchar(100), @at int OUTPUT, @element nvarchar(max) OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @from int, @depth int = 0, @quoted bit = 0, @c int, @units int = DATALENGTH(@json) / 2, @message nvarchar(2048);
  SET @element = NULL;
  IF @at = 0
  BEGIN
    SET @at = 1;
    WHILE @at <= @units AND UNICODE(SUBSTRING(@json COLLATE Latin1_General_BIN2, @at, 1)) IN (9, 10, 13, 32) SET @at = @at + 1;
    IF @json IS NULL OR ISJSON(@json) = 0 OR ISNULL(UNICODE(SUBSTRING(@json COLLATE Latin1_General_BIN2, @at, 1)), 0) <> 91
    BEGIN
      SET @message = CONCAT(N'TG005 ', @what, N' must be a JSON array');
      EXEC @schema@._throw 50005, @message;
    END
  END
  SET @at = @at + 1;
  SET @from = @at;
  WHILE @at <= @units
  BEGIN
    SET @c = UNICODE(SUBSTRING(@json COLLATE Latin1_General_BIN2, @at, 1));
    IF @quoted = 1
    BEGIN
      IF @c = 92 SET @at = @at + 1;
      IF @c = 34 SET @quoted = 0;
    END
    ELSE IF @c = 34 SET @quoted = 1;
    ELSE IF @c IN (91, 123) SET @depth = @depth + 1;
    ELSE IF @depth > 0 AND @c IN (93, 125) SET @depth = @depth - 1;
    ELSE IF @depth = 0 AND @c IN (44, 93) BREAK;
    SET @at = @at + 1;
  END
  SET @element = SUBSTRING(@json, @from, @at - @from);
  -- After the last element, and in an empty array.
  IF REPLACE(REPLACE(REPLACE(REPLACE(@element, NCHAR(9), N''), NCHAR(10), N''), NCHAR(13), N''), N' ', N'') = N'' SET @element = NULL;
END
GO
CREATE PROCEDURE @schema@._stale @scope nvarchar(400), @term bigint, @fence bigint AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @message nvarchar(2048) = CONCAT(N'TG001 stale term ', @term, N' for scope "', @scope, N'": the fence stands at ', @fence);
  EXEC @schema@._throw 50001, @message;
END
GO
-- Locks: row audit X transaction
CREATE PROCEDURE @schema@._audit @action varchar(40), @scope nvarchar(400), @actor nvarchar(400), @detail nvarchar(max) AS
BEGIN
  SET NOCOUNT ON;
  INSERT INTO @schema@.audit (actor, client, action, scope_key, scope, detail)
  VALUES (ISNULL(@actor, ORIGINAL_LOGIN()), LEFT(CONCAT(HOST_NAME(), N' ', APP_NAME()), 300), @action, CONVERT(varbinary(800), @scope), @scope, @detail);
END
GO
-- Whether this is still the database that vouched for its fences. A restore or a failover ends the sessions in a database and begins
-- another recovery fork. If the fork cannot be seen (Azure SQL Database; a login without VIEW ANY DATABASE that does not own the database),
-- an operator has to declare it; doctor reports that. Each check reads it: what a session could remember (SESSION_CONTEXT) its client can
-- write too. @suspect 1: the fork differs, and nobody has recorded that. It is recorded only outside a transaction, in one of its own: a
-- client that freezes must not hold the row that everybody reads.
-- Locks: row incarnation none statement
-- Locks: row incarnation X statement
CREATE PROCEDURE @schema@._look @suspect bit = 0 OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  DECLARE @fork nvarchar(100), @known nvarchar(100);
  SET @suspect = 0;
  -- OBJECT_ID first: an error, even a caught one, would doom the caller's transaction.
  IF OBJECT_ID(N'sys.database_recovery_status') IS NOT NULL
    EXEC sp_executesql N'SELECT @fork = CONVERT(nvarchar(100), recovery_fork_guid) FROM sys.database_recovery_status WHERE database_id = DB_ID()', N'@fork nvarchar(100) OUTPUT', @fork = @fork OUTPUT;
  SELECT @known = i.recovery_fork FROM @schema@.incarnation i WITH (NOLOCK);
  IF @fork <> @known OR (@fork IS NOT NULL AND @known IS NULL)
  BEGIN
    IF @@TRANCOUNT > 0
    BEGIN
      IF @known IS NOT NULL AND @schema@._setting('failover') <> N'synchronous' SET @suspect = 1;
      RETURN 0;
    END
    IF @known IS NULL UPDATE @schema@.incarnation SET recovery_fork = @fork WHERE recovery_fork IS NULL;
    ELSE IF @schema@._setting('failover') <> N'synchronous'
      UPDATE @schema@.incarnation SET generation = generation + 1, trusted_since = generation + 1, recovery_fork = @fork WHERE recovery_fork = @known;
    ELSE UPDATE @schema@.incarnation SET recovery_fork = @fork WHERE recovery_fork = @known;
  END
END
GO
-- Only for reading: a decision compares with the locked row of incarnation (_need_trusted).
-- Locks: row incarnation none statement
CREATE FUNCTION @schema@._untrusted(@generation bigint) RETURNS bit AS
BEGIN
  RETURN CASE WHEN ISNULL(@generation, 0) < (SELECT i.trusted_since FROM @schema@.incarnation i WITH (NOLOCK)) THEN 1 ELSE 0 END;
END
GO
-- TG004 if the scope is untrusted. @look 1: no lock is held yet, so NOLOCK; the caller tests again under the lock.
-- Locks: row incarnation S statement
CREATE PROCEDURE @schema@._need_trusted @scope nvarchar(400), @generation bigint, @look bit = 0 AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @suspect bit, @trusted bigint, @message nvarchar(2048);
  EXEC @schema@._look @suspect OUTPUT;
  IF @look = 1 SELECT @trusted = i.trusted_since FROM @schema@.incarnation i WITH (NOLOCK);
  ELSE SELECT @trusted = i.trusted_since FROM @schema@.incarnation i WITH (READCOMMITTEDLOCK);
  IF @suspect = 0 AND ISNULL(@generation, 0) >= @trusted RETURN 0;
  SET @message = CONCAT(N'TG004 the fence of scope "', @scope, N'" is untrusted: this database was restored or failed over, and nobody has vouched for this scope since; ',
    N'acquire_lease, outside a transaction, makes it trusted again where terms come from leases, else an operator: termgate fence declare-restored');
  EXEC @schema@._throw 50004, @message;
END
GO
-- The highest term of the scope's stream writes, without those that a reset has taken back. Each step is one index probe. A locking read:
-- under the scope's exclusive lock no writer of such a row is in the way.
-- Locks: row stream_writes S statement
-- Locks: row resets S statement
CREATE FUNCTION @schema@._stored_max(@scope_key varbinary(800)) RETURNS bigint AS
BEGIN
  DECLARE @max bigint, @below bigint;
  SELECT @max = MAX(w.term) FROM @schema@.stream_writes w WITH (READCOMMITTEDLOCK) WHERE w.scope_key = @scope_key;
  SELECT @below = MIN(r.to_term) FROM @schema@.resets r WITH (READCOMMITTEDLOCK) WHERE r.scope_key = @scope_key AND @max > r.to_term AND @max <= r.from_term;
  WHILE @below IS NOT NULL
  BEGIN
    SELECT @max = MAX(w.term) FROM @schema@.stream_writes w WITH (READCOMMITTEDLOCK) WHERE w.scope_key = @scope_key AND w.term <= @below;
    SELECT @below = MIN(r.to_term) FROM @schema@.resets r WITH (READCOMMITTEDLOCK) WHERE r.scope_key = @scope_key AND @max > r.to_term AND @max <= r.from_term;
  END
  RETURN ISNULL(@max, 0);
END
GO
-- Like _stored_max, but NOLOCK, for what a raise announces: an uncommitted row may count.
-- Locks: row stream_writes none statement
-- Locks: row resets none statement
CREATE FUNCTION @schema@._stored_look(@scope_key varbinary(800)) RETURNS bigint AS
BEGIN
  DECLARE @max bigint, @below bigint;
  SELECT @max = MAX(w.term) FROM @schema@.stream_writes w WITH (NOLOCK) WHERE w.scope_key = @scope_key;
  SELECT @below = MIN(r.to_term) FROM @schema@.resets r WITH (NOLOCK) WHERE r.scope_key = @scope_key AND @max > r.to_term AND @max <= r.from_term;
  WHILE @below IS NOT NULL
  BEGIN
    SELECT @max = MAX(w.term) FROM @schema@.stream_writes w WITH (NOLOCK) WHERE w.scope_key = @scope_key AND w.term <= @below;
    SELECT @below = MIN(r.to_term) FROM @schema@.resets r WITH (NOLOCK) WHERE r.scope_key = @scope_key AND @max > r.to_term AND @max <= r.from_term;
  END
  RETURN ISNULL(@max, 0);
END
GO
-- The highest term that fence and stream writes show for the scope, read by NOLOCK. Adopted tables are not read: a stale leader may hold
-- any lock on them.
-- Locks: row fences none statement
CREATE FUNCTION @schema@._shown(@scope_key varbinary(800)) RETURNS bigint AS
BEGIN
  DECLARE @shown bigint = @schema@._stored_look(@scope_key), @fence bigint;
  SELECT @fence = f.term FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key;
  IF @fence > @shown SET @shown = @fence;
  RETURN @shown;
END
GO
-- The next session (by its number, above @after) that holds an application lock. @session NULL: there is none, or sys.dm_tran_locks may not
-- be read (VIEW SERVER STATE; on Azure SQL Database VIEW DATABASE STATE). @login: when it logged in, because numbers are used again.
-- @raising: the term that it has announced for the scope, if it is raising: its request runs, or its transaction is open. What a cancelled
-- raise left to an idle session does not count. A number of 0 or less belongs to no session but to a distributed transaction that has lost
-- its own ("sys.dm_tran_locks (Transact-SQL)": -2 orphaned, -3 deferred).
CREATE PROCEDURE @schema@._holder @resource nvarchar(64), @scope_key varbinary(800), @after int, @session int OUTPUT, @login nvarchar(30) OUTPUT, @who nvarchar(1000) OUTPUT, @raising bigint OUTPUT, @asleep bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @announced nvarchar(20) = LEFT(@schema@._announcement(@scope_key, 1), 13), @sees bit = 0;
  SET @session = NULL;
  SET @login = NULL;
  SET @who = NULL;
  SET @raising = NULL;
  SET @asleep = 0;
  -- OBJECT_ID first: an error, even a caught one, would doom the caller's transaction.
  IF OBJECT_ID(N'sys.dm_tran_locks') IS NULL RETURN 0;
  IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1 SET @sees = 1;
  ELSE IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1 SET @sees = 1;
  ELSE IF CAST(SERVERPROPERTY('EngineEdition') AS int) = 5
  BEGIN
    IF HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DATABASE STATE') = 1 SET @sees = 1;
    ELSE IF HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DATABASE PERFORMANCE STATE') = 1 SET @sees = 1;
  END
  IF @sees = 1
    EXEC sp_executesql N'
      SELECT TOP (1) @session = l.request_session_id, @login = CONVERT(nvarchar(30), s.login_time, 126),
             @who = CASE WHEN s.session_id IS NULL AND l.request_session_id <= 0 THEN CONCAT(N''a distributed transaction that has lost its session ('', l.request_session_id, N'')'')
                         ELSE CONCAT(N''session '', l.request_session_id, N'' (login '', s.login_name COLLATE DATABASE_DEFAULT, N'', program "'', s.program_name COLLATE DATABASE_DEFAULT, N''", host '', s.host_name COLLATE DATABASE_DEFAULT, N'', '', s.status COLLATE DATABASE_DEFAULT, N'' since '', CONVERT(nvarchar(30), s.last_request_end_time, 126), N'')'') END,
             @asleep = CASE WHEN s.status IN (N''sleeping'', N''idle'', N''idle in transaction'') THEN 1 ELSE 0 END,
             @raising = CASE WHEN s.status NOT IN (N''sleeping'', N''idle'') OR s.open_transaction_count > 0 THEN
               (SELECT MAX(TRY_CAST(SUBSTRING(a.resource_description, CHARINDEX(N''['' + @announced, a.resource_description) + 14, 19) AS bigint)) FROM sys.dm_tran_locks a
                 WHERE a.request_session_id = l.request_session_id AND a.resource_type = N''APPLICATION'' AND a.resource_database_id = DB_ID() AND a.request_status NOT IN (N''WAIT'', N''LOW_PRIORITY_WAIT'')
                   AND CHARINDEX(N''['' + @announced, a.resource_description) > 0) END
        FROM sys.dm_tran_locks l LEFT JOIN sys.dm_exec_sessions s ON s.session_id = l.request_session_id
       WHERE l.resource_type = N''APPLICATION'' AND l.resource_database_id = DB_ID() AND l.request_status NOT IN (N''WAIT'', N''LOW_PRIORITY_WAIT'') AND l.request_session_id <> @@SPID
         AND l.request_session_id > @after AND CHARINDEX(N''['' + LEFT(@resource, 32) + N'']'', l.resource_description) > 0
       ORDER BY l.request_session_id',
      N'@resource nvarchar(64), @announced nvarchar(20), @after int, @session int OUTPUT, @login nvarchar(30) OUTPUT, @who nvarchar(1000) OUTPUT, @raising bigint OUTPUT, @asleep bit OUTPUT',
      @resource = @resource, @announced = @announced, @after = @after, @session = @session OUTPUT, @login = @login OUTPUT, @who = @who OUTPUT, @raising = @raising OUTPUT, @asleep = @asleep OUTPUT;
END
GO
-- Ends a session, if its number and login time are still the same. KILL takes a literal, and no user transaction may be open ("KILL
-- (Transact-SQL)"). This and _holder are signed if the logins that raise shall not have the server's rights (sign.sql).
CREATE PROCEDURE @schema@._kill @session int, @login nvarchar(30), @ended bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @text nvarchar(400) = CONCAT(N'SET @ended = 0; IF EXISTS (SELECT 1 FROM sys.dm_exec_sessions s WHERE s.session_id = ', @session, N' AND CONVERT(nvarchar(30), s.login_time, 126) = N''',
                                       @login, N''') BEGIN KILL ', @session, N'; SET @ended = 1; END');
  EXEC sp_executesql @text, N'@ended bit OUTPUT', @ended = @ended OUTPUT;
END
GO
CREATE PROCEDURE @schema@._blocked @scope nvarchar(400), @resource nvarchar(64), @doing nvarchar(200), @more nvarchar(400) = N'' AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @scope), @session int, @login nvarchar(30), @who nvarchar(1000), @raising bigint, @asleep bit, @message nvarchar(2048);
  EXEC @schema@._holder @resource, @key, -2147483648, @session OUTPUT, @login OUTPUT, @who OUTPUT, @raising OUTPUT, @asleep OUTPUT;
  SET @message = CONCAT(N'TG006 ', @doing, N' of scope "', @scope, N'" is blocked by ', ISNULL(@who, N'a session that cannot be seen from here (it has ended, or VIEW SERVER STATE is missing)'), @more);
  EXEC @schema@._throw 50006, @message;
END
GO
-- Who has locked the scope's row in fences or leases, or the row of incarnation; NULL: nobody, or it cannot be seen. Usually that is an
-- UPDATE by hand. %%lockres%% is a row's name in sys.dm_tran_locks, undocumented, and as old as SQL Server 2005. With optimized locking
-- (SQL Server 2025, Azure SQL Database) no lock of a key is kept to the end of a transaction, and nobody is named.
-- Locks: row fences none statement
-- Locks: row leases none statement
-- Locks: row incarnation none statement
CREATE PROCEDURE @schema@._row_holder @scope_key varbinary(800), @who nvarchar(1000) OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @sees bit = 0;
  SET @who = NULL;
  IF SERVERPROPERTY('Babelfish') IS NOT NULL OR OBJECT_ID(N'sys.dm_tran_locks') IS NULL RETURN 0;
  IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1 SET @sees = 1;
  ELSE IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1 SET @sees = 1;
  IF @sees = 1
    EXEC sp_executesql N'
      SELECT TOP (1) @who = CONCAT(N''session '', l.request_session_id, N'' (login '', s.login_name COLLATE DATABASE_DEFAULT, N'', program "'', s.program_name COLLATE DATABASE_DEFAULT, N''", host '', s.host_name COLLATE DATABASE_DEFAULT, N'', '', s.status COLLATE DATABASE_DEFAULT, N'')'')
        FROM (SELECT OBJECT_ID(N''@schema@.fences'') AS id, f.%%lockres%% AS lock_name FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key
              UNION ALL SELECT OBJECT_ID(N''@schema@.leases''), e.%%lockres%% FROM @schema@.leases e WITH (NOLOCK) WHERE e.scope_key = @scope_key
              UNION ALL SELECT OBJECT_ID(N''@schema@.incarnation''), i.%%lockres%% FROM @schema@.incarnation i WITH (NOLOCK)) r
        JOIN sys.partitions p ON p.object_id = r.id AND p.index_id = 1
        JOIN sys.dm_tran_locks l ON l.resource_type = N''KEY'' AND l.resource_database_id = DB_ID() AND l.resource_associated_entity_id = p.hobt_id AND l.resource_description COLLATE DATABASE_DEFAULT = r.lock_name COLLATE DATABASE_DEFAULT
        LEFT JOIN sys.dm_exec_sessions s ON s.session_id = l.request_session_id
       WHERE l.request_session_id <> @@SPID AND l.request_status NOT IN (N''WAIT'', N''LOW_PRIORITY_WAIT'') AND l.request_mode LIKE N''%X%'' ORDER BY l.request_session_id',
      N'@scope_key varbinary(800), @who nvarchar(1000) OUTPUT', @scope_key = @scope_key, @who = @who OUTPUT;
END
GO
-- For CATCH: TG006 if a row was waited for in vain (1222), or if a NOLOCK read met rows that were moving (601, "Table Hints
-- (Transact-SQL)", READUNCOMMITTED). The caller's THROW raises any other error.
CREATE PROCEDURE @schema@._late @scope nvarchar(400) AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @number int = ERROR_NUMBER(), @key varbinary(800) = CONVERT(varbinary(800), @scope), @who nvarchar(1000), @message nvarchar(2048);
  IF @number NOT IN (1222, 601) AND NOT (@number = 33557097 AND ERROR_MESSAGE() LIKE N'%lock timeout%') RETURN 0;
  IF @number = 601 SET @message = CONCAT(N'TG006 the rows of scope "', @scope, N'" moved while they were read: nothing was written, try again');
  ELSE
  BEGIN
    EXEC @schema@._row_holder @key, @who OUTPUT;
    SET @message = CONCAT(N'TG006 the call for scope "', @scope, N'" is blocked by ', ISNULL(@who, N'a session that cannot be seen from here'), N', which has held a row of layer 1 for more than 5 s');
  END
  EXEC @schema@._throw 50006, @message;
END
GO
-- The shared lock of a scope: the queue, to the end of the transaction, or for @owner 'Session' the gate. TG006 after check_wait_ms. A
-- raise holds the turnstile from its first wait on, so nobody overtakes it. A session that already has the lock returns at once: it and a
-- raise that waits for it would otherwise wait for each other. First it releases what a cancelled raise of this session has left (an
-- attention runs no CATCH).
-- Locks: turnstile test statement
-- Locks: turnstile shared statement
-- Locks: queue shared owner
-- Locks: gate shared owner
CREATE PROCEDURE @schema@._share @scope nvarchar(400), @scope_key varbinary(800), @owner nvarchar(32) = N'Transaction' AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @lock nvarchar(64) = @schema@._resource(CASE @owner WHEN N'Session' THEN N'g' ELSE N'q' END, @scope_key), @role sysname = @schema_lit@ + N'_lock', @rc int;
  IF APPLOCK_MODE(@role, @lock, @owner) IN (N'Shared', N'Exclusive') RETURN 0;
  DECLARE @turnstile nvarchar(64) = STUFF(@lock, 3, 1, N't');
  IF APPLOCK_MODE(@role, @turnstile, N'Session') = N'Exclusive' EXEC @schema@._release @scope_key, NULL;
  IF APPLOCK_TEST(@role, @turnstile, N'Shared', @owner) = 1
  BEGIN
    EXEC @rc = sp_getapplock @Resource = @lock, @LockMode = N'Shared', @LockOwner = @owner, @LockTimeout = 1, @DbPrincipal = @role;
    IF @rc >= 0 RETURN 0;
  END
  DECLARE @wait int = CAST(@schema@._setting('check_wait_ms') AS int), @start datetime2(3) = SYSUTCDATETIME(), @left int, @has nvarchar(32) = N'NoLock';
  -- A session that has one of gate and queue goes past the turnstile to the other, because a raise may be waiting for it. A raise takes the
  -- gate first, so a session in the gate can still get the queue.
  IF @owner = N'Transaction' SET @has = APPLOCK_MODE(@role, STUFF(@lock, 3, 1, N'g'), N'Session');
  ELSE IF @@TRANCOUNT > 0 SET @has = APPLOCK_MODE(@role, STUFF(@lock, 3, 1, N'q'), N'Transaction');
  SET @left = CASE WHEN @wait < 1 THEN 1 ELSE @wait END;
  IF @has = N'NoLock'
  BEGIN
    EXEC @rc = sp_getapplock @Resource = @turnstile, @LockMode = N'Shared', @LockOwner = @owner, @LockTimeout = @left, @DbPrincipal = @role;
    IF @rc = -3 THROW 50006, 'TG006 chosen as the victim of a deadlock at the fence: nothing was written', 1;
    IF @rc < 0 EXEC @schema@._blocked @scope, @turnstile, N'the check';
    SET @left = @wait - DATEDIFF(millisecond, @start, SYSUTCDATETIME());
    IF @left < 1 SET @left = 1;
  END
  EXEC @rc = sp_getapplock @Resource = @lock, @LockMode = N'Shared', @LockOwner = @owner, @LockTimeout = @left, @DbPrincipal = @role;
  IF @has = N'NoLock' EXEC sp_releaseapplock @Resource = @turnstile, @LockOwner = @owner, @DbPrincipal = @role;
  IF @rc = -3 THROW 50006, 'TG006 chosen as the victim of a deadlock at the fence: nothing was written', 1;
  IF @rc < 0 EXEC @schema@._blocked @scope, @lock, N'the check';
END
GO
-- Takes one lock exclusively for @owner. After the grace, and only outside a transaction, it ends the sessions that hold the lock, each
-- verified right before, and waits for their rollback: to the end of the wait, and half a second longer for a session that was ended just
-- before that. TG006 names one that cannot be ended. It adds to @evicted, each session once: by its number and login time.
CREATE PROCEDURE @schema@._take @scope nvarchar(400), @term bigint, @resource nvarchar(64), @owner nvarchar(32), @grace_until datetime2(3), @until datetime2(3), @evicted int OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @role sysname = @schema_lit@ + N'_lock', @rc int, @left int, @session int, @login nvarchar(30), @who nvarchar(1000), @raising bigint, @asleep bit, @ended bit;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @scope), @why nvarchar(400), @mark nvarchar(60), @done nvarchar(max) = N'|', @refused nvarchar(max), @before int, @late bit = 0, @after int;
  WHILE 1 = 1
  BEGIN
    SET @left = DATEDIFF(millisecond, SYSUTCDATETIME(), @grace_until);
    IF @left < 1 SET @left = 100;
    EXEC @rc = sp_getapplock @Resource = @resource, @LockMode = N'Exclusive', @LockOwner = @owner, @LockTimeout = @left, @DbPrincipal = @role;
    IF @rc >= 0 RETURN 0;
    IF SYSUTCDATETIME() < @grace_until CONTINUE;
    IF @owner = N'Transaction' EXEC @schema@._blocked @scope, @resource, N'the raise', N'; a raise inside a transaction cannot evict: seal first, in a statement of its own';
    SET @refused = N'|';
    SET @before = @evicted;
    SET @after = -2147483648;
    WHILE 1 = 1
    BEGIN
      EXEC @schema@._holder @resource, @key, @after, @session OUTPUT, @login OUTPUT, @who OUTPUT, @raising OUTPUT, @asleep OUTPUT;
      IF @session IS NULL BREAK;
      SET @after = @session;
      SET @mark = CONCAT(N'|', @session, N' ', @login, N'|');
      -- A session that raises to the same or a higher term is waited for, and so is one that has been ended already.
      IF @raising >= @term OR CHARINDEX(@mark, @done) > 0 OR CHARINDEX(@mark, @refused) > 0 CONTINUE;
      SET @refused = CONCAT(@refused, @session, N' ', @login, N'|');
      IF @session <= 0
      BEGIN
        SET @why = N'it ends by KILL ''UOW'', with its request_owner_guid in sys.dm_tran_locks';
        CONTINUE;
      END
      -- If KILL fails, TG006 has its message when the time is over.
      BEGIN TRY
        EXEC @schema@._kill @session, @login, @ended OUTPUT;
        IF @ended = 1 SET @evicted = @evicted + 1;
        SET @done = CONCAT(@done, @session, N' ', @login, N'|');
      END TRY
      BEGIN CATCH
        SET @why = LEFT(ERROR_MESSAGE(), 400);
      END CATCH
    END
    IF @evicted > @before AND @late = 0 AND SYSUTCDATETIME() >= @until
    BEGIN
      SET @late = 1;
      SET @until = DATEADD(millisecond, 500, SYSUTCDATETIME());
    END
    IF SYSUTCDATETIME() >= @until
    BEGIN
      SET @why = CASE WHEN @why IS NULL THEN N'' ELSE N'; it could not be ended: ' + @why END;
      EXEC @schema@._blocked @scope, @resource, N'the raise', @why;
    END
  END
END
GO
-- Takes the exclusive lock of a scope. @own 1: outside a transaction, held by the session until _release. A lock is never upgraded in
-- place: TG005. @lease 1: then the lease's own lock too, so that a renewal that is frozen in its client's transaction is evicted like any
-- other holder.
-- @raise 1: reads the fence again once the turnstile is held, because from then on nobody else raises. @raise is set to 0, and no lock is
-- kept, if another session has raised the fence to the term meanwhile, because then those that hold the queue may be its writers. For an
-- acquisition (@holder: its owner) it is set to 0 if another owner has acquired the lease; then @holder, @issued and @expires describe that
-- lease.
-- Locks: row fences none statement
-- Locks: row leases S statement
-- Locks: announcement shared owner
-- Locks: turnstile exclusive owner
-- Locks: gate exclusive owner
-- Locks: queue exclusive owner
-- Locks: lease exclusive owner
CREATE PROCEDURE @schema@._exclude @scope nvarchar(400), @scope_key varbinary(800), @term bigint, @grace_ms bigint, @own bit, @evicted int OUTPUT, @lease bit = 0, @raise bit = NULL OUTPUT,
  @holder nvarchar(400) = NULL OUTPUT, @issued bigint = NULL OUTPUT, @expires datetime2(3) = NULL OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @fence bigint, @detail nvarchar(max), @queue nvarchar(64) = @schema@._resource(N'q', @scope_key), @role sysname = @schema_lit@ + N'_lock';
  DECLARE @gate nvarchar(64) = STUFF(@queue, 3, 1, N'g'), @turnstile nvarchar(64) = STUFF(@queue, 3, 1, N't'), @lease_lock nvarchar(64) = STUFF(@queue, 3, 1, N'l');
  DECLARE @owner nvarchar(32) = CASE WHEN @own = 1 THEN N'Session' ELSE N'Transaction' END, @message nvarchar(2048), @has nvarchar(32) = N'NoLock';
  IF @grace_ms NOT BETWEEN 0 AND 3600000 THROW 50005, 'TG005 the grace must be from 0 to 3600000 ms', 1;
  SET @evicted = 0;
  -- Nested: outside a transaction APPLOCK_MODE for its lock is an error (3918), and the order in which the sides of AND are evaluated is
  -- not guaranteed.
  IF @own = 0 SET @has = APPLOCK_MODE(@role, @queue, N'Transaction');
  IF @has = N'Shared'
  BEGIN
    SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'", and this transaction already holds the lock of that scope: raise first, in a transaction of its own');
    EXEC @schema@._throw 50005, @message;
  END
  -- A session in the gate that raises would shut itself out without its proxy's knowledge.
  IF APPLOCK_MODE(@role, @gate, N'Session') = N'Shared'
  BEGIN
    SET @message = CONCAT(N'TG005 this session is in the gate of scope "', @scope, N'", and a raise to term ', @term, N' would overtake it: leave first, or raise in another session');
    EXEC @schema@._throw 50005, @message;
  END
  DECLARE @start datetime2(3) = SYSUTCDATETIME();
  DECLARE @grace_until datetime2(3) = DATEADD(millisecond, ISNULL(@grace_ms, CAST(@schema@._setting('eviction_grace_ms') AS bigint)), @start);
  DECLARE @until datetime2(3) = DATEADD(millisecond, CAST(@schema@._setting('check_wait_ms') AS int), @grace_until);
  -- While another raise to the same or a lower term can see this, it does not evict us.
  DECLARE @announced nvarchar(32) = @schema@._announcement(@scope_key, @term), @rc int;
  IF @own = 1 EXEC sp_set_session_context @key = N'termgate.announced', @value = @announced;
  IF @has <> N'Exclusive'
  BEGIN
    EXEC @rc = sp_getapplock @Resource = @announced, @LockMode = N'Shared', @LockOwner = @owner, @LockTimeout = 1000, @DbPrincipal = @role;
    EXEC @schema@._take @scope, @term, @turnstile, @owner, @grace_until, @until, @evicted OUTPUT;
    IF @raise = 1
    BEGIN
      IF @holder IS NULL
      BEGIN
        SELECT @fence = f.term FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key;
        IF @fence >= @term SET @raise = 0;
      END
      -- If somebody holds the row of the lease, it is not believed: the lease's lock decides.
      ELSE SELECT @raise = 0, @holder = l.owner_id, @issued = l.term, @expires = l.expires_at FROM @schema@.leases l WITH (READPAST, READCOMMITTEDLOCK)
        WHERE l.scope_key = @scope_key AND CONVERT(varbinary(800), l.owner_id) <> CONVERT(varbinary(800), @holder) AND l.released_at IS NULL AND l.expires_at > SYSUTCDATETIME();
      IF @raise = 0
      BEGIN
        IF @own = 1 EXEC @schema@._release @scope_key, @term;
        ELSE
        BEGIN
          EXEC sp_releaseapplock @Resource = @turnstile, @LockOwner = @owner, @DbPrincipal = @role;
          IF @rc >= 0 EXEC sp_releaseapplock @Resource = @announced, @LockOwner = @owner, @DbPrincipal = @role;
        END
        IF @evicted > 0
        BEGIN
          SET @detail = CONCAT(N'{"term":', @term, N',"evicted":', @evicted, N'}');
          EXEC @schema@._audit 'evict', @scope, NULL, @detail;
        END
        RETURN 0;
      END
    END
    EXEC @schema@._take @scope, @term, @gate, @owner, @grace_until, @until, @evicted OUTPUT;
    EXEC @schema@._take @scope, @term, @queue, @owner, @grace_until, @until, @evicted OUTPUT;
  END
  IF @lease = 1 EXEC @schema@._take @scope, @term, @lease_lock, @owner, @grace_until, @until, @evicted OUTPUT;
END
GO
-- Releases what a raise holds of a scope for its session. Harmless if it holds nothing; a session in the gate stays there. @term NULL:
-- after a cancelled raise, whose announcement the session has recorded.
CREATE PROCEDURE @schema@._release @scope_key varbinary(800), @term bigint AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @queue nvarchar(64) = @schema@._resource(N'q', @scope_key), @role sysname = @schema_lit@ + N'_lock';
  DECLARE @gate nvarchar(64) = STUFF(@queue, 3, 1, N'g'), @turnstile nvarchar(64) = STUFF(@queue, 3, 1, N't'), @lease nvarchar(64) = STUFF(@queue, 3, 1, N'l');
  DECLARE @announced nvarchar(32) = @schema@._announcement(@scope_key, @term), @rc int = 0;
  IF @term IS NULL SET @announced = CAST(SESSION_CONTEXT(N'termgate.announced') AS nvarchar(32));
  -- Each loop also ends with the first release that fails: the end of the session releases the rest.
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @lease, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @lease, @LockOwner = N'Session', @DbPrincipal = @role;
  SET @rc = 0;
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @queue, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @queue, @LockOwner = N'Session', @DbPrincipal = @role;
  SET @rc = 0;
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @gate, N'Session') = N'Exclusive' EXEC @rc = sp_releaseapplock @Resource = @gate, @LockOwner = N'Session', @DbPrincipal = @role;
  SET @rc = 0;
  WHILE @rc >= 0 AND APPLOCK_MODE(@role, @turnstile, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @turnstile, @LockOwner = N'Session', @DbPrincipal = @role;
  -- Last: without it a raise to the same term that waits for one of the others would end this session.
  SET @rc = 0;
  IF @announced IS NOT NULL
    WHILE @rc >= 0 AND APPLOCK_MODE(@role, @announced, N'Session') <> N'NoLock' EXEC @rc = sp_releaseapplock @Resource = @announced, @LockOwner = N'Session', @DbPrincipal = @role;
END
GO
-- The highest term that fence, stream writes and adopted terms show for the scope. For a caller that holds its exclusive lock.
-- Locks: row fences S statement
-- Locks: row adopted_terms S statement
CREATE PROCEDURE @schema@._evidence @scope nvarchar(400), @scope_key varbinary(800), @evidence bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @adopted bigint, @stored bigint = @schema@._stored_max(@scope_key);
  SET @evidence = NULL;
  SELECT @evidence = f.term FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @scope_key;
  SELECT @adopted = a.term FROM @schema@.adopted_terms a WITH (READCOMMITTEDLOCK) WHERE a.scope_key = @scope_key;
  SET @evidence = ISNULL(@evidence, 0);
  IF @stored > @evidence SET @evidence = @stored;
  IF @adopted > @evidence SET @evidence = @adopted;
END
GO
-- Sets the fence to @term, under the exclusive lock: row and audit. @generation NULL keeps the row's; a new row gets the database's.
-- Locks: row fences X transaction
-- Locks: row incarnation S statement
-- Locks: row protected none statement
CREATE PROCEDURE @schema@._set_fence @scope nvarchar(400), @scope_key varbinary(800), @term bigint, @action varchar(40), @actor nvarchar(400), @detail nvarchar(max), @generation bigint = NULL AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @durability int = (SELECT d.delayed_durability FROM sys.databases d WHERE d.database_id = DB_ID()), @marked bit = 0;
  -- With FORCED every COMMIT returns before the log is flushed, and a crash could take the raise back (F3). With ALLOWED each COMMIT may,
  -- and the COMMIT of a caller's transaction is not ours. A raise in a transaction of its own holds the queue for the session.
  IF @durability = 2
    THROW 50005, 'TG005 no fence is raised in a database with DELAYED_DURABILITY = FORCED, whose COMMIT returns before it is flushed: ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED', 1;
  IF @durability = 1 AND APPLOCK_MODE(@schema_lit@ + N'_lock', @schema@._resource(N'q', @scope_key), N'Session') <> N'Exclusive'
    THROW 50005, 'TG005 with DELAYED_DURABILITY = ALLOWED no fence is raised inside a transaction, whose COMMIT may return before it is flushed: raise in a statement of its own, or ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED', 1;
  UPDATE @schema@.fences WITH (ROWLOCK) SET term = @term, raised_at = SYSUTCDATETIME(), raised_by = ORIGINAL_LOGIN(), generation = CASE WHEN @generation > generation THEN @generation ELSE generation END
   WHERE scope_key = @scope_key;
  IF @@ROWCOUNT = 0
  BEGIN
    IF @generation IS NULL SELECT @generation = i.generation FROM @schema@.incarnation i WITH (READCOMMITTEDLOCK);
    INSERT INTO @schema@.fences (scope_key, scope, term, raise_by, generation) VALUES (@scope_key, @scope, @term, @schema@._setting('default_raise_by'), @generation);
    -- After the INSERT, as protect marks the fences after it has inserted its own row of protected: one of the two sees the other.
    SELECT TOP (1) @marked = 1 FROM @schema@.protected p WITH (NOLOCK) WHERE p.scope_column IS NOT NULL OR p.scope = N'*' OR CONVERT(varbinary(800), p.scope) = @scope_key;
    IF @marked = 1 UPDATE @schema@.fences WITH (ROWLOCK) SET marked = 1 WHERE scope_key = @scope_key;
  END
  SET @detail = JSON_MODIFY(@detail, '$.term', @term);
  EXEC @schema@._audit @action, @scope, @actor, @detail;
END
GO
-- TG005 if the scope has a lease and @term is above the lease's: its terms come from leases. NOLOCK is enough: under the scope's exclusive
-- lock nobody changes the lease's term, a caller without that lock tests again, and a renewal must not be waited for.
-- Locks: row leases none statement
CREATE PROCEDURE @schema@._need_issued @scope nvarchar(400), @scope_key varbinary(800), @term bigint AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @issued bigint, @message nvarchar(2048);
  SELECT @issued = l.term FROM @schema@.leases l WITH (NOLOCK) WHERE l.scope_key = @scope_key;
  IF @issued IS NULL OR @term <= @issued RETURN 0;
  SET @message = CONCAT(N'TG005 term ', @term, N' was never issued for scope "', @scope, N'": its leases stand at ', @issued,
    N'. Terms of this scope come from leases, since one was acquired for it once: acquire_lease issues the next. Terms of your own need a scope of another name, which nobody leases');
  EXEC @schema@._throw 50005, @message;
END
GO
-- Leaves the mark of a pass, for the triggers of protect: one more application lock of this transaction, whose name only those can compute
-- who can read the fence's secret. It ends with the transaction; in the gate (@owner 'Session') it belongs to the session. It counts only
-- together with the lock of the scope (_guard). A lock that an application takes by hand is no pass.
-- Locks: row fences none statement
-- Locks: mark shared owner
CREATE PROCEDURE @schema@._mark @scope_key varbinary(800), @term bigint, @owner nvarchar(32) = N'Transaction' AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @name nvarchar(200), @role sysname = @schema_lit@ + N'_lock', @rc int;
  -- NOLOCK is enough: while the scope's lock is held, nobody changes the term or the secret.
  SELECT @name = @schema@._resource(CASE @owner WHEN N'Session' THEN N'm' ELSE N'p' END, @scope_key) + @schema@._digits(HASHBYTES('SHA2_256', CONVERT(varbinary(200), CONCAT(f.pass_key, N' ', @term, N' ', @@SPID))))
    FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key AND f.marked = 1;
  IF @name IS NULL OR (@owner = N'Transaction' AND @@TRANCOUNT = 0) RETURN 0;
  IF @owner = N'Session' AND APPLOCK_MODE(@role, @name, N'Session') <> N'NoLock' RETURN 0;
  EXEC @rc = sp_getapplock @Resource = @name, @LockMode = N'Shared', @LockOwner = @owner, @LockTimeout = 1000, @DbPrincipal = @role;
  IF @rc < 0 THROW 50006, 'TG006 the mark of a pass is held by another session', 1;
END
GO
-- The comparison under the shared lock. READ COMMITTED and a locking read are right at every isolation level: a snapshot could be older
-- than the lock. The setting ends with the procedure. @looked 1: a NOLOCK read has just found the fence at the term or above; if it is
-- below now, a raise was rolled back (TG006).
-- Locks: row fences S statement
CREATE PROCEDURE @schema@._compare @scope nvarchar(400), @scope_key varbinary(800), @term bigint, @owner nvarchar(32) = N'Transaction', @looked bit = 0 AS
BEGIN
  SET NOCOUNT ON;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @fence bigint, @generation bigint, @marked bit, @message nvarchar(2048);
  SELECT @fence = f.term, @generation = f.generation, @marked = f.marked
    FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @scope_key;
  EXEC @schema@._need_trusted @scope, @generation;
  IF @fence > @term EXEC @schema@._stale @scope, @term, @fence;
  IF @looked = 1 AND (@fence IS NULL OR @fence < @term)
    THROW 50006, 'TG006 another raise of this scope was under way and was rolled back: nothing was written, try again', 1;
  IF @fence IS NULL OR @fence < @term
  BEGIN
    SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'" (', ISNULL(@fence, 0), N'), and this transaction already holds the lock of that scope: raise first, in a transaction of its own');
    EXEC @schema@._throw 50005, @message;
  END
  IF @marked = 1 EXEC @schema@._mark @scope_key, @term, @owner;
END
GO
-- Whether a check of this term must raise. Read by NOLOCK, before any lock is taken, and tested again under the lock. TG004, TG005.
-- Locks: row fences none statement
CREATE PROCEDURE @schema@._wants_raise @scope nvarchar(400), @scope_key varbinary(800), @term bigint, @how varchar(5), @raise bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @fence bigint, @generation bigint, @raise_by varchar(6), @message nvarchar(2048), @has nvarchar(32) = N'NoLock';
  SELECT @fence = f.term, @generation = f.generation, @raise_by = f.raise_by FROM @schema@.fences f WITH (NOLOCK) WHERE f.scope_key = @scope_key;
  SET @raise = CASE WHEN @fence >= @term THEN 0 ELSE 1 END;
  IF @raise = 0 RETURN 0;
  EXEC @schema@._need_issued @scope, @scope_key, @term;
  EXEC @schema@._need_trusted @scope, @generation, 1;
  IF @how <> 'seal' AND ISNULL(@raise_by, @schema@._setting('default_raise_by')) = 'seal'
  BEGIN
    SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'" (', ISNULL(@fence, 0), N'), which only a seal may raise');
    EXEC @schema@._throw 50005, @message;
  END
  IF @@TRANCOUNT > 0 AND @how = 'check' SET @has = APPLOCK_MODE(@schema_lit@ + N'_lock', @schema@._resource(N'q', @scope_key), N'Transaction');
  IF @has <> N'NoLock'
  BEGIN
    SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'" (', ISNULL(@fence, 0), N'), and this transaction already holds the lock of that scope: its term is fixed by its first check');
    EXEC @schema@._throw 50005, @message;
  END
END
GO
-- Raises the fence, in a transaction and under the exclusive lock.
-- Locks: row fences U transaction
CREATE PROCEDURE @schema@._raise @scope nvarchar(400), @scope_key varbinary(800), @term bigint, @how varchar(5), @evicted int, @previous bigint OUTPUT, @actor nvarchar(400) = NULL, @reason nvarchar(4000) = NULL AS
BEGIN
  SET NOCOUNT ON;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  DECLARE @fence bigint, @generation bigint, @raise_by varchar(6), @stored bigint, @action varchar(40), @detail nvarchar(max), @message nvarchar(2048);
  SELECT @fence = f.term, @generation = f.generation, @raise_by = f.raise_by FROM @schema@.fences f WITH (UPDLOCK, ROWLOCK) WHERE f.scope_key = @scope_key;
  EXEC @schema@._need_trusted @scope, @generation;
  IF @fence IS NULL EXEC @schema@._evidence @scope, @scope_key, @previous OUTPUT;
  ELSE
  BEGIN
    SET @stored = @schema@._stored_max(@scope_key);
    SET @previous = CASE WHEN @stored > @fence THEN @stored ELSE @fence END;
  END
  IF @previous > @term EXEC @schema@._stale @scope, @term, @previous;
  EXEC @schema@._need_issued @scope, @scope_key, @term;
  -- The NOLOCK read that chose this way may have seen a setting that was not committed.
  IF @how <> 'seal' AND (@fence IS NULL OR @fence < @term) AND ISNULL(@raise_by, @schema@._setting('default_raise_by')) = 'seal'
  BEGIN
    SET @message = CONCAT(N'TG005 term ', @term, N' is above the fence of scope "', @scope, N'" (', ISNULL(@fence, 0), N'), which only a seal may raise');
    EXEC @schema@._throw 50005, @message;
  END
  IF @evicted > 0
  BEGIN
    SET @detail = CONCAT(N'{"term":', @term, N',"evicted":', @evicted, N'}');
    EXEC @schema@._audit 'evict', @scope, NULL, @detail;
  END
  IF @fence IS NULL OR @fence < @term
  BEGIN
    SET @action = CASE @how WHEN 'seal' THEN 'seal' ELSE 'raise' END;
    SET @detail = CONCAT(N'{"previous":', @previous, N',"evicted":', @evicted, N'}');
    IF @reason IS NOT NULL SET @detail = CONCAT(N'{"previous":', @previous, N',"evicted":', @evicted, N',"reason":"', STRING_ESCAPE(@reason, 'json'), N'"}');
    EXEC @schema@._set_fence @scope, @scope_key, @term, @action, @actor, @detail;
  END
  IF @how <> 'seal' EXEC @schema@._mark @scope_key, @term;
END
GO
-- check_term(scope, term) → fence. Shared lock to the end of the transaction. A term above the fence raises it, if the transaction holds no
-- lock on the scope yet. In autocommit it guards nothing but itself. Under IMPLICIT_TRANSACTIONS it begins the client's transaction, like
-- any statement that reads. Errors 50001, 50004, 50005, 50006.
-- Locks: row first_read S statement
CREATE PROCEDURE @schema@.check_term @scope nvarchar(4000), @term bigint, @fence bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit, @raise bit, @evicted int = 0, @previous bigint;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_term @term;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    EXEC @schema@._wants_raise @scope, @key, @term, 'check', @raise OUTPUT;
    IF @raise = 1 EXEC @schema@._exclude @scope, @key, @term, NULL, @own, @evicted OUTPUT, 0, @raise OUTPUT;
    ELSE IF @own = 1 EXEC @schema@._look;
    IF @own = 1 BEGIN TRANSACTION;
    IF @raise = 1 EXEC @schema@._raise @scope, @key, @term, 'check', @evicted, @previous OUTPUT;
    ELSE
    BEGIN
      EXEC @schema@._share @scope, @key;
      EXEC @schema@._compare @scope, @key, @term, N'Transaction', 1;
    END
    IF @own = 1 COMMIT TRANSACTION;
    IF @own = 1 AND @raise = 1 EXEC @schema@._release @key, @term;
    SET @fence = @term;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @term;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
-- seal(scope, term, grace_ms, actor, reason) → the receipt, one row. The same term again changes nothing. 50001 if the fence is higher.
-- actor and reason go to the audit: both or neither.
-- Locks: row first_read S statement
-- Locks: row fences S statement
CREATE PROCEDURE @schema@.seal @scope nvarchar(4000), @term bigint, @grace_ms bigint = NULL, @actor nvarchar(4000) = NULL, @reason nvarchar(4000) = NULL AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @key varbinary(800), @own bit = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END, @raise bit, @evicted int = 0, @previous bigint, @fence bigint, @generation bigint, @at datetime2(3);
  IF @own = 0 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  EXEC @schema@._need_scope @scope;
  EXEC @schema@._need_term @term;
  IF @grace_ms NOT BETWEEN 0 AND 3600000 THROW 50005, 'TG005 the grace must be from 0 to 3600000 ms', 1;
  IF @actor IS NOT NULL OR @reason IS NOT NULL EXEC @schema@._need_reason @actor, @reason;
  SET @key = CONVERT(varbinary(800), @scope);
  BEGIN TRY
    EXEC @schema@._wants_raise @scope, @key, @term, 'seal', @raise OUTPUT;
    IF @raise = 1 EXEC @schema@._exclude @scope, @key, @term, @grace_ms, @own, @evicted OUTPUT, 0, @raise OUTPUT;
    IF @raise = 1
    BEGIN
      IF @own = 1 BEGIN TRANSACTION;
      EXEC @schema@._raise @scope, @key, @term, 'seal', @evicted, @previous OUTPUT, @actor, @reason;
      IF @own = 1 COMMIT TRANSACTION;
      IF @own = 1 EXEC @schema@._release @key, @term;
    END
    SELECT @fence = f.term, @generation = f.generation, @at = f.raised_at FROM @schema@.fences f WITH (READCOMMITTEDLOCK) WHERE f.scope_key = @key;
    IF @raise = 0
    BEGIN
      EXEC @schema@._need_trusted @scope, @generation;
      IF @fence > @term EXEC @schema@._stale @scope, @term, @fence;
      -- The NOLOCK read had seen a raise that was then rolled back.
      IF ISNULL(@fence, 0) < @term THROW 50006, 'TG006 another raise of this scope was under way and was rolled back: nothing was written, try again', 1;
      SET @previous = @fence;
    END
    SELECT @term AS fence, @previous AS previous, @evicted AS evicted, @schema@._ms(@at) AS sealed_at_ms, @at AS sealed_at;
  END TRY
  BEGIN CATCH
    IF @own = 1 AND @@TRANCOUNT > 0 ROLLBACK TRANSACTION;
    IF @own = 1 EXEC @schema@._release @key, @term;
    EXEC @schema@._late @scope;
    THROW;
  END CATCH
END
GO
