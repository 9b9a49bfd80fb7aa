-- Reading: views for roles that have SELECT on them and nothing on the tables, and the runs of jobs. Only committed rows are read: without
-- READ_COMMITTED_SNAPSHOT a reader waits for a raise, a lease or an append that is still open, in the reading procedures for 2 s at most
-- (error 1222). job_start, job_heartbeat and a completed job_finish are checked like a write.
DROP VIEW IF EXISTS @schema@.fence_status;
DROP VIEW IF EXISTS @schema@.lease_status;
DROP VIEW IF EXISTS @schema@.stream_status;
DROP VIEW IF EXISTS @schema@.job_history;
DROP VIEW IF EXISTS @schema@.audit_log;
DROP VIEW IF EXISTS @schema@.setting_list;
DROP VIEW IF EXISTS @schema@.protected_tables;
DROP VIEW IF EXISTS @schema@.adopted_tables;
DROP PROCEDURE IF EXISTS @schema@.fence;
DROP PROCEDURE IF EXISTS @schema@.lease;
DROP PROCEDURE IF EXISTS @schema@.read_stream;
DROP PROCEDURE IF EXISTS @schema@.read_payload;
DROP PROCEDURE IF EXISTS @schema@.outcome;
DROP PROCEDURE IF EXISTS @schema@.record_refusal;
DROP PROCEDURE IF EXISTS @schema@._job_checked;
DROP PROCEDURE IF EXISTS @schema@._job_open;
DROP PROCEDURE IF EXISTS @schema@._job_begin;
DROP PROCEDURE IF EXISTS @schema@.job_start;
DROP PROCEDURE IF EXISTS @schema@.job_heartbeat;
DROP PROCEDURE IF EXISTS @schema@.job_finish;
GO
-- reset_from: the highest fence that an audited reset has lowered.
CREATE VIEW @schema@.fence_status AS
  SELECT f.scope_key, f.scope, f.term, f.raised_at, @schema@._ms(f.raised_at) AS raised_at_ms, f.raised_by, f.raise_by, @schema@._untrusted(f.generation) AS untrusted,
         (SELECT MAX(r.from_term) FROM @schema@.resets r WHERE r.scope_key = f.scope_key) AS reset_from
    FROM @schema@.fences f;
GO
CREATE VIEW @schema@.lease_status AS
  SELECT l.scope_key, l.scope, l.owner_id, l.term, l.expires_at, @schema@._ms(l.expires_at) AS expires_at_ms, @schema@._ms(l.acquired_at) AS acquired_at_ms, @schema@._ms(l.renewed_at) AS renewed_at_ms,
         @schema@._ms(l.released_at) AS released_at_ms, l.endpoint, CASE WHEN l.released_at IS NULL THEN DATEDIFF_BIG(millisecond, SYSUTCDATETIME(), l.expires_at) ELSE 0 END AS remaining_ms
    FROM @schema@.leases l;
GO
CREATE VIEW @schema@.stream_status AS
  SELECT s.stream_key, s.stream_id, s.scope, s.last_no, (SELECT MIN(w.sequence_no) FROM @schema@.stream_writes w WHERE w.stream_key = s.stream_key) AS first_no, s.created_at, @schema@._ms(s.created_at) AS created_at_ms
    FROM @schema@.streams s;
GO
CREATE VIEW @schema@.job_history AS
  SELECT j.run_id, j.job_name, j.scope, j.owner_id, j.term, @schema@._ms(j.started_at) AS started_at_ms, @schema@._ms(j.completed_at) AS completed_at_ms,
         CASE WHEN j.status = 'started' AND j.term = 0 THEN 'requested'
              WHEN j.status = 'started'
               AND (EXISTS (SELECT 1 FROM @schema@.fences f WHERE f.scope_key = j.scope_key AND f.term <> j.term)
                    OR EXISTS (SELECT 1 FROM @schema@.leases l WHERE l.scope_key = j.scope_key AND (l.term <> j.term OR l.released_at IS NOT NULL OR l.expires_at <= SYSUTCDATETIME())))
              THEN 'lost' ELSE j.status END AS status, @schema@._ms(j.last_heartbeat) AS last_heartbeat_ms,
         j.exit_code, j.[checkpoint], j.detail, j.request
    FROM @schema@.job_runs j;
