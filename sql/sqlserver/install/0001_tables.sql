-- Tables of layer 1, and what a table must refuse by itself. Batches end with GO; @schema@ is the schema in brackets, @schema_lit@ the same
-- as a literal. Parameters: none. An installation or upgrade runs all files in one transaction, under an application lock. Locks: those of
-- CREATE. Keeps F3: only an audited reset lowers a fence row, and nothing deletes or truncates it.
-- Scopes and streams are compared by their bytes: a key (varbinary) is stored beside the name, because SQL Server ignores trailing blanks
-- under every collation, binary ones included. Indexes are looked up by the beginning of their names, which Babelfish makes longer. dbo
-- owns the schema, whoever installs: triggers on the owners' tables reach layer 1 by an ownership chain.
IF SCHEMA_ID(@schema_lit@) IS NULL AND SERVERPROPERTY('Babelfish') IS NULL EXEC(N'CREATE SCHEMA @schema@ AUTHORIZATION [dbo]');
IF SCHEMA_ID(@schema_lit@) IS NULL EXEC(N'CREATE SCHEMA @schema@');
IF SERVERPROPERTY('Babelfish') IS NULL AND NOT EXISTS (SELECT 1 FROM sys.schemas s WHERE s.name = @schema_lit@ AND s.principal_id = DATABASE_PRINCIPAL_ID(N'dbo'))
  EXEC(N'ALTER AUTHORIZATION ON SCHEMA::@schema@ TO [dbo]');
