-- doctor and verify_findings: what is not covered, and every breach that they find in the stored rows. They read only committed rows:
-- without READ_COMMITTED_SNAPSHOT they wait for a raise or an append that is still open, for 2 s in a statement at most (error 1222).
DROP PROCEDURE IF EXISTS @schema@._doctor_server;
DROP PROCEDURE IF EXISTS @schema@._doctor_tables;
DROP PROCEDURE IF EXISTS @schema@.doctor;
DROP PROCEDURE IF EXISTS @schema@.verify_findings;
GO
-- Adds to the caller's #termgate_found: what is wrong with the protected and adopted tables. As termgate_guard (0001), because a caller
-- without rights on a table sees neither the table nor its triggers.
CREATE PROCEDURE @schema@._doctor_tables
WITH EXECUTE AS 'termgate_guard' AS
BEGIN
  SET NOCOUNT ON;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'error', CONCAT(N'trigger ', n.name), n.problem, N'run termgate init again'
    FROM (SELECT N'fences_guard' AS name, N'fences' AS parent, N'it is gone or disabled: fences could be lowered by hand' AS problem
          UNION ALL SELECT N'settings_guard', N'settings', N'it is gone or disabled: a setting that cannot be read would stop every raise') n
   WHERE NOT EXISTS (SELECT 1 FROM sys.triggers t WHERE t.parent_id = OBJECT_ID(N'@schema@.' + n.parent) AND t.name = n.name COLLATE DATABASE_DEFAULT AND t.is_disabled = 0);
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'error', p.table_name, N'protected, but its trigger is gone, disabled or behind another name', CONCAT(N'EXEC @schema@.protect for ', p.table_name, N' again')
    FROM @schema@.protected p
   WHERE OBJECT_NAME(p.table_id) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sys.triggers t WHERE t.parent_id = p.table_id AND t.name = CONCAT(@schema_lit@, N'_protect_', p.table_id) AND t.is_disabled = 0);
  -- A designer tool creates a changed table again, without our triggers.
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'error', p.table_name, N'protected once; that table was dropped, and another of this name is not protected', CONCAT(N'EXEC @schema@.protect for ', p.table_name, N' again')
    FROM @schema@.protected p
   WHERE OBJECT_NAME(p.table_id) IS NULL AND OBJECT_ID(p.table_name, N'U') IS NOT NULL AND NOT EXISTS (SELECT 1 FROM @schema@.protected q WHERE q.table_id = OBJECT_ID(p.table_name, N'U'));
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'error', a.table_name, N'adopted, but the trigger that reports its terms is gone or disabled', CONCAT(N'EXEC @schema@.adopt for ', a.table_name, N' again')
    FROM @schema@.adopted a
   WHERE OBJECT_NAME(a.table_id) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sys.triggers t WHERE t.parent_id = a.table_id AND t.name = CONCAT(@schema_lit@, N'_adopt_', a.table_id) AND t.is_disabled = 0);
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'error', a.table_name, N'adopted once; that table was dropped, and another of this name is not adopted', CONCAT(N'EXEC @schema@.adopt for ', a.table_name, N' again')
    FROM @schema@.adopted a
   WHERE OBJECT_NAME(a.table_id) IS NULL AND OBJECT_ID(a.table_name, N'U') IS NOT NULL AND NOT EXISTS (SELECT 1 FROM @schema@.adopted q WHERE q.table_id = OBJECT_ID(a.table_name, N'U'));
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'warning', a.table_name, N'adopted but not protected: a stale writer can change its rows', CONCAT(N'EXEC @schema@.protect for ', a.table_name)
    FROM @schema@.adopted a WHERE NOT EXISTS (SELECT 1 FROM @schema@.protected p WHERE p.table_id = a.table_id);
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'warning', a.table_name, N'adopted once, but the table is gone', N'nothing to do: the fences keep its terms' FROM @schema@.adopted a WHERE OBJECT_NAME(a.table_id) IS NULL AND OBJECT_ID(a.table_name, N'U') IS NULL;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'info', p.table_name, N'mode observe: nothing is refused there', CONCAT(N'EXEC @schema@.protect for ', p.table_name, N' in mode enforce') FROM @schema@.protected p WHERE p.mode = 'observe';
  IF SERVERPROPERTY('Babelfish') IS NULL
  BEGIN
    -- This procedure runs as that user, so these are the user's own rights.
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    SELECT N'error', N'user termgate_guard', N'it has lost its role or its rights: the procedures that run as it do not see all tables and terms', N'run termgate init again'
     WHERE ISNULL(IS_MEMBER(@schema_lit@ + N'_lock'), 0) = 0 OR ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'SELECT'), 0) = 0 OR ISNULL(HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DEFINITION'), 0) = 0;
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    SELECT DISTINCT N'error', p.table_name, N'protected, but WRITETEXT and UPDATETEXT change its text, ntext and image columns without firing a trigger', N'ALTER TABLE … ALTER COLUMN … to varchar(max), nvarchar(max) or varbinary(max)'
      FROM @schema@.protected p JOIN sys.columns c ON c.object_id = p.table_id JOIN sys.types t ON t.user_type_id = c.system_type_id WHERE t.name IN (N'text', N'ntext', N'image');
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    SELECT DISTINCT N'error', a.table_name, N'adopted, and under a security policy, which can hide terms from the check', N'ALTER SECURITY POLICY … DROP FILTER PREDICATE, or @schema@.unadopt'
      FROM @schema@.adopted a JOIN sys.security_predicates q ON q.target_object_id = a.table_id JOIN sys.security_policies y ON y.object_id = q.object_id WHERE y.is_enabled = 1;
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    SELECT N'info', p.table_name, N'its triggers make INSERT, UPDATE and DELETE with OUTPUT and without INTO end with error 334', N'tell the clients: HasTrigger (EF Core), implicit_returning=False (SQLAlchemy), hasTrigger (Sequelize)'
      FROM @schema@.protected p WHERE OBJECT_NAME(p.table_id) IS NOT NULL;
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    SELECT N'warning', p.table_name, N'replicated here: the agent''s writes fire the trigger, too, and stop with 50002', N'let the agent declare scope and term, or do not protect a subscriber''s table'
      FROM @schema@.protected p JOIN sys.tables t ON t.object_id = p.table_id WHERE t.is_replicated = 1 OR t.is_merge_published = 1;
    -- Who could remove a trigger, or bypass it (TRUNCATE, SWITCH, BULK INSERT): ALTER, CONTROL and more on a table or its schema.
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    SELECT DISTINCT TOP (100) N'warning', p.table_name, CONCAT(u.name COLLATE DATABASE_DEFAULT, N' has ', g.permission_name COLLATE DATABASE_DEFAULT, N' there, which is enough to disable the trigger or to TRUNCATE the table'), CONCAT(N'REVOKE ', g.permission_name COLLATE DATABASE_DEFAULT, N' from ', u.name COLLATE DATABASE_DEFAULT, N', if it is an application''s')
      FROM @schema@.protected p JOIN sys.tables t ON t.object_id = p.table_id
      JOIN sys.database_permissions g ON (g.class = 1 AND g.major_id = t.object_id) OR (g.class = 3 AND g.major_id = t.schema_id) OR (g.class = 0 AND g.permission_name IN (N'ALTER', N'CONTROL', N'ALTER ANY SCHEMA', N'ALTER ANY DATABASE DDL TRIGGER'))
      JOIN sys.database_principals u ON u.principal_id = g.grantee_principal_id
     WHERE g.state IN ('G', 'W') AND g.permission_name IN (N'ALTER', N'CONTROL', N'TAKE OWNERSHIP', N'ALTER ANY SCHEMA') AND u.name <> N'dbo';
  END
END
GO
-- Adds to the caller's #termgate_found: what is wrong with database, server and login. As the caller, because it tests what this login may
-- see and do.
CREATE PROCEDURE @schema@._doctor_server AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @fork nvarchar(100), @edition int = CAST(SERVERPROPERTY('EngineEdition') AS int), @sees bit = 0, @kills bit = 0, @signed bit = 0;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT CASE d.delayed_durability WHEN 2 THEN N'error' ELSE N'info' END, CONCAT(N'database ', d.name), CASE d.delayed_durability WHEN 2 THEN N'DELAYED_DURABILITY = FORCED: no fence can be raised, for its COMMIT would return before it is flushed'
         ELSE N'DELAYED_DURABILITY = ALLOWED: no fence can be raised inside a client''s transaction, whose COMMIT may return before it is flushed; a row of an adopted table above its fence is refused' END, N'ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED'
    FROM sys.databases d WHERE d.database_id = DB_ID() AND d.delayed_durability IN (1, 2);
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'info', CONCAT(N'database ', d.name), N'READ_COMMITTED_SNAPSHOT is OFF: who reads fences, leases and streams waits for a raise or an append that is under way, 2 s at most', N'ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON, if the applications allow it'
    FROM sys.databases d WHERE d.database_id = DB_ID() AND d.is_read_committed_snapshot_on = 0;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT N'error', N'server', N'nested triggers = 0: what another trigger writes to a protected table is not checked', N'EXEC sp_configure ''nested triggers'', 1; RECONFIGURE'
    FROM sys.configurations c WHERE c.name = N'nested triggers' AND c.value_in_use = 0 AND EXISTS (SELECT 1 FROM @schema@.protected p WHERE p.mode = 'enforce');
  -- Termgate's own procedures run as termgate_guard and not as the owner, so no write fails because the owner is missing.
  IF SERVERPROPERTY('Babelfish') IS NULL
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    SELECT N'warning', CONCAT(N'database ', DB_NAME()), N'its owner is not there (restored from another server, or its login was dropped): procedures of yours that run as the owner end with error 15517 or 15404; Termgate''s do not run as it', CONCAT(N'ALTER AUTHORIZATION ON DATABASE::', QUOTENAME(DB_NAME()), N' TO [sa]')
      FROM sys.databases d JOIN sys.database_principals p ON p.principal_id = 1 WHERE d.database_id = DB_ID() AND @edition <> 5 AND (SUSER_SNAME(d.owner_sid) IS NULL OR SUSER_SNAME(p.sid) IS NULL OR p.sid <> d.owner_sid);
  IF OBJECT_ID(N'sys.database_recovery_status') IS NOT NULL
    EXEC sp_executesql N'SELECT @fork = CONVERT(nvarchar(100), recovery_fork_guid) FROM sys.database_recovery_status WHERE database_id = DB_ID()', N'@fork nvarchar(100) OUTPUT', @fork = @fork OUTPUT;
  IF @edition = 5
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    VALUES (N'warning', CONCAT(N'database ', DB_NAME()), N'Azure SQL Database tells nobody that it was restored or failed over: its fences stay trusted', N'after a geo-failover or a restore to a point in time: EXEC @schema@.declare_untrusted before any leader writes');
  ELSE IF @fork IS NULL
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    VALUES (N'warning', CONCAT(N'login ', ORIGINAL_LOGIN()), N'this login cannot see whether the database was restored or failed over (recovery_fork_guid), and neither can its sessions', N'GRANT VIEW ANY DATABASE to the logins that write; else after a restore EXEC @schema@.declare_untrusted');
  IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 1 SET @sees = 1;
  ELSE IF HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER PERFORMANCE STATE') = 1 SET @sees = 1;
  ELSE IF @edition = 5
    IF HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DATABASE STATE') = 1 SET @sees = 1;
  IF HAS_PERMS_BY_NAME(NULL, NULL, 'ALTER ANY CONNECTION') = 1 SET @kills = 1;
  ELSE IF @edition = 5
    IF HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'KILL DATABASE CONNECTION') = 1 SET @kills = 1;
  -- If both procedures are signed, their caller has what the certificate's login has.
  IF SERVERPROPERTY('Babelfish') IS NULL
    SELECT @signed = 1 FROM (SELECT COUNT(DISTINCT x.major_id) AS signed FROM sys.crypt_properties x WHERE x.class = 1 AND x.major_id IN (OBJECT_ID(N'@schema@._holder'), OBJECT_ID(N'@schema@._kill'))) q WHERE q.signed = 2;
  IF @signed = 0 AND (@sees = 0 OR @kills = 0)
    INSERT INTO #termgate_found (severity, object, problem, remedy)
    VALUES (N'warning', CONCAT(N'login ', ORIGINAL_LOGIN()), N'this login may not see who holds a lock, or not end sessions: a frozen writer ends its raises with 50006',
            CASE @edition WHEN 5 THEN N'GRANT VIEW DATABASE STATE and KILL DATABASE CONNECTION to the users that raise' ELSE N'sign the two procedures that need it (sql/sqlserver/sign.sql), or GRANT VIEW SERVER STATE and ALTER ANY CONNECTION to the logins that raise' END);
