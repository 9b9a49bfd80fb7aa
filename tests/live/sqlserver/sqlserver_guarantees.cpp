// What only a live T-SQL server can show of the guarantees, by plain sessions as any client has
// them: fences changed by hand, locks taken by hand, what an uninstaller leaves.
// TERMGATE_TEST_SQLSERVER names the server (a login that may create databases).
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <thread>

#include <termgate/operator.hpp>

#include "sqlserver_rig.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::chrono_literals;

TEST_CASE("tsql memory: no statement lowers or deletes a fence", "[F3][live][sqlserver]") {
  Rig rig;
  Session session(rig.url);
  session.run(seal("billing", 5));
  for (const std::string statement :
       {"UPDATE termgate.fences SET term = 4", "DELETE FROM termgate.fences",
        "UPDATE termgate.fences SET scope_key = 0x00"}) {
    INFO(statement);
    const auto said = session.refusal(statement);
    REQUIRE(said);
    CHECK(said->find("50005 TG005") != std::string::npos);
    CHECK(session.number("SELECT term FROM termgate.fences") == 5);
  }
}

TEST_CASE("tsql takeover: a frozen holder that has locked an adopted table holds up no acquisition",
          "[F4][live][sqlserver]") {
  Rig rig;
  if (!rig.sees_locks) return;  // nobody can be ended there
  Session leader(rig.url);
  leader.run("CREATE TABLE dbo.adopted (scope nvarchar(200) NOT NULL, term bigint NOT NULL)");
  leader.run("CREATE INDEX adopted_scope ON dbo.adopted (scope, term)");
  leader.run(
      "DECLARE @n bigint; EXEC termgate.adopt @target = N'dbo.adopted', @scope_column = N'scope', "
      "@term_column = N'term', @scopes = @n "
      "OUTPUT");
  CHECK(
      leader.run("EXEC termgate.acquire_lease @scope = N'billing', @owner = N'old', @ttl_ms = 200")
          .one()[1]
          .as_int() == 1);
  Frozen frozen(
      rig.url,
      [&](Session& session) {
        session.run("BEGIN TRANSACTION");
        session.run(check("billing", 1));
        session.run("TRUNCATE TABLE dbo.adopted");
      },
      [&](Session& session) { session.run("COMMIT TRANSACTION"); });
  std::this_thread::sleep_for(300ms);
  const auto start = std::chrono::steady_clock::now();
  const Row taken = leader
                        .run(
                            "EXEC termgate.acquire_lease @scope = N'billing', @owner = N'new', "
                            "@ttl_ms = 10000, @grace_ms = 200")
                        .one();
  CHECK(std::chrono::steady_clock::now() - start < hang);
  CHECK(taken[0].as_int() == 1);
  CHECK(taken[1].as_int() == 2);
  CHECK(frozen.thaw() == 1);
}

TEST_CASE("tsql leases: a lock taken by hand is no acquisition", "[F3][live][sqlserver]") {
  Rig rig;
  Session session(rig.url);
  const std::string acquire =
      "EXEC termgate.acquire_lease @scope = N'billing', @owner = N'me', @ttl_ms = 10000";
  CHECK(session.run(acquire).one()[1].as_int() == 1);
  // Whoever knows the resource of the lease's own lock, and takes it, has acquired nothing by that.
  session.run("BEGIN TRANSACTION");
  session.run(
      "DECLARE @lock nvarchar(64) = termgate._resource(N'l', CONVERT(varbinary(800), N'billing')), "
      "@held nvarchar(64) = "
      "termgate._resource(N'h', CONVERT(varbinary(800), N'billing')); "
      "EXEC sp_getapplock @Resource = @lock, @LockMode = N'Exclusive', @DbPrincipal = "
      "N'termgate_lock'; EXEC sp_getapplock @Resource = "
      "@held, @LockMode = N'Exclusive', @DbPrincipal = N'termgate_lock'");
  CHECK(session.run(acquire).one()[1].as_int() == 2);
  CHECK(session.run(acquire).one()[1].as_int() == 2);
  session.run("ROLLBACK TRANSACTION");
  CHECK(session.run(acquire).one()[1].as_int() == 2);
}

TEST_CASE("tsql uninstall: drops nothing of others and lists what is in its way",
          "[live][sqlserver]") {
  Rig rig;
  Session session(rig.url);
  session.run("CREATE VIEW termgate.theirs AS SELECT 1 AS one");
  session.run("CREATE TABLE termgate.[their notes] (id int)");
  session.run(
      "CREATE TABLE dbo.pointing (version int NOT NULL CONSTRAINT pointing_there REFERENCES "
      "termgate.migrations (version))");
  session.run("CREATE VIEW dbo.bound WITH SCHEMABINDING AS SELECT f.scope FROM termgate.fences f");
  session.run("CREATE TRIGGER termgate.their_trigger ON termgate.settings AFTER UPDATE AS RETURN");
  session.run(
      "DECLARE @n bigint; EXEC termgate.protect @target = N'dbo.ledger', @scope = N'billing', "
      "@protected = @n OUTPUT");
  std::string said;
  try {
    Operator(Database::open(rig.url)).uninstall();
  } catch (const DatabaseError& refused) { said = refused.what(); }
  CAPTURE(said);
  const auto names = [&](const std::string& command) {
    return said.find(command) != std::string::npos;
  };
  CHECK(names("uninstall changed nothing"));
  CHECK(
      names("ALTER SCHEMA [dbo] TRANSFER [termgate].[their notes]; or DROP TABLE [termgate].[their "
            "notes];"));
  CHECK(names("DROP VIEW [termgate].[theirs];"));
  CHECK(names("ALTER TABLE [dbo].[pointing] DROP CONSTRAINT [pointing_there];"));
  CHECK(names("DROP VIEW [dbo].[bound];"));
  CHECK(names("DROP TRIGGER [termgate].[their_trigger];"));
  // All is as it was.
  CHECK(Operator(Database::open(rig.url)).installed_version() > 0);
  CHECK(session.refusal(write_row(5)));
  session.run("DROP VIEW termgate.theirs");
  session.run("ALTER SCHEMA dbo TRANSFER termgate.[their notes]");
  session.run("ALTER TABLE dbo.pointing DROP CONSTRAINT pointing_there");
  session.run("DROP VIEW dbo.bound");
  session.run("DROP TRIGGER termgate.their_trigger");
  Operator(Database::open(rig.url)).uninstall();
  CHECK(session.number("SELECT CASE WHEN SCHEMA_ID(N'termgate') IS NULL THEN 0 ELSE 1 END") == 0);
  CHECK(session.number("SELECT COUNT_BIG(*) FROM dbo.[their notes]") == 0);
  CHECK_FALSE(session.refusal(write_row(5)));
}