GO
IF OBJECT_ID(N'@schema@.migrations', N'U') IS NULL
CREATE TABLE @schema@.migrations (
  version    int NOT NULL PRIMARY KEY,
  name       nvarchar(200) NOT NULL,
  applied_at datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME()
);
GO
-- The first thing read in a caller's transaction, and never changed. So a transaction of level SNAPSHOT begins as one (otherwise a later
-- statement of its client would be error 3951), and under IMPLICIT_TRANSACTIONS the client's transaction begins here. A lock on this row
-- blocks nobody.
IF OBJECT_ID(N'@schema@.first_read', N'U') IS NULL
CREATE TABLE @schema@.first_read (one int NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1));
GO
INSERT INTO @schema@.first_read (one) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM @schema@.first_read);
GO
-- Numbers for what a client's own statement may write, by a trigger or by the gate. A sequence, because an IDENTITY column would change the
-- client's @@IDENTITY.
IF OBJECT_ID(N'@schema@.audit_ids') IS NULL
CREATE SEQUENCE @schema@.audit_ids AS bigint START WITH 1;
GO
IF OBJECT_ID(N'@schema@.observed_ids') IS NULL
CREATE SEQUENCE @schema@.observed_ids AS bigint START WITH 1;
GO
-- One row for each scope, kept for ever. Term 0: known, but no term accepted yet. marked 1: checks leave a mark, because a protected table
-- uses the scope. pass_key signs the mark of a pass; no level may read it.
IF OBJECT_ID(N'@schema@.fences', N'U') IS NULL
CREATE TABLE @schema@.fences (
  scope_key  varbinary(800) NOT NULL PRIMARY KEY,
  scope      nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  term       bigint NOT NULL CHECK (term BETWEEN 0 AND 4611686018427387904),
  raised_at  datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  raised_by  nvarchar(128) NOT NULL DEFAULT ORIGINAL_LOGIN(),
  raise_by   varchar(6) NOT NULL DEFAULT 'writer' CHECK (raise_by IN ('writer', 'seal')),
  generation bigint NOT NULL DEFAULT 1,
  marked     bit NOT NULL DEFAULT 0,
  pass_key   uniqueidentifier NOT NULL DEFAULT NEWID()
);
GO
-- What this database looked like when its fences were last known to be complete. One row. Fences of a generation below trusted_since are untrusted.
IF OBJECT_ID(N'@schema@.incarnation', N'U') IS NULL
CREATE TABLE @schema@.incarnation (
  one           int NOT NULL PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  generation    bigint NOT NULL DEFAULT 1,
  trusted_since bigint NOT NULL DEFAULT 0,
  recovery_fork nvarchar(100) NULL
);
GO
-- One row for each audited reset of a fence. Terms above to_term and not above from_term are no evidence any more.
IF OBJECT_ID(N'@schema@.resets', N'U') IS NULL
CREATE TABLE @schema@.resets (
  id        bigint IDENTITY(1, 1) NOT NULL PRIMARY KEY,
  scope_key varbinary(800) NOT NULL,
  from_term bigint NOT NULL,
  to_term   bigint NOT NULL,
  open_now  bit NOT NULL DEFAULT 1,  -- 1 only while the transaction of reset_fence lowers the fence
  at        datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME()
);
GO
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.resets') AND i.name LIKE N'resets_scope%') CREATE INDEX resets_scope ON @schema@.resets (scope_key);
GO
IF OBJECT_ID(N'@schema@.leases', N'U') IS NULL
CREATE TABLE @schema@.leases (
  scope_key   varbinary(800) NOT NULL PRIMARY KEY,
  scope       nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  owner_id    nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  term        bigint NOT NULL CHECK (term BETWEEN 0 AND 4611686018427387904),
  expires_at  datetime2(3) NOT NULL,
  acquired_at datetime2(3) NOT NULL,
  renewed_at  datetime2(3) NOT NULL,
  released_at datetime2(3) NULL,
  endpoint    nvarchar(2000) NULL
);
GO
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.leases') AND i.name LIKE N'leases_expires_at%') CREATE INDEX leases_expires_at ON @schema@.leases (expires_at);
GO
-- Never pruned: a stream keeps its scope and its numbering.
IF OBJECT_ID(N'@schema@.streams', N'U') IS NULL
CREATE TABLE @schema@.streams (
  stream_key varbinary(800) NOT NULL PRIMARY KEY,
  stream_id  nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  scope_key  varbinary(800) NOT NULL,
  scope      nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  last_no    bigint NOT NULL DEFAULT 0,
  created_at datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME()
);
GO
-- The scope of a stream is read from this index alone. An append changes last_no and no column of the index, so it locks none of its keys.
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.streams') AND i.name LIKE N'streams_identity%')
CREATE UNIQUE INDEX streams_identity ON @schema@.streams (stream_key) INCLUDE (scope, scope_key);
GO
IF OBJECT_ID(N'@schema@.stream_writes', N'U') IS NULL
CREATE TABLE @schema@.stream_writes (
  stream_key  varbinary(800) NOT NULL,
  sequence_no bigint NOT NULL,
  stream_id   nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  scope_key   varbinary(800) NOT NULL,
  scope       nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  term        bigint NOT NULL,
  payload     varbinary(max) NOT NULL,
  created_at  datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  write_id    uniqueidentifier NULL,
  PRIMARY KEY (stream_key, sequence_no)
);
GO
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.stream_writes') AND i.name LIKE N'stream_writes_scope_term%') CREATE INDEX stream_writes_scope_term ON @schema@.stream_writes (scope_key, term);
GO
-- Ids outlive the pruning of their writes. stream_key is NULL for a plain write (claim_write).
IF OBJECT_ID(N'@schema@.write_ids', N'U') IS NULL
CREATE TABLE @schema@.write_ids (
  write_id    uniqueidentifier NOT NULL PRIMARY KEY,
  stream_key  varbinary(800) NULL,
  stream_id   nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  sequence_no bigint NULL,
  scope_key   varbinary(800) NOT NULL,
  scope       nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  term        bigint NOT NULL,
  created_at  datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME()
);
GO
-- Owners' own tables whose terms count as evidence, and those whose triggers protect made. The names are for people; the object's id decides.
IF OBJECT_ID(N'@schema@.adopted', N'U') IS NULL
CREATE TABLE @schema@.adopted (
  table_id     int NOT NULL PRIMARY KEY,
  table_name   nvarchar(600) NOT NULL,
  scope_column nvarchar(128) NOT NULL,
  term_column  nvarchar(128) NOT NULL,
  adopted_at   datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  adopted_by   nvarchar(128) NOT NULL DEFAULT ORIGINAL_LOGIN()
);
GO
IF OBJECT_ID(N'@schema@.protected', N'U') IS NULL
CREATE TABLE @schema@.protected (
  table_id     int NOT NULL PRIMARY KEY,
  table_name   nvarchar(600) NOT NULL,
  scope_column nvarchar(128) NULL,
  scope        nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  mode         varchar(7) NOT NULL CHECK (mode IN ('enforce', 'observe')),
  protected_at datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  protected_by nvarchar(128) NOT NULL DEFAULT ORIGINAL_LOGIN()
);
GO
-- The prefix that protect or adopt puts in front of a scope column's values.
IF NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = OBJECT_ID(N'@schema@.adopted') AND c.name = N'scope_prefix')
  ALTER TABLE @schema@.adopted ADD scope_prefix nvarchar(150) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'';