END
GO
-- doctor → rows. severity: error (the guarantees do not hold there), warning (somebody could get round them), info.
CREATE PROCEDURE @schema@.doctor AS
BEGIN
  SET NOCOUNT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 2000;
  CREATE TABLE #termgate_found (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY, severity nvarchar(10) NOT NULL, object nvarchar(800) NOT NULL, problem nvarchar(2048) NOT NULL, remedy nvarchar(1000) NOT NULL);
  DECLARE @suspect bit;
  EXEC @schema@._look @suspect OUTPUT;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT TOP (100) N'error', CONCAT(N'scope "', f.scope, N'"'), N'its fence is untrusted: this database was restored or failed over, and nobody has vouched for the scope since', N'acquire its lease, or termgate fence declare-restored --scope … --above N'
    FROM @schema@.fences f WHERE @suspect = 1 OR @schema@._untrusted(f.generation) = 1 ORDER BY f.scope_key;
  EXEC @schema@._doctor_server;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT TOP (100) N'info', CONCAT(N'scope "', l.scope, N'"'), CONCAT(N'the lease of ', l.owner_id, N' ran out at ', CONVERT(nvarchar(30), l.expires_at, 126), N', and nobody has taken over'), N'its holder may still write, for nobody overtook it; acquire the lease to take over'
    FROM @schema@.leases l WHERE l.released_at IS NULL AND l.expires_at < SYSUTCDATETIME() ORDER BY l.expires_at;
  EXEC @schema@._doctor_tables;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT TOP (100) N'warning', o.table_name, CONCAT(N'would have been refused in ', COUNT(*), N' minutes with ', o.code, N' (scope "', o.scope COLLATE DATABASE_DEFAULT, N'", login ', o.login_name, N', last at ', CONVERT(nvarchar(30), MAX(o.at), 126), N')'), N'let it declare its scope and term before mode enforce'
    FROM @schema@.observed o GROUP BY o.table_name, o.code, o.scope, o.login_name ORDER BY COUNT(*) DESC;
  INSERT INTO #termgate_found (severity, object, problem, remedy)
  SELECT TOP (100) N'info', CONCAT(SCHEMA_NAME(t.schema_id), N'.', t.name), N'neither protected nor adopted: whoever may write to it writes unfenced', N'protect it, if a leader writes to it'
    FROM sys.tables t WHERE SCHEMA_NAME(t.schema_id) <> @schema_lit@ AND t.is_ms_shipped = 0
     AND NOT EXISTS (SELECT 1 FROM @schema@.protected p WHERE p.table_id = t.object_id) AND NOT EXISTS (SELECT 1 FROM @schema@.adopted a WHERE a.table_id = t.object_id) ORDER BY t.name;
  SELECT f.severity, f.object, f.problem, f.remedy FROM #termgate_found f ORDER BY f.id;
