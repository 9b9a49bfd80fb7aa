// Which texts run outside the gate. Everything else goes through it, so what is wrongly taken for
// `other` costs a round trip, and nothing else may ever be taken for a setting.
#include <catch2/catch.hpp>

#include <termgate/tds_session/text.hpp>

using namespace termgate::tds_session;
using Told = TextVerdict::Kind;

TEST_CASE("tds text: settings and questions about the server need no gate", "[proxy][tds]") {
  for (const char* text : {
           "",
           "  ; ",
           "-- nothing\n",
           "/* a /* nested */ comment */",
           "SET NOCOUNT ON",
           "set nocount on;set xact_abort off",
           "SET ANSI_NULLS, QUOTED_IDENTIFIER ON",
           "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
           "SET TRANSACTION ISOLATION LEVEL SNAPSHOT",
           "SET LOCK_TIMEOUT -1",
           "SET TEXTSIZE 2147483647",
           "SET LANGUAGE us_english",
           "SET DATEFORMAT mdy",
           "SET ROWCOUNT 0",
           "SET DEADLOCK_PRIORITY LOW",
           "SET STATISTICS IO ON",
           "SET CONTEXT_INFO 0x01",
           "USE app",
           "USE [my app]",
           "SELECT @@SPID",
           "select @@version as v, @@trancount",
           "SELECT SERVERPROPERTY('ProductVersion')",
           "SELECT 1",
           "SELECT N'x' AS [a]",
           "SELECT DB_NAME(), ISNULL(SESSIONPROPERTY('ANSI_NULLS'), 0)",
           "BEGIN TRAN",
           "BEGIN TRANSACTION;",
           "COMMIT",
           "COMMIT WORK",
           "ROLLBACK TRAN",
           "SAVE TRANSACTION a",
           "IF @@TRANCOUNT > 0 COMMIT TRAN",
           "PRINT 'hello'",
           "EXEC sp_datatype_info_100 0, @ODBCVer = 4",
           "exec sys.sp_server_info",
           "EXEC sp_set_session_context N'tenant', 5",
       }) {
    CAPTURE(text);
    CHECK(classify(text, "termgate").kind == Told::settings);
  }
}

TEST_CASE("tds text: declarations and what is refused", "[F1][proxy][tds]") {
  CHECK(classify("EXEC sp_set_session_context N'termgate.scope', N'a'", "termgate").kind ==
        Told::declares);
  CHECK(
      classify("exec sys.sp_set_session_context @key = 'TermGate.Term', @value = 5, @read_only = 1",
               "termgate")
          .kind == Told::declares);
  const auto set_term = classify("execute [Termgate].set_term N'it''s', 42;", "termgate");
  CHECK(set_term.kind == Told::set_term);
  CHECK(set_term.scope == "it's");
  CHECK(set_term.term == 42);
  CHECK(set_term.problem.empty());
  CHECK_FALSE(
      classify("EXEC termgate.set_term 'a', 99999999999999999999", "termgate").problem.empty());
  CHECK(classify("EXEC other.set_term 'a', 1", "termgate").kind == Told::other);
  // What is refused whatever carries it is in carriers.cpp.
  for (const char* text : {"SELECT 1; EXEC master..sp_reset_connection", "EXEC sys.xp_userlock 1",
                           "SELECT $1; BEGIN DISTRIBUTED /* x */ TRAN"}) {
    CAPTURE(text);
    CHECK(classify(text, "termgate").kind == Told::forbidden);
  }
  CHECK(classify("SELECT * FROM trace WHERE text LIKE N'%sp_reset_connection%'", "termgate").kind ==
        Told::reads);
  CHECK(classify("SELECT $1; SELECT distributed FROM t", "termgate").kind == Told::other);
}

