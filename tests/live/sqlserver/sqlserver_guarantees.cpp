// The guarantees on a live T-SQL server, shown by plain sessions as any client could: takeovers
// before frozen clients, KILL, lost clients, and the catalogue of wrong checks, each of which lets
// a stale writer commit where check_term does not. TERMGATE_TEST_SQLSERVER names the server (a
// login that may create databases).
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <thread>

#include <termgate/operator.hpp>

#include "sqlserver_rig.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::chrono_literals;

TEST_CASE("tsql takeover: a frozen holder is ended and nothing of it commits",
          "[F2][F4][F5][live][sqlserver]") {
  Rig rig;
  Session leader(rig.url);
  leader.run(seal("billing", 5));
  Frozen frozen = frozen_writer(rig.url, "billing", 5);
  const auto start = std::chrono::steady_clock::now();
  if (rig.sees_locks) {
    const Row receipt = leader.run(seal("billing", 6)).one();
    CHECK(receipt[0].as_int() == 6);
    CHECK(receipt[2].as_int() == 1);
  } else {
    // Who stands in the way cannot be seen: the raise ends with TG006 after grace and check_wait,
    // and takes no lock with it.
    const auto said = leader.refusal(seal("billing", 6));
    REQUIRE(said);
    CHECK(said->find("50006 TG006 the raise of scope \"billing\" is blocked by") !=
          std::string::npos);
    CHECK(leader.number("SELECT CAST(@@TRANCOUNT AS bigint)") == 0);
    // The operator ends it, and the raise goes through.
    leader.run("KILL " + std::to_string(frozen.session_id));
    CHECK(leader.run(seal("billing", 6, 5000)).one()[0].as_int() == 6);
  }
  CHECK(std::chrono::steady_clock::now() - start < hang);
  leader.run("BEGIN TRANSACTION");
  leader.run(check("billing", 6));
  leader.run(write_row(6));
  leader.run("COMMIT TRANSACTION");
  CHECK(frozen.thaw() == 1);
  CHECK(rig.rows(5) == 0);
  CHECK(rig.rows(6) == 1);
}

TEST_CASE("tsql takeover: a client that is lost gives its lock back and leaves nothing",
          "[F2][F4][F5][live][sqlserver]") {
  Rig rig;
  Session leader(rig.url);
  leader.run(seal("billing", 5));
  Frozen frozen = frozen_writer(rig.url, "billing", 5);
  frozen.lose();
  CHECK(leader.run(seal("billing", 6, 5000)).one()[0].as_int() == 6);
  CHECK(rig.rows(5) == 0);
}

TEST_CASE("tsql takeover: a holder that was only slow commits before the raise",
          "[F1][F2][live][sqlserver]") {
  Rig rig;
  Session leader(rig.url), slow(rig.url);
  leader.run(seal("billing", 5));
  slow.run("BEGIN TRANSACTION");
  slow.run(check("billing", 5));
  slow.run(write_row(5));
  std::thread commits([&] {
    std::this_thread::sleep_for(300ms);
    slow.run("COMMIT TRANSACTION");
  });
  const Row receipt = leader.run(seal("billing", 6, 5000)).one();
  commits.join();
  CHECK(receipt[2].as_int() == 0);
  CHECK(rig.rows(5) == 1);  // committed under the lock that the raise waited for
  CHECK(slow.refusal(check("billing", 5)).value_or("") ==
        "50001 TG001 stale term 5 for scope \"billing\": the fence stands at 6\n");
}

TEST_CASE("tsql check: equal terms go side by side and a refusal leaves no trace",
          "[F1][F5][live][sqlserver]") {
  Rig rig;
  Session one(rig.url), two(rig.url);
  one.run(seal("billing", 5));
  for (Session* each : {&one, &two}) {
    each->run("BEGIN TRANSACTION");
    each->run(check("billing", 5));
    each->run(write_row(5));
  }
  two.run("COMMIT TRANSACTION");
  one.run("COMMIT TRANSACTION");
  one.run(seal("billing", 7));
  two.run("BEGIN TRANSACTION");
  two.run(write_row(4));
  const auto said = two.refusal(check("billing", 4));
  REQUIRE(said);
  CHECK(said->find("50001 TG001 stale term 4 for scope \"billing\": the fence stands at 7") !=
        std::string::npos);
  CHECK(two.number("SELECT CAST(@@TRANCOUNT AS bigint)") == 0);
  CHECK(rig.rows(5) == 2);
  CHECK(rig.rows(4) == 0);
}

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

// The catalogue of wrong checks. Each is shown to let term 5 commit after term 6 was sealed, and
// the same schedule with check_term in its place to refuse it.
namespace {

// A fence of one's own, as one would write it without Termgate.
void own_fence(Session& session) {
  session.run("CREATE TABLE dbo.own_fence (id int NOT NULL PRIMARY KEY, term bigint NOT NULL)");
  session.run("INSERT INTO dbo.own_fence VALUES (1, 5)");
}

}  // namespace