GO
CREATE VIEW @schema@.audit_log AS
  SELECT a.id, a.at, @schema@._ms(a.at) AS at_ms, a.actor, a.[session_user], a.client, a.action, a.scope_key, a.scope, a.detail FROM @schema@.audit a;
GO
CREATE VIEW @schema@.setting_list AS SELECT s.name, s.value, s.what FROM @schema@.settings s;
GO
CREATE VIEW @schema@.protected_tables AS SELECT p.table_id, p.table_name, p.scope_column, p.scope, p.mode, p.protected_at, p.protected_by, p.scope_prefix FROM @schema@.protected p;
GO
CREATE VIEW @schema@.adopted_tables AS SELECT a.table_id, a.table_name, a.scope_column, a.term_column, a.adopted_at, a.adopted_by, a.scope_prefix FROM @schema@.adopted a;
GO
CREATE PROCEDURE @schema@.fence @scope nvarchar(4000) AS
BEGIN
  SET NOCOUNT ON;
  SET LOCK_TIMEOUT 2000;
  SELECT f.scope, f.term, f.raised_at_ms, f.raised_by, f.raise_by, f.untrusted, f.reset_from FROM @schema@.fence_status f WHERE f.scope_key = CONVERT(varbinary(800), @scope);
END
GO
CREATE PROCEDURE @schema@.lease @scope nvarchar(4000) AS
BEGIN
  SET NOCOUNT ON;
  SET LOCK_TIMEOUT 2000;
  SELECT l.scope, l.owner_id, l.term, l.expires_at_ms, l.acquired_at_ms, l.renewed_at_ms, l.released_at_ms, l.endpoint, l.remaining_ms FROM @schema@.lease_status l WHERE l.scope_key = CONVERT(varbinary(800), @scope);
END
GO
-- read_stream(stream, after, limit, payload_max) → writes with a higher number, in order. Numbers become visible in order, so a follower
-- skips none. A payload of more than payload_max bytes is returned as NULL, beside its length; read_payload reads it in parts.
CREATE PROCEDURE @schema@.read_stream @stream nvarchar(4000), @after bigint = 0, @limit bigint = NULL, @payload_max bigint = NULL AS
BEGIN
  SET NOCOUNT ON;
  SET LOCK_TIMEOUT 2000;
  SELECT TOP (ISNULL(@limit, 9223372036854775807)) w.sequence_no, w.scope, w.term, CASE WHEN @payload_max IS NULL OR DATALENGTH(w.payload) <= @payload_max THEN w.payload END AS payload,
         @schema@._ms(w.created_at) AS created_at_ms, LOWER(CONVERT(nvarchar(36), w.write_id)) AS write_id, CAST(DATALENGTH(w.payload) AS bigint) AS payload_bytes
    FROM @schema@.stream_writes w WHERE w.stream_key = CONVERT(varbinary(800), @stream) AND w.sequence_no > ISNULL(@after, 0) ORDER BY w.sequence_no;
END
GO
-- read_payload(stream, sequence_no, start, bytes) → one row: that many bytes of the payload, from the offset start on (0: the first byte).
-- No row: the write does not exist, or has been pruned.
CREATE PROCEDURE @schema@.read_payload @stream nvarchar(4000), @sequence_no bigint, @start bigint, @bytes bigint AS
BEGIN
  SET NOCOUNT ON;
  SET LOCK_TIMEOUT 2000;
  SELECT SUBSTRING(w.payload, @start + 1, @bytes) AS part FROM @schema@.stream_writes w WHERE w.stream_key = CONVERT(varbinary(800), @stream) AND w.sequence_no = @sequence_no;
END
GO
-- outcome(write_id) → one row if that write was committed, none if it was not. It waits for an attempt that is still in progress, for 2 s
-- at most.
CREATE PROCEDURE @schema@.outcome @write_id uniqueidentifier AS
BEGIN
  SET NOCOUNT ON;
  SET LOCK_TIMEOUT 2000;
  SELECT i.scope, i.term, i.stream_id AS stream, i.sequence_no, @schema@._ms(i.created_at) AS created_at_ms FROM @schema@.write_ids i WITH (READCOMMITTEDLOCK) WHERE i.write_id = @write_id;