TEST_CASE("tds text: what surely reads", "[proxy][tds]") {
  for (const char* text : {
           "SELECT * FROM t",
           "SELECT 1 FROM t",
           "SELECT @x",
           "SELECT a",
           "SELECT (SELECT 1)",
           "SELECT ISNULL((SELECT 1 FROM t), 0)",
           "SELECT \"a\"",
           "select a, [b], \"c\" from dbo.t as x where x.a = @p0 and b like N'%''x%'",
           "SET NOCOUNT ON; SELECT a FROM app.dbo.t",
           "SET TRANSACTION ISOLATION LEVEL SNAPSHOT SELECT COUNT(*) FROM t WITH (NOLOCK)",
           "USE app SELECT 1 FROM t",
           "DECLARE @x int = 5; SELECT TOP (10) * FROM t WHERE id > @x ORDER BY id DESC",
           "WITH a AS (SELECT id, ROW_NUMBER() OVER (PARTITION BY b ORDER BY c) AS n FROM t) "
           "SELECT * FROM a WHERE n BETWEEN 1 AND 10",
           "SELECT a FROM t ORDER BY a OFFSET 10 ROWS FETCH NEXT 5 ROWS ONLY",
           "SELECT CASE WHEN a IS NULL THEN 'x' ELSE CAST(b AS nvarchar(10)) END FROM t LEFT OUTER "
           "JOIN u ON t.id = u.id",
           "SELECT a FROM t UNION ALL SELECT a FROM u EXCEPT SELECT a FROM v",
           "SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM "
           "t OPTION (RECOMPILE)",
           "SELECT 1 FROM t SELECT 2 FROM u",
           "SELECT '; UPDATE t SET a = 1' FROM t -- INSERT\n",
           "SELECT /* EXEC dbo.p /* nested */ */ a FROM t",
           "SELECT [update], \"insert\" FROM [exec] WHERE a = 0x1F AND b = 1.5e-3",
           "SELECT a FROM t FOR JSON PATH",
           "SELECT a FROM t CROSS APPLY OPENJSON(t.j) WITH (x int '$.x') AS j",
           "SELECT N'\xC3\xA9' FROM t WHERE \"\xC3\xA9\" = 1",
           "SELECT next FROM t",
           "SELECT CAST(a AS decimal(10, 2)), CONVERT(varchar(max), b), TRY_CAST(CAST(c AS int) AS "
           "bigint) FROM t",
           "SELECT CAST(CASE WHEN a AS_ = 1 THEN 1 ELSE 0 END AS bit) AS point FROM t",
           "DECLARE @a AS int = 5, @b decimal(5, 2) = CAST('1' AS decimal(5, 2)), @c sysname "
           "SELECT @a AS point, @b, @c FROM t",
       }) {
    CAPTURE(text);
    CHECK(classify(text, "termgate").kind == Told::reads);
  }
}