END
GO
-- verify_findings(since_ms) → one row for each breach that the stored rows show, at most 1,000 from each query below; none: all guarantees
-- were kept in what it has read. since_ms leaves out older stream writes.
CREATE PROCEDURE @schema@.verify_findings @since_ms bigint = NULL AS
BEGIN
  SET NOCOUNT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 2000;
  DECLARE @found TABLE (kind nvarchar(60) NOT NULL, scope nvarchar(400) NULL, object nvarchar(800) NULL, detail nvarchar(2048) NOT NULL);
  -- F1: terms along a stream never decrease, except for what a reset has taken back.
  INSERT INTO @found (kind, scope, object, detail)
  SELECT TOP (1000) N'term decreases', w.scope, w.stream_id, CONCAT(N'write ', w.sequence_no, N' has term ', w.term, N' after term ', w.before_it)
    FROM (SELECT s.scope_key, s.scope, s.stream_id, s.sequence_no, s.term, s.created_at, LAG(s.term) OVER (PARTITION BY s.stream_key ORDER BY s.sequence_no) AS before_it FROM @schema@.stream_writes s) w
   WHERE w.term < w.before_it AND (@since_ms IS NULL OR @schema@._ms(w.created_at) >= @since_ms)
     AND NOT EXISTS (SELECT 1 FROM @schema@.resets r WHERE r.scope_key = w.scope_key AND r.to_term <= w.term AND w.before_it > r.to_term AND w.before_it <= r.from_term);
  -- Numbers have no gap after the first that pruning has left, and end where the stream's row says.
  INSERT INTO @found (kind, scope, object, detail)
  SELECT TOP (1000) N'gap', w.scope, w.stream_id, CONCAT(N'write ', w.sequence_no, N' follows write ', w.before_it)
    FROM (SELECT s.scope, s.stream_id, s.sequence_no, s.created_at, LAG(s.sequence_no) OVER (PARTITION BY s.stream_key ORDER BY s.sequence_no) AS before_it FROM @schema@.stream_writes s) w
   WHERE w.sequence_no <> w.before_it + 1 AND (@since_ms IS NULL OR @schema@._ms(w.created_at) >= @since_ms);
  INSERT INTO @found (kind, scope, object, detail)
  SELECT TOP (1000) N'gap', s.scope, s.stream_id, CONCAT(N'the stream stands at ', s.last_no, N', its last write is ', m.last_one)
    FROM @schema@.streams s JOIN (SELECT w.stream_key, MAX(w.sequence_no) AS last_one FROM @schema@.stream_writes w GROUP BY w.stream_key) m ON m.stream_key = s.stream_key WHERE m.last_one <> s.last_no;
  INSERT INTO @found (kind, scope, object, detail)
  SELECT DISTINCT TOP (1000) N'unknown stream', w.scope, w.stream_id, N'there are writes of a stream that is not in streams'
    FROM @schema@.stream_writes w WHERE NOT EXISTS (SELECT 1 FROM @schema@.streams s WHERE s.stream_key = w.stream_key);
  -- F3: no fence is below a term that was stored under it.
  INSERT INTO @found (kind, scope, object, detail)
  SELECT TOP (1000) N'fence below a stored term', q.scope, NULL, CONCAT(N'the fence stands at ', ISNULL(f.term, 0), N', a stored write has term ', q.term)
    FROM (SELECT w.scope_key, MAX(w.scope) AS scope, MAX(w.term) AS term FROM @schema@.stream_writes w GROUP BY w.scope_key) q LEFT JOIN @schema@.fences f ON f.scope_key = q.scope_key
   WHERE q.term > ISNULL(f.term, 0) AND @schema@._stored_max(q.scope_key) > ISNULL(f.term, 0);
  INSERT INTO @found (kind, scope, object, detail)
  SELECT TOP (1000) N'lease above its fence', l.scope, NULL, CONCAT(N'the lease of ', l.owner_id, N' has term ', l.term, N', the fence stands at ', ISNULL(f.term, 0))
    FROM @schema@.leases l LEFT JOIN @schema@.fences f ON f.scope_key = l.scope_key WHERE l.term > ISNULL(f.term, 0);
  SELECT f.kind, f.scope, f.object, f.detail FROM @found f;
END
GO