END
GO
-- record_refusal(…) → recorded. A refused transaction is rolled back, so its library or proxy records the refusal afterwards, at most once
-- a second for each scope.
CREATE PROCEDURE @schema@.record_refusal @scope nvarchar(4000), @term bigint, @count bigint, @first_ms bigint, @last_ms bigint, @client nvarchar(300) = NULL, @recorded bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET IMPLICIT_TRANSACTIONS OFF;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @detail nvarchar(max);
  EXEC @schema@._need_scope @scope;
  IF @count IS NULL OR @count < 1 THROW 50005, 'TG005 the number of refusals must be 1 or more', 1;
  SET @recorded = 0;
  IF EXISTS (SELECT 1 FROM @schema@.audit a WITH (NOLOCK) WHERE a.scope_key = CONVERT(varbinary(800), @scope) AND a.action = 'refuse' AND a.at > DATEADD(second, -1, SYSUTCDATETIME())) RETURN 0;
  SET @detail = (SELECT @term AS term, @count AS [count], @first_ms AS first_ms, @last_ms AS last_ms, @client AS client FOR JSON PATH, WITHOUT_ARRAY_WRAPPER);
  EXEC @schema@._audit 'refuse', @scope, NULL, @detail;
  SET @recorded = 1;
END
GO
-- The states of a run and what each of the calls below does in them: docs/reference/jobs.md.
-- For job_start and job_take (0018), in a transaction: the check, then room for one open run of a job and scope. An open run of the job
-- under this term is an error. Those of other terms become lost, because their terms are not the fence. A requested run, which has term 0,
-- stays.
CREATE PROCEDURE @schema@._job_begin @job_name nvarchar(4000), @scope nvarchar(4000), @term bigint AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @key varbinary(800) = CONVERT(varbinary(800), @scope), @fence bigint, @open bigint, @message nvarchar(2000);
  EXEC @schema@.check_term @scope, @term, @fence OUTPUT;
  SELECT @open = j.run_id FROM @schema@.job_runs j WITH (READCOMMITTEDLOCK) WHERE j.scope_key = @key AND CONVERT(varbinary(800), j.job_name) = CONVERT(varbinary(800), @job_name) AND j.status = 'started' AND j.term = @term;
  IF @open IS NOT NULL
  BEGIN
    SET @message = CONCAT(N'TG005 job "', @job_name, N'" of scope "', @scope, N'" has an open run already, ', @open, N': finish it first');
    EXEC @schema@._throw 50005, @message;
  END
  UPDATE @schema@.job_runs SET status = 'lost', completed_at = SYSUTCDATETIME()
   WHERE scope_key = @key AND CONVERT(varbinary(800), job_name) = CONVERT(varbinary(800), @job_name) AND status = 'started' AND term NOT IN (0, @term);
END
GO
-- job_start(job_name, scope, owner, term, detail) → run_id. Checked like a write.
CREATE PROCEDURE @schema@.job_start @job_name nvarchar(4000), @scope nvarchar(4000), @owner nvarchar(4000), @term bigint, @detail nvarchar(max) = NULL, @run_id bigint OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @fence bigint, @own bit;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  EXEC @schema@._need_scope @job_name, N'job';
  EXEC @schema@._need_owner @owner;
  -- A raise is committed first, by itself; the check below then meets its fence.
  IF @own = 1 EXEC @schema@.check_term @scope, @term, @fence OUTPUT;
  IF @own = 1 BEGIN TRANSACTION;
  EXEC @schema@._job_begin @job_name, @scope, @term;
  INSERT INTO @schema@.job_runs (job_name, scope_key, scope, owner_id, term, detail, started_by) VALUES (@job_name, CONVERT(varbinary(800), @scope), @scope, @owner, @term, @detail, ORIGINAL_LOGIN());
  SET @run_id = SCOPE_IDENTITY();
  IF @own = 1 COMMIT TRANSACTION;