// Long: one list of texts.
TEST_CASE("tds text: what writes or might is neither a setting nor a read", "[F1][proxy][tds]") {
  for (const char* text : {
           "INSERT t VALUES (1)",
           "SET NOCOUNT ON INSERT t VALUES (1)",
           "SET @a = 1",
           "SET NOCOUNT ON; DELETE t",
           "SET ROWCOUNT @n",
           "SET NOCOUNT insert t default values",
           "SET TRANSACTION ISOLATION LEVEL NONE",
           "SET FIPS_FLAGGER 'FULL'",
           "USE app DELETE t",
           "PRINT @a",
           "PRINT dbo.f()",
           "BEGIN TRAN UPDATE t SET a = 1",
           "BEGIN UPDATE t SET a = 1 END",
           "BEGIN TRY DELETE t END TRY BEGIN CATCH END CATCH",
           "COMMIT DELETE t",
           "ROLLBACK TRAN x",
           "IF @@TRANCOUNT > 0 DELETE t",
           "IF @@TRANCOUNT > 0 COMMIT TRAN ELSE DELETE t",
           "IF EXISTS (SELECT 1) COMMIT",
           "WHILE 1 = 1 SET NOCOUNT ON",
           "EXEC ('DELETE t')",
           "EXECUTE sp_executesql N'DELETE t'",
           "EXEC sp_datatype_info EXEC p",
           "EXEC sp_datatype_info @a",
           "EXEC dbo.sp_datatype_info 0",
           "EXEC other..sp_set_session_context 'a', 1",
           "EXEC sp_set_session_context N'a', @v",
           "EXEC @rc = sp_datatype_info",
           "EXEC sp_datatype_info; DELETE t",
           "/* */ DELETE t",
           "/* /* */ SET NOCOUNT ON",
           "SET NOCOUNT ON /* */ DELETE t",
           "-- x\nDELETE t",
           "SET NOCOUNT ON --\xC2\x85 DELETE t",
           "SET NOCOUNT\xC2\xA0ON",
           "SELECT 'a''; DELETE t",
           "SELECT 'a\\\n'; DELETE t --'",
           "{call p}",
           "SELECT 1 AS \xC5\xBF"
           "et",
           "SELECT 1:",
           "CREATE TABLE t (a int)",
           "KILL 5",
           "GRANT SELECT ON t TO u",
           "BULK INSERT t FROM 'f'",
           "WRITETEXT t.a @p 'x'",
           "BACKUP DATABASE a TO DISK = 'x'",
           "GO",
           "SELECT * INTO u FROM t",
           "SELECT 1 UPDATE t SET a = 1",
           "SELECT 1INSERT t VALUES (1)",
           "SELECT 1EXEC dbo.p",
           "SELECT 0EXEC..p",
           "SELECT 1e0EXEC..p",
           "SELECT 1.EXEC..p",
           "SELECT 0x1EXEC..p",
           "SELECT 'a'EXEC dbo.p",
           "SELECT [a]EXEC dbo.p",
           "SELECT a FROM t;DELETE t",
           "WITH a AS (SELECT * FROM t) UPDATE a SET b = 1",
           "WITH a AS (SELECT * FROM t) DELETE a",
           "WITH a AS (SELECT 1 AS b) INSERT t SELECT b FROM a",
           "WITH a AS (SELECT 1 AS b) MERGE t USING a ON 1 = 1 WHEN MATCHED THEN DELETE;",
           "SELECT NEXT VALUE FOR s",
           "SELECT next /* */ value FOR dbo.s FROM t",
           "SELECT * FROM OPENXML(@h, '/a')",
           "SELECT dbo.f()",
           "SELECT a.b.f(1) FROM t",
           "SELECT * FROM f(1)",
           "SELECT * FROM [f](1)",
           "SELECT x.value('(/a)[1]', 'int') FROM t",
           "SELECT geometry::Parse('POINT (1 2)')",
           "SELECT * FROM t WITH (UPDLOCK)",
           "SELECT * FROM t WITH (TABLOCKX, HOLDLOCK)",
           "SELECT * FROM t WITH (XLOCK)",
           "SELECT * FROM t FOR UPDATE",
           "EXEC dbo.p",
           "dbo.p",
           "p",
           "DECLARE @t table (a int); INSERT @t VALUES (1); SELECT * FROM @t",
           "DECLARE c CURSOR FOR SELECT * FROM t",
           "DECLARE @x int = 1",
           "SELECT 1 FETCH NEXT FROM c",
           "IF 1 = 1 SELECT * FROM t",
           "BEGIN TRAN SELECT * FROM t COMMIT EXEC dbo.p",
           "SELECT 1 FROM t RECEIVE * FROM q",
           "SELECT 1 FROM t; SEND ON CONVERSATION @h ('x')",
           "SELECT 1 FROM t; THROW 50000, 'x', 1",
           "SELECT 1 FROM t; DISABLE TRIGGER a ON t",
           "SELECT 1 FROM t; TRUNCATE TABLE t",
           "SELECT 1 FROM t; WAITFOR DELAY '1:00'",
           "SELECT 1 FROM t; DBCC CHECKDB",
           "SELECT 1 FROM t; SET IDENTITY_INSERT t ON",
           "SELECT 1 FROM t OPTION (USE HINT ('x'))",
           "SELECT {fn user()} FROM t",
           "SELECT a FROM t WHERE \xEF\xBC\xB5PDATE = 1",
           "SELECT a\xC2\xA0"
           "EXEC dbo.p",
           "SELECT 'a\\\n' FROM t",
           "SELECT a FROM t /* /* */",
           "SELECT a FROM t -- x\rDELETE t\n",
           "SELECT 'unclosed FROM t",
           "SELECT \"unclosed FROM t",
           "SELECT CAST('x' AS dbo.point) FROM t",
           "SELECT CAST('x' AS point) FROM t",
           "SELECT CAST('x' AS [point]) FROM t",
           "SELECT CONVERT(dbo.point, 'x') FROM t",
           "SELECT TRY_CONVERT(point, 'x') FROM t",
           "SELECT CAST((SELECT 1 AS int) AS dbo.point) FROM t",
           "DECLARE @p dbo.point = 'x' SELECT 1 FROM t",
           "DECLARE @a int = 5, @p point = 'x' SELECT 1 FROM t",
           "DECLARE @a int = CAST('x' AS int), @p AS int.point SELECT 1 FROM t",
           "SELECT pg_terminate_backend(1)",
           "SELECT set_config('a', 'b', 0)",
           "SELECT $PARTITION.f(1)",
           "EXEC sp_set_session_context N'termgate.term', N'5'; SELECT * FROM t",
       }) {
    CAPTURE(text);
    CHECK(classify(text, "termgate").kind == Told::other);
  }
  // A number ends where no more of it can follow.
  CHECK(classify("SET LOCK_TIMEOUT 0EXEC..p", "termgate").kind == Told::other);
  CHECK(classify("INSERT BULK t (a int)", "termgate").kind == Told::bulk_insert);
  CHECK(classify("/* */ insert /* */ bulk t (a int)", "termgate").kind == Told::bulk_insert);
}

