-- doctor and verify_findings: what is not covered, and any breach that the stored rows can show. They read, and lock nothing.
DROP PROCEDURE IF EXISTS @schema@.doctor;
DROP PROCEDURE IF EXISTS @schema@.verify_findings;
GO
-- doctor → rows. severity: error (the law does not hold there), warning (somebody could get round it), info.
CREATE PROCEDURE @schema@.doctor AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @found TABLE (id int IDENTITY(1, 1) NOT NULL PRIMARY KEY, severity nvarchar(10) NOT NULL, object nvarchar(800) NOT NULL, problem nvarchar(2048) NOT NULL, remedy nvarchar(1000) NOT NULL);
  EXEC @schema@._look;
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT TOP (100) N'error', CONCAT(N'scope "', f.scope, N'"'), N'its fence is untrusted: this database was restored or failed over, and nobody has vouched for the scope since', N'acquire its lease, or termgate fence declare-restored --scope … --above N'
    FROM @schema@.fences f WHERE @schema@._untrusted(f.generation) = 1 ORDER BY f.scope_key;
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT N'error', N'trigger fences_guard', N'it is gone or disabled: fences could be lowered by hand', N'run termgate init again'
   WHERE NOT EXISTS (SELECT 1 FROM sys.triggers t WHERE t.parent_id = OBJECT_ID(N'@schema@.fences') AND t.name = N'fences_guard' AND t.is_disabled = 0);
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT CASE d.delayed_durability WHEN 2 THEN N'error' ELSE N'warning' END, CONCAT(N'database ', d.name), CASE d.delayed_durability WHEN 2 THEN N'DELAYED_DURABILITY = FORCED: no fence can be raised, for its COMMIT would return before it is flushed'
         ELSE N'DELAYED_DURABILITY = ALLOWED: who raises inside a transaction and commits that WITH (DELAYED_DURABILITY = ON) can lose the raise in a crash' END, N'ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED'
    FROM sys.databases d WHERE d.database_id = DB_ID() AND d.delayed_durability IN (1, 2);
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT TOP (100) N'info', CONCAT(N'scope "', l.scope, N'"'), CONCAT(N'the lease of ', l.owner_id, N' ran out at ', CONVERT(nvarchar(30), l.expires_at, 126), N', and nobody has taken over'), N'its holder may still write, for nobody overtook it; acquire the lease to take over'
    FROM @schema@.leases l WHERE l.released_at IS NULL AND l.expires_at < SYSUTCDATETIME() ORDER BY l.expires_at;
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT N'error', p.table_name, N'protected, but its trigger is gone, disabled or behind another name', CONCAT(N'EXEC @schema@.protect for ', p.table_name, N' again')
    FROM @schema@.protected p
   WHERE OBJECT_NAME(p.table_id) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sys.triggers t WHERE t.parent_id = p.table_id AND t.name = CONCAT(@schema_lit@, N'_protect_', p.table_id) AND t.is_disabled = 0);
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT N'error', a.table_name, N'adopted, but the trigger that reports its terms is gone or disabled', CONCAT(N'EXEC @schema@.adopt for ', a.table_name, N' again')
    FROM @schema@.adopted a
   WHERE OBJECT_NAME(a.table_id) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sys.triggers t WHERE t.parent_id = a.table_id AND t.name = CONCAT(@schema_lit@, N'_adopt_', a.table_id) AND t.is_disabled = 0);
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT N'warning', a.table_name, N'adopted but not protected: a stale writer can change its rows', CONCAT(N'EXEC @schema@.protect for ', a.table_name)
    FROM @schema@.adopted a WHERE NOT EXISTS (SELECT 1 FROM @schema@.protected p WHERE p.table_id = a.table_id);
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT N'warning', a.table_name, N'adopted once, but the table is gone', N'nothing to do: the fences keep its terms' FROM @schema@.adopted a WHERE OBJECT_NAME(a.table_id) IS NULL;
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT N'info', p.table_name, N'mode observe: nothing is refused there', CONCAT(N'EXEC @schema@.protect for ', p.table_name, N' in mode enforce') FROM @schema@.protected p WHERE p.mode = 'observe';
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT TOP (100) N'warning', o.table_name, CONCAT(N'would have been refused ', COUNT(*), N' times with ', o.code, N' (scope "', o.scope, N'", login ', o.login_name, N', last at ', CONVERT(nvarchar(30), MAX(o.at), 126), N')'), N'let it declare its scope and term before mode enforce'
    FROM @schema@.observed o GROUP BY o.table_name, o.code, o.scope, o.login_name ORDER BY COUNT(*) DESC;
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT TOP (100) N'info', CONCAT(SCHEMA_NAME(t.schema_id), N'.', t.name), N'neither protected nor adopted: whoever may write to it writes unfenced', N'protect it, if a leader writes to it'
    FROM sys.tables t WHERE SCHEMA_NAME(t.schema_id) <> @schema_lit@ AND t.is_ms_shipped = 0
     AND NOT EXISTS (SELECT 1 FROM @schema@.protected p WHERE p.table_id = t.object_id) AND NOT EXISTS (SELECT 1 FROM @schema@.adopted a WHERE a.table_id = t.object_id) ORDER BY t.name;
  INSERT INTO @found (severity, object, problem, remedy)
  SELECT N'warning', CONCAT(N'login ', ORIGINAL_LOGIN()), N'this login may not see who holds a lock, or not end sessions: a frozen writer ends its raises with 50006', N'GRANT VIEW SERVER STATE and ALTER ANY CONNECTION to the logins that raise'
   WHERE HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE') = 0 OR HAS_PERMS_BY_NAME(NULL, NULL, 'ALTER ANY CONNECTION') = 0;
  SELECT f.severity, f.object, f.problem, f.remedy FROM @found f ORDER BY f.id;
END
GO
-- verify_findings(since_ms) → one row for each breach that the stored rows show; none: the law is kept. since: leaves out stream writes that are older.
CREATE PROCEDURE @schema@.verify_findings @since_ms bigint = NULL AS
BEGIN
  SET NOCOUNT ON;
  DECLARE @found TABLE (kind nvarchar(60) NOT NULL, scope nvarchar(400) NULL, object nvarchar(800) NULL, detail nvarchar(2048) NOT NULL);
  -- F1: terms along a stream never decrease, but for what a reset took back.
  INSERT INTO @found (kind, scope, object, detail)
  SELECT TOP (1000) N'term decreases', w.scope, w.stream_id, CONCAT(N'write ', w.sequence_no, N' has term ', w.term, N' after term ', w.before_it)
    FROM (SELECT s.scope_key, s.scope, s.stream_id, s.sequence_no, s.term, s.created_at, LAG(s.term) OVER (PARTITION BY s.stream_key ORDER BY s.sequence_no) AS before_it FROM @schema@.stream_writes s) w
   WHERE w.term < w.before_it AND (@since_ms IS NULL OR @schema@._ms(w.created_at) >= @since_ms)
     AND NOT EXISTS (SELECT 1 FROM @schema@.resets r WHERE r.scope_key = w.scope_key AND r.to_term <= w.term AND w.before_it > r.to_term AND w.before_it <= r.from_term);
  -- Numbers have no gap after the first that pruning left, and end where the stream says.
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
  -- F3: no fence stands below a term that was stored under it.
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