TEST_CASE("tsql wrong checks: a plain SELECT reads a row version and holds nothing",
          "[F2][live][sqlserver]") {
  Rig rig;
  Session stale(rig.url), leader(rig.url);
  own_fence(stale);
  stale.run("BEGIN TRANSACTION");
  CHECK(stale.number("SELECT term FROM dbo.own_fence WHERE id = 1") == 5);
  leader.run("UPDATE dbo.own_fence SET term = 6 WHERE id = 1");  // committed: the leader believes
                                                                 // that 5 is shut out
  stale.run(write_row(5));
  stale.run("COMMIT TRANSACTION");
  CHECK(rig.rows(5) == 1);  // the breach

  leader.run(seal("billing", 5));
  stale.run("BEGIN TRANSACTION");
  stale.run(check("billing", 5));
  CHECK(leader.refusal(
      "BEGIN TRANSACTION; " +
      check("billing",
            6)));  // a raise inside a transaction waits, and then names who is in its way
  stale.run(write_row(5));
  stale.run("COMMIT TRANSACTION");
  leader.run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION");
  leader.run(seal("billing", 6));
  CHECK(rig.rows(5) == 2);  // before the raise, in commit order
  CHECK(stale.refusal(check("billing", 5)));
}

TEST_CASE("tsql wrong checks: a locking hint is only as good as the server that reads it",
          "[F2][live][sqlserver]") {
  Rig rig;
  Session stale(rig.url), leader(rig.url);
  own_fence(stale);
  stale.run("BEGIN TRANSACTION");
  CHECK(stale.number("SELECT term FROM dbo.own_fence WITH (UPDLOCK, HOLDLOCK) WHERE id = 1") == 5);
  const auto waited = leader.refusal("UPDATE dbo.own_fence SET term = 6 WHERE id = 1");
  // Microsoft's server makes the raise wait (lock timeout); a server that ignores hints lets it by.
  const bool honoured = waited.has_value();
  CHECK(honoured == !rig.is_babelfish);
  stale.run(write_row(5));
  stale.run("COMMIT TRANSACTION");
  CHECK(rig.rows(5) == 1);
  CHECK(stale.number("SELECT term FROM dbo.own_fence WHERE id = 1") ==
        (honoured ? 5 : 6));  // 6: the breach

  // check_term relies on no hint.
  leader.run(seal("billing", 5));
  stale.run("BEGIN TRANSACTION");
  stale.run(check("billing", 5));
  const auto said = leader.refusal("BEGIN TRANSACTION; " + check("billing", 6));
  REQUIRE(said);
  CHECK(said->find("50006 TG006") != std::string::npos);
  stale.run("ROLLBACK TRANSACTION");
}

TEST_CASE("tsql wrong checks: check and write in two batches of autocommit",
          "[F2][F5][live][sqlserver]") {
  Rig rig;
  Session stale(rig.url), leader(rig.url);
  leader.run(seal("billing", 5));
  stale.run(check("billing", 5));  // its lock ends with its own transaction
  leader.run(seal("billing", 6));
  stale.run(write_row(5));
  CHECK(rig.rows(5) == 1);  // the breach

  stale.run("BEGIN TRANSACTION");
  const auto said = stale.refusal(check("billing", 5));
  REQUIRE(said);
  CHECK(said->find("50001 TG001") != std::string::npos);
  CHECK(stale.number("SELECT CAST(@@TRANCOUNT AS bigint)") == 0);

  // Or protect the table: then the write itself is refused, whatever was checked before.
  leader.run(
      "DECLARE @n bigint; EXEC termgate.protect @target = N'dbo.ledger', @scope = N'billing', "
      "@protected = @n OUTPUT");
  const auto unprotected = stale.refusal(write_row(5));
  REQUIRE(unprotected);
  CHECK(unprotected->find("50002 TG002") != std::string::npos);
  CHECK(rig.rows(5) == 1);
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
  if (!rig.is_babelfish)
    session.run(
        "CREATE VIEW dbo.bound WITH SCHEMABINDING AS SELECT f.scope FROM termgate.fences f");
  if (!rig.is_babelfish)
    session.run(
        "CREATE TRIGGER termgate.their_trigger ON termgate.settings AFTER UPDATE AS RETURN");
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
  CHECK((rig.is_babelfish || names("DROP VIEW [dbo].[bound];")));
  CHECK((rig.is_babelfish || names("DROP TRIGGER [termgate].[their_trigger];")));
  // All is as it was.
  CHECK(Operator(Database::open(rig.url)).installed_version() > 0);
  CHECK(session.refusal(write_row(5)));
  session.run("DROP VIEW termgate.theirs");
  session.run("ALTER SCHEMA dbo TRANSFER termgate.[their notes]");
  session.run("ALTER TABLE dbo.pointing DROP CONSTRAINT pointing_there");
  if (!rig.is_babelfish) session.run("DROP VIEW dbo.bound");
  if (!rig.is_babelfish) session.run("DROP TRIGGER termgate.their_trigger");
  Operator(Database::open(rig.url)).uninstall();
  CHECK(session.number("SELECT CASE WHEN SCHEMA_ID(N'termgate') IS NULL THEN 0 ELSE 1 END") == 0);
  CHECK(session.number("SELECT COUNT_BIG(*) FROM dbo.[their notes]") == 0);
  CHECK_FALSE(session.refusal(write_row(5)));
}