TEST_CASE("tds text: names of procedures are read as the server reads them", "[F1][proxy][tds]") {
  for (const char* name :
       {"sp_server_info", "SP_Server_Info", "sys.sp_server_info", "[sys].[sp_server_info]",
        "app.sys.sp_server_info", "\"sys\".sp_server_info"}) {
    CAPTURE(name);
    CHECK(is_harmless_procedure(name));
  }
  // A user's procedure may have any of these for its name.
  for (const char* name : {"[sys.sp_server_info]",
                           "\"sys.sp_server_info\"",
                           "[app.sys.sp_server_info]",
                           "dbo.sp_server_info",
                           "sp_server_info;1",
                           "sp_server_info ",
                           " sp_server_info",
                           "[sp_server_info",
                           "sp_server_info]",
                           "sp_[server]_info",
                           "sp_server\"_info\"",
                           "[sp_server_info]]]",
                           "srv.app.sys.sp_server_info",
                           "..sp_server_info",
                           "sys..sp_server_info",
                           "",
                           "[]",
                           "sys.",
                           "1sp_server_info",
                           "sp_\xC5\xBF"
                           "erver_info"}) {
    CAPTURE(name);
    CHECK_FALSE(is_harmless_procedure(name));
  }
  for (const char* name :
       {"sp_reset_connection", "sys.SP_RESET_CONNECTION", "[sp_reset_connection]",
        "master..sp_reset_connection;1", "[ sp_reset_connection ]"})
    CHECK(resets_session(name));
  for (const char* name :
       {"dbo.reset_connection", "sp_reset_connection_2", "my_sp_reset_connection"})
    CHECK_FALSE(resets_session(name));
}

TEST_CASE("tds text: parameters that go with a statement", "[F1][proxy][tds]") {
  for (const char* text : {"", "@p0 int", "@p0 int,@P1 nvarchar(4000), @p2 decimal(38, 0) = 5",
                           "@m nvarchar(max) OUTPUT, @n varbinary(8000) output"}) {
    CAPTURE(text);
    CHECK(only_declares(text));
  }
  for (const char* text :
       {"@p0 dbo.point", "@p0 point", "@p0 dbo.rows READONLY", "@p0 int; INSERT t VALUES (1)",
        "@p0 int) AS INSERT t VALUES (1) --", "@p0 int = f(1)", "@p0 int = (SELECT 1)", "p0 int",
        "@p0", "@p0 int, ", "@p0 int EXEC dbo.p"}) {
    CAPTURE(text);
    CHECK_FALSE(only_declares(text));
  }
}
