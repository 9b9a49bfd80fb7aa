-- Who may call what: four database roles, each of which has what the one before has. Users need EXECUTE and nothing on the tables;
-- procedures reach those by ownership chaining. The locks' role has no rights: its members are allowed to take the application locks.
-- Parameters: none. Locks: those of GRANT.
DECLARE @level int = 0, @role sysname, @before sysname, @text nvarchar(max), @names nvarchar(max), @name nvarchar(128);
WHILE @level < 4
BEGIN
  SET @level = @level + 1;
  SET @before = @role;
  SET @role = @schema_lit@ + CASE @level WHEN 1 THEN N'_read' WHEN 2 THEN N'_write' WHEN 3 THEN N'_lead' ELSE N'_operate' END;
  SET @names = CASE @level
    WHEN 1 THEN N'fence,lease,read_stream,read_payload,outcome,doctor,verify_findings,'
    WHEN 2 THEN N'check_term,append,append_many,claim_write,record_refusal,job_start,job_heartbeat,job_finish,_adopted_row,'
    WHEN 3 THEN N'seal,acquire_lease,renew_lease,renew_leases,release_lease,'
    ELSE N'adopt,force_release,reset_fence,prune,prune_history,stream_move,set_raise_by,set_setting,set_settings,declare_restored,declare_nothing_lost,declare_untrusted,' END;
  IF DATABASE_PRINCIPAL_ID(@role) IS NULL
  BEGIN
    SET @text = N'CREATE ROLE ' + QUOTENAME(@role);
    EXEC(@text);
    SET @text = N'ALTER ROLE ' + QUOTENAME(ISNULL(@before, @schema_lit@ + N'_lock')) + N' ADD MEMBER ' + QUOTENAME(@role);
    IF @level > 1 EXEC(@text);
    SET @text = N'ALTER ROLE ' + QUOTENAME(@schema_lit@ + N'_lock') + N' ADD MEMBER ' + QUOTENAME(@role);
    IF @level = 2 EXEC(@text);
  END
  WHILE CHARINDEX(N',', @names) > 0
  BEGIN
    SET @name = LEFT(@names, CHARINDEX(N',', @names) - 1);
    SET @names = STUFF(@names, 1, CHARINDEX(N',', @names), N'');
    SET @text = N'GRANT EXECUTE ON @schema@.' + QUOTENAME(@name) + N' TO ' + QUOTENAME(@role);
    EXEC(@text);
  END
END
GO
DECLARE @role sysname = @schema_lit@ + N'_read', @text nvarchar(max);
SET @text = N'GRANT SELECT ON @schema@.fence_status TO ' + QUOTENAME(@role) + N'; GRANT SELECT ON @schema@.lease_status TO ' + QUOTENAME(@role) + N'; GRANT SELECT ON @schema@.stream_status TO ' + QUOTENAME(@role) +
  N'; GRANT SELECT ON @schema@.job_history TO ' + QUOTENAME(@role) + N'; GRANT SELECT ON @schema@.audit_log TO ' + QUOTENAME(@role) + N'; GRANT SELECT ON @schema@.setting_list TO ' + QUOTENAME(@role) +
  N'; GRANT SELECT ON @schema@.protected_tables TO ' + QUOTENAME(@role) + N'; GRANT SELECT ON @schema@.adopted_tables TO ' + QUOTENAME(@role);
EXEC(@text);
-- Babelfish has no rights on types: everybody may use one.
IF SERVERPROPERTY('Babelfish') IS NULL
BEGIN
  SET @text = N'GRANT EXECUTE ON TYPE::@schema@.payload_batch TO ' + QUOTENAME(@schema_lit@ + N'_write');
  EXEC(@text);
END
GO
-- A writer to a protected table runs its trigger, which reads the recovery fork itself and lets termgate_guard decide. Table owners call
-- protect, unprotect and unadopt, which run as their caller.
GRANT EXECUTE ON @schema@._guard TO public;
GRANT EXECUTE ON @schema@._look TO public;
GRANT EXECUTE ON @schema@.protect TO public;
GRANT EXECUTE ON @schema@.unprotect TO public;
GRANT EXECUTE ON @schema@.unadopt TO public;
GO
-- _grant(role, level): adds a user or role of the database to the role of this level, and removes it from the other three, so it lowers as
-- well as raises. For the owner; `termgate init --grant ROLE=LEVEL` calls it.
DROP PROCEDURE IF EXISTS @schema@._grant;
GO
CREATE PROCEDURE @schema@._grant @role nvarchar(128), @level nvarchar(20) AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  DECLARE @text nvarchar(max), @message nvarchar(2048);
  IF @level IS NULL OR @level NOT IN (N'read', N'write', N'lead', N'operate') THROW 50005, 'TG005 the level is read, write, lead or operate', 1;
  IF DATABASE_PRINCIPAL_ID(@role) IS NULL
  BEGIN
    SET @message = CONCAT(N'TG005 this database has no user or role ', @role);
    EXEC @schema@._throw 50005, @message;
  END
  WHILE 1 = 1
  BEGIN
    SET @text = NULL;
    SELECT TOP (1) @text = N'ALTER ROLE ' + QUOTENAME(r.name) + N' DROP MEMBER ' + QUOTENAME(@role)
      FROM sys.database_role_members x JOIN sys.database_principals r ON r.principal_id = x.role_principal_id
     WHERE x.member_principal_id = DATABASE_PRINCIPAL_ID(@role) AND r.name <> CONCAT(@schema_lit@, N'_', @level) AND r.name IN (@schema_lit@ + N'_read', @schema_lit@ + N'_write', @schema_lit@ + N'_lead', @schema_lit@ + N'_operate') ORDER BY r.name;
    IF @text IS NULL BREAK;
    EXEC(@text);
  END
  SET @text = N'ALTER ROLE ' + QUOTENAME(CONCAT(@schema_lit@, N'_', @level)) + N' ADD MEMBER ' + QUOTENAME(@role);
  EXEC(@text);
END
GO