GO
IF NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = OBJECT_ID(N'@schema@.protected') AND c.name = N'scope_prefix')
  ALTER TABLE @schema@.protected ADD scope_prefix nvarchar(150) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'';
GO
-- The highest term to which rows of adopted tables have raised a scope, or to which a reset has lowered that: evidence besides its fence.
IF OBJECT_ID(N'@schema@.adopted_terms', N'U') IS NULL
CREATE TABLE @schema@.adopted_terms (
  scope_key varbinary(800) NOT NULL PRIMARY KEY,
  term      bigint NOT NULL
);
GO
-- What mode 'observe' would have refused, about one row a minute for each table, scope, code and login. The table of earlier versions had
-- an IDENTITY column.
IF COLUMNPROPERTY(OBJECT_ID(N'@schema@.observed'), 'id', 'IsIdentity') = 1 EXEC sp_rename N'@schema@.observed', N'observed_with_identity', N'OBJECT';
GO
IF OBJECT_ID(N'@schema@.observed', N'U') IS NULL
CREATE TABLE @schema@.observed (
  id         bigint NOT NULL PRIMARY KEY DEFAULT (NEXT VALUE FOR @schema@.observed_ids),
  at         datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  table_id   int NOT NULL,
  table_name nvarchar(600) NOT NULL,
  scope      nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  code       varchar(5) NOT NULL,
  reason     nvarchar(2048) NOT NULL,
  login_name nvarchar(128) NOT NULL DEFAULT ORIGINAL_LOGIN(),
  client     nvarchar(300) NULL
);
GO
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.observed') AND i.name LIKE N'observed_last%')
CREATE INDEX observed_last ON @schema@.observed (table_id, code, login_name, at) INCLUDE (scope);
GO
IF OBJECT_ID(N'@schema@.observed_with_identity', N'U') IS NOT NULL
BEGIN
  EXEC(N'INSERT INTO @schema@.observed (at, table_id, table_name, scope, code, reason, login_name, client)
         SELECT o.at, o.table_id, o.table_name, o.scope, o.code, o.reason, o.login_name, o.client FROM @schema@.observed_with_identity o ORDER BY o.id');
  EXEC(N'DROP TABLE @schema@.observed_with_identity');
END
GO
IF OBJECT_ID(N'@schema@.job_runs', N'U') IS NULL
CREATE TABLE @schema@.job_runs (
  run_id         bigint IDENTITY(1, 1) NOT NULL PRIMARY KEY,
  job_name       nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  scope_key      varbinary(800) NOT NULL,
  scope          nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  owner_id       nvarchar(400) COLLATE Latin1_General_BIN2 NOT NULL,
  term           bigint NOT NULL,
  started_at     datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  completed_at   datetime2(3) NULL,
  status         varchar(9) NOT NULL DEFAULT 'started' CHECK (status IN ('started', 'completed', 'failed', 'cancelled', 'lost')),
  last_heartbeat datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  exit_code      int NULL,
  [checkpoint]   nvarchar(max) NULL,
  detail         nvarchar(max) NULL,
  started_by     nvarchar(128) NULL,
  request        varchar(7) NULL CHECK (request IN ('run', 'dry-run', 'resume'))
);
GO
-- Up to version 14 this was not recorded: NULL, and any login of level write may end such a run.
IF NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = OBJECT_ID(N'@schema@.job_runs') AND c.name = N'started_by') EXEC(N'ALTER TABLE @schema@.job_runs ADD started_by nvarchar(128) NULL');
GO
-- The kind of run that job_request was called for (0018). NULL: nobody requested the run.
IF NOT EXISTS (SELECT 1 FROM sys.columns c WHERE c.object_id = OBJECT_ID(N'@schema@.job_runs') AND c.name = N'request') EXEC(N'ALTER TABLE @schema@.job_runs ADD request varchar(7) NULL CHECK (request IN (''run'', ''dry-run'', ''resume''))');
GO
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.job_runs') AND i.name LIKE N'job_runs_scope%') CREATE INDEX job_runs_scope ON @schema@.job_runs (scope_key, run_id);
GO
IF COLUMNPROPERTY(OBJECT_ID(N'@schema@.audit'), 'id', 'IsIdentity') = 1 EXEC sp_rename N'@schema@.audit', N'audit_with_identity', N'OBJECT';
GO
IF OBJECT_ID(N'@schema@.audit', N'U') IS NULL
CREATE TABLE @schema@.audit (
  id           bigint NOT NULL PRIMARY KEY DEFAULT (NEXT VALUE FOR @schema@.audit_ids),
  at           datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
  actor        nvarchar(400) NOT NULL,
  [session_user] nvarchar(128) NOT NULL DEFAULT ORIGINAL_LOGIN(),
  client       nvarchar(300) NULL,
  action       varchar(40) NOT NULL,
  scope_key    varbinary(800) NULL,
  scope        nvarchar(400) COLLATE Latin1_General_BIN2 NULL,
  detail       nvarchar(max) NOT NULL DEFAULT N'{}'
);
GO
IF OBJECT_ID(N'@schema@.audit_with_identity', N'U') IS NOT NULL
BEGIN
  EXEC(N'INSERT INTO @schema@.audit (at, actor, [session_user], client, action, scope_key, scope, detail)
         SELECT a.at, a.actor, a.[session_user], a.client, a.action, a.scope_key, a.scope, a.detail FROM @schema@.audit_with_identity a ORDER BY a.id');
  EXEC(N'DROP TABLE @schema@.audit_with_identity');
END
GO
IF NOT EXISTS (SELECT 1 FROM sys.indexes i WHERE i.object_id = OBJECT_ID(N'@schema@.audit') AND i.name LIKE N'audit_scope%') CREATE INDEX audit_scope ON @schema@.audit (scope_key, id);
GO
IF OBJECT_ID(N'@schema@.settings', N'U') IS NULL
CREATE TABLE @schema@.settings (
  name  varchar(40) NOT NULL PRIMARY KEY,
  value nvarchar(100) NOT NULL,
  what  nvarchar(400) NOT NULL
);
GO
INSERT INTO @schema@.settings (name, value, what)
SELECT n.name, n.value, n.what
  FROM (SELECT 'check_wait_ms' AS name, N'5000' AS value, N'how long a check waits for a raise to end before TG006' AS what
        UNION ALL SELECT 'default_raise_by', N'writer', N'who may raise the fence of a new scope: writer (any writer with a higher term) or seal'
        UNION ALL SELECT 'eviction_grace_ms', N'1000', N'how long a raise waits for those in its way before it evicts them'
        UNION ALL SELECT 'grace_after_expiry_ms', N'100', N'the same for an acquisition of a lease that has expired; the shorter of the two'
        UNION ALL SELECT 'failover', N'declared', N'synchronous: every failover here is to a synchronous replica and has lost nothing; declared: an operator says so each time'
        UNION ALL SELECT 'payload_bytes_max', N'268435456', N'the largest payload of an append, in bytes') n
 WHERE NOT EXISTS (SELECT 1 FROM @schema@.settings s WHERE s.name = n.name);
GO
INSERT INTO @schema@.incarnation (one) SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM @schema@.incarnation);
GO
-- F3 against TRUNCATE TABLE, which fires no trigger: a table that a foreign key refers to cannot be truncated, even by its owner ("TRUNCATE
-- TABLE (Transact-SQL)", Restrictions). Always empty.
IF OBJECT_ID(N'@schema@.anchors', N'U') IS NULL
CREATE TABLE @schema@.anchors (
  fence       varbinary(800) NULL REFERENCES @schema@.fences (scope_key),
  lease       varbinary(800) NULL REFERENCES @schema@.leases (scope_key),
  stream      varbinary(800) NULL REFERENCES @schema@.streams (stream_key),
  write_id    uniqueidentifier NULL REFERENCES @schema@.write_ids (write_id),
  reset       bigint NULL REFERENCES @schema@.resets (id),
  setting     varchar(40) NULL REFERENCES @schema@.settings (name),
  incarnation int NULL REFERENCES @schema@.incarnation (one),
  CHECK (fence IS NULL AND lease IS NULL AND stream IS NULL AND write_id IS NULL AND reset IS NULL AND setting IS NULL AND incarnation IS NULL)
);
GO
-- Row locks in these tables are never escalated to a table lock: one scope's large batch would stop all others.
DECLARE @tables nvarchar(400) = N'fences,leases,streams,stream_writes,write_ids,observed,audit,job_runs,', @text nvarchar(400);
WHILE CHARINDEX(N',', @tables) > 0
BEGIN
  SET @text = N'ALTER TABLE @schema@.' + LEFT(@tables, CHARINDEX(N',', @tables) - 1) + N' SET (LOCK_ESCALATION = DISABLE)';
  SET @tables = STUFF(@tables, 1, CHARINDEX(N',', @tables), N'');
  EXEC(@text);
END
GO
-- F3: a fence goes down only while there is an open row of resets for that. Only reset_fence writes one, and closes it in the same
-- transaction.
DROP TRIGGER IF EXISTS @schema@.fences_guard;
GO
CREATE TRIGGER @schema@.fences_guard ON @schema@.fences AFTER UPDATE, DELETE AS
BEGIN
  SET NOCOUNT ON;
  SET ROWCOUNT 0;
  IF EXISTS (SELECT 1 FROM deleted d WHERE NOT EXISTS (SELECT 1 FROM inserted i WHERE i.scope_key = d.scope_key))
    THROW 50005, 'TG005 fences are kept for ever: neither their deletion nor a change of their scope is allowed', 1;
  IF EXISTS (SELECT 1 FROM deleted d JOIN inserted i ON i.scope_key = d.scope_key
              WHERE (i.term < d.term OR i.generation < d.generation OR i.scope <> d.scope OR DATALENGTH(i.scope) <> DATALENGTH(d.scope))
                AND NOT EXISTS (SELECT 1 FROM @schema@.resets r WHERE r.scope_key = d.scope_key AND r.open_now = 1 AND r.from_term = d.term AND r.to_term = i.term))
    THROW 50005, 'TG005 a fence never goes down: only reset_fence lowers it', 1;
END
GO
-- Refuses a setting that could not be read back, which would stop layer 1 in the middle of a raise.
DROP TRIGGER IF EXISTS @schema@.settings_guard;
GO
CREATE TRIGGER @schema@.settings_guard ON @schema@.settings AFTER INSERT, UPDATE, DELETE AS
BEGIN
  SET NOCOUNT ON;
  SET ROWCOUNT 0;
  IF EXISTS (SELECT 1 FROM deleted d WHERE NOT EXISTS (SELECT 1 FROM inserted i WHERE i.name = d.name))
    THROW 50005, 'TG005 a setting cannot be deleted or renamed', 1;
  IF EXISTS (SELECT 1 FROM inserted i WHERE i.name IN ('check_wait_ms', 'eviction_grace_ms', 'grace_after_expiry_ms')
                AND (TRY_CAST(i.value AS bigint) IS NULL OR TRY_CAST(i.value AS bigint) NOT BETWEEN 0 AND 3600000))
    THROW 50005, 'TG005 this setting must be a number of milliseconds from 0 to 3600000', 1;
  IF EXISTS (SELECT 1 FROM inserted i WHERE i.name = 'default_raise_by' AND i.value NOT IN (N'writer', N'seal'))
    THROW 50005, 'TG005 setting default_raise_by must be writer or seal', 1;
  IF EXISTS (SELECT 1 FROM inserted i WHERE i.name = 'failover' AND i.value NOT IN (N'declared', N'synchronous'))
    THROW 50005, 'TG005 setting failover must be declared or synchronous', 1;
  IF EXISTS (SELECT 1 FROM inserted i WHERE i.name = 'payload_bytes_max' AND (TRY_CAST(i.value AS bigint) IS NULL OR TRY_CAST(i.value AS bigint) NOT BETWEEN 1 AND 1073741824))
    THROW 50005, 'TG005 setting payload_bytes_max must be a number of bytes from 1 to 1073741824', 1;
END
GO
-- A batch of an append: the table type of append_many. bytes: the length that each payload must have arrived with.
IF TYPE_ID(N'@schema@.payload_batch') IS NULL
CREATE TYPE @schema@.payload_batch AS TABLE (
  position int NOT NULL PRIMARY KEY,
  payload  varbinary(max) NULL,
  bytes    bigint NULL,
  write_id uniqueidentifier NULL
);
GO
-- The role that owns the application locks: only its members can take them. The four levels are roles too (0009).
IF DATABASE_PRINCIPAL_ID(@schema_lit@ + N'_lock') IS NULL
BEGIN
  DECLARE @make nvarchar(400) = N'CREATE ROLE ' + QUOTENAME(@schema_lit@ + N'_lock');
  EXEC(@make);
END
GO
-- The user as whom some procedures run (EXECUTE AS), so that their callers need no rights. It has no login, because the owner's login may
-- be missing (a database restored on another server or a dropped login: error 15517; a domain that cannot be reached: 15404), and then
-- every write to a protected table would fail, in mode observe too. It may read, see definitions and masked values in this database, and
-- take the application locks. It changes the tables of layer 1 only by the ownership chain. All schemas of a database share it.
IF SERVERPROPERTY('Babelfish') IS NULL
BEGIN
  IF EXISTS (SELECT 1 FROM sys.database_principals p WHERE p.name = N'termgate_guard' AND (p.type <> 'S' OR p.authentication_type <> 0))
    THROW 50005, 'TG005 the name termgate_guard is that of a role, or of a user with a login: Termgate needs it for a user without one; rename yours', 1;
  IF DATABASE_PRINCIPAL_ID(N'termgate_guard') IS NULL EXEC(N'CREATE USER [termgate_guard] WITHOUT LOGIN');
  EXEC(N'GRANT SELECT, VIEW DEFINITION, UNMASK TO [termgate_guard]');
  DECLARE @join nvarchar(400) = N'ALTER ROLE ' + QUOTENAME(@schema_lit@ + N'_lock') + N' ADD MEMBER [termgate_guard]';
  EXEC(@join);
END
GO