END
GO
-- @open 0: the run is not open. An error if it is not the caller's: only the login that started it may use it, and a session that declares
-- a scope must declare the run's, and no other term. @checked 1: the run's scope and term must pass the check too. A requested run that has
-- not begun is open only with @checked 0. NOLOCK is enough, because these columns do not change once a run has begun; the UPDATE that
-- follows tests the status again.
-- Locks: row job_runs none statement
CREATE PROCEDURE @schema@._job_open @run_id bigint, @checked bit, @open bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @scope nvarchar(400), @term bigint, @by nvarchar(128), @fence bigint, @message nvarchar(2000), @declared nvarchar(400), @declared_term nvarchar(32);
  SELECT @scope = j.scope, @term = j.term, @by = j.started_by FROM @schema@.job_runs j WITH (NOLOCK) WHERE j.run_id = @run_id AND j.status = 'started' AND (j.term > 0 OR @checked = 0);
  SET @open = CASE WHEN @scope IS NULL THEN 0 ELSE 1 END;
  IF @open = 0 RETURN 0;
  IF CONVERT(varbinary(256), @by) <> CONVERT(varbinary(256), CONVERT(nvarchar(128), ORIGINAL_LOGIN()))
  BEGIN
    SET @message = CONCAT(N'TG005 run ', @run_id, N' of scope "', @scope, N'" was started by login "', @by, N'": login "', ORIGINAL_LOGIN(), N'" may neither beat nor end it; level operate cancels it');
    EXEC @schema@._throw 50005, @message;
  END
  SET @declared = NULLIF(CAST(SESSION_CONTEXT(N'termgate.scope') AS nvarchar(400)), N'');
  SET @declared_term = NULLIF(CAST(SESSION_CONTEXT(N'termgate.term') AS nvarchar(32)), N'');
  IF CONVERT(varbinary(800), @declared) <> CONVERT(varbinary(800), @scope) OR (@declared IS NOT NULL AND @declared_term <> CAST(@term AS nvarchar(32)))
  BEGIN
    SET @message = CONCAT(N'TG005 run ', @run_id, N' is of scope "', @scope, N'" and term ', @term, N', and this session declares scope "', @declared, N'" and term ', ISNULL(@declared_term, N'none'));
    EXEC @schema@._throw 50005, @message;
  END
  IF @checked = 1 EXEC @schema@.check_term @scope, @term, @fence OUTPUT;
END
GO
CREATE PROCEDURE @schema@.job_heartbeat @run_id bigint, @checkpoint nvarchar(max) = NULL, @beaten bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @own bit;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  IF @own = 1 BEGIN TRANSACTION;
  EXEC @schema@._job_open @run_id, 1, @beaten OUTPUT;
  IF @beaten = 1
  BEGIN
    UPDATE @schema@.job_runs SET last_heartbeat = SYSUTCDATETIME(), [checkpoint] = ISNULL(@checkpoint, [checkpoint]) WHERE run_id = @run_id AND status = 'started';
    IF @@ROWCOUNT = 0 SET @beaten = 0;
  END
  IF @own = 1 COMMIT TRANSACTION;
END
GO
-- job_finish(run_id, status, exit_code, detail, checkpoint) → finished. `completed` is checked like a write. failed, cancelled and lost are
-- not, so that a login can end its run after it has lost the lead. Level operate may cancel any run.
CREATE PROCEDURE @schema@.job_finish @run_id bigint, @status nvarchar(20), @exit_code int = NULL, @detail nvarchar(max) = NULL, @checkpoint nvarchar(max) = NULL, @finished bit OUTPUT AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  SET ROWCOUNT 0;
  SET LOCK_TIMEOUT 5000;
  DECLARE @one int, @own bit, @checked bit = CASE WHEN @status = N'completed' THEN 1 ELSE 0 END;
  IF @@TRANCOUNT > 0 OR (@@OPTIONS / 2) % 2 = 1 SELECT @one = r.one FROM @schema@.first_read r;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SET @own = CASE WHEN @@TRANCOUNT = 0 THEN 1 ELSE 0 END;
  IF @status IS NULL OR @status NOT IN (N'completed', N'failed', N'cancelled', N'lost') THROW 50005, 'TG005 a run ends as completed, failed, cancelled or lost', 1;
  SET @finished = 1;
  IF @own = 1 BEGIN TRANSACTION;
  IF @status <> N'cancelled' OR ISNULL(HAS_PERMS_BY_NAME(N'@schema@.force_release', 'OBJECT', 'EXECUTE'), 0) = 0 EXEC @schema@._job_open @run_id, @checked, @finished OUTPUT;
  IF @finished = 1
  BEGIN
    UPDATE @schema@.job_runs SET status = @status, completed_at = SYSUTCDATETIME(), last_heartbeat = SYSUTCDATETIME(), exit_code = @exit_code, [checkpoint] = ISNULL(@checkpoint, [checkpoint]), detail = ISNULL(@detail, detail)
     WHERE run_id = @run_id AND status = 'started';
    IF @@ROWCOUNT = 0 SET @finished = 0;
  END
  IF @own = 1 COMMIT TRANSACTION;
END
GO
