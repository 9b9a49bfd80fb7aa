// Eviction on a live T-SQL server: who stands in the way of a raise is found in sys.dm_tran_locks,
// looked at again, ended by KILL and counted; who raises to a higher term is not, nor who holds
// nothing of the scope. On a server that shows nobody its locks there is a warning.
#include <catch2/catch.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "sqlserver_rig.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::chrono_literals;

namespace {

bool shows_holders(const Rig& rig) {
  if (!rig.sees_locks) WARN("left out: this server has no sys.dm_tran_locks");
  return rig.sees_locks;
}
std::string now() { return "SELECT CAST(@@SPID AS bigint)"; }
bool ended(Session& session) { return session.refusal(now()).has_value(); }
std::int64_t fence_of(Session& session, const std::string& scope) {
  return session.number("SELECT term FROM termgate.fences WHERE scope = N'" + scope + "'");
}

}  // namespace

TEST_CASE("tsql eviction: each holder is ended once and counted and no other session is",
          "[F2][F4][F5][live][sqlserver]") {
  Rig rig;
  if (!shows_holders(rig)) return;
  Session leader(rig.url), bystander(rig.url);
  leader.run(seal("evicts", 5));
  leader.run(seal("bystands", 5));
  bystander.run("BEGIN TRANSACTION");
  bystander.run(check("bystands", 5));
  bystander.run(write_row(55));
  Frozen one = frozen_writer(rig.url, "evicts", 5), two = frozen_writer(rig.url, "evicts", 5);
  Frozen gated(
      rig.url,
      [](Session& session) {
        if (session.run("EXEC termgate.enter @scope = N'evicts', @term = 5, @nonce = 1")
                .one()[1]
                .as_int() != 0)
          throw std::runtime_error("refused");
      },
      [](Session& session) { session.run(write_row(5)); });

  // Inside a transaction nobody can be evicted: the raise waits, and then names a holder by
  // session, login and program.
  const auto named = Session(rig.url).refusal("BEGIN TRANSACTION; " + check("evicts", 6));
  REQUIRE(named);
  CHECK(named->find("50006 TG006 the raise of scope \"evicts\" is blocked by session ") !=
        std::string::npos);
  CHECK(
      (named->find("session " + std::to_string(one.session_id) + " (login ") != std::string::npos ||
       named->find("session " + std::to_string(two.session_id) + " (login ") != std::string::npos ||
       named->find("session " + std::to_string(gated.session_id) + " (login ") !=
           std::string::npos));
  CHECK(named->find("a raise inside a transaction cannot evict") != std::string::npos);

  const auto start = std::chrono::steady_clock::now();
  const Row receipt = leader.run(seal("evicts", 6, 500)).one();
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(receipt[0].as_int() == 6);
  CHECK(receipt[1].as_int() == 5);
  CHECK(receipt[2].as_int() == 3);
  CHECK(took >= 500ms);  // not before the grace is over
  CHECK(took < 5s);
  CHECK(leader.number("SELECT COUNT_BIG(*) FROM termgate.audit WHERE action = 'evict' AND scope = "
                      "N'evicts' AND JSON_VALUE(detail, "
                      "'$.evicted') = '3'") == 1);
  CHECK(one.thaw() == 1);
  CHECK(two.thaw() == 1);
  CHECK(gated.thaw() == 1);
  CHECK(rig.rows(5) == 0);
  bystander.run("COMMIT TRANSACTION");
  CHECK(rig.rows(55) == 1);
}

TEST_CASE(
    "tsql eviction: who raises to a higher term is spared and who raises to a lower one is not",
    "[F2][F4][live][sqlserver]") {
  Rig rig;
  if (!shows_holders(rig)) return;
  Session leader(rig.url), raiser(rig.url);
  leader.run(seal("spared", 5));
  raiser.run("BEGIN TRANSACTION");
  raiser.run("EXEC termgate.seal @scope = N'spared', @term = 9");  // raised and not committed
  // To the same term, or to a lower one: it waits for the higher, names it, and leaves it alone.
  for (const int term : {7, 9}) {
    INFO(term);
    const auto blocked = Session(rig.url).refusal(seal("spared", term));
    REQUIRE(blocked);
    CHECK(blocked->find("50006 TG006 the raise of scope \"spared\" is blocked by session ") !=
          std::string::npos);
    CHECK_FALSE(ended(raiser));
  }
  // To a higher one: the raiser stands in the way like any holder.
  const Row receipt = leader.run(seal("spared", 10)).one();
  CHECK(receipt[0].as_int() == 10);
  CHECK(receipt[1].as_int() == 5);  // the 9 was never committed
  CHECK(receipt[2].as_int() == 1);
  CHECK(ended(raiser));
  CHECK(fence_of(leader, "spared") == 10);

  // A higher raise that commits in time: the lower one finds itself overtaken, and nobody was
  // ended.
  Session second(rig.url);
  second.run("BEGIN TRANSACTION");
  second.run("EXEC termgate.seal @scope = N'spared', @term = 20");
  std::jthread commits([&] {
    std::this_thread::sleep_for(600ms);
    second.run("COMMIT TRANSACTION");
  });
  const auto overtaken = Session(rig.url).refusal(seal("spared", 15));
  commits.join();
  CHECK(overtaken.value_or("").find(
            "50001 TG001 stale term 15 for scope \"spared\": the fence stands at 20") !=
        std::string::npos);
  CHECK(fence_of(leader, "spared") == 20);
}

TEST_CASE("tsql eviction: an acquisition ends a frozen leader and its lease changes hands",
          "[F2][F4][F5][live][sqlserver]") {
  Rig rig;
  if (!shows_holders(rig)) return;
  Session leader(rig.url);
  const std::string acquire =
      "EXEC termgate.acquire_lease @scope = N'leased', @ttl_ms = 60000, @grace_ms = 200, @owner = "
      "N'";
  CHECK(leader.run(acquire + "one'").one()[1].as_int() == 1);
  Frozen frozen = frozen_writer(rig.url, "leased", 1);
  leader.run("UPDATE termgate.leases SET expires_at = DATEADD(second, -1, SYSUTCDATETIME())");
  const Row row = leader.run(acquire + "two'").one();
  CHECK(row[0].as_int() == 1);
  CHECK(row[1].as_int() == 2);
  CHECK(frozen.thaw() == 1);
  CHECK(rig.rows(1) == 0);
  CHECK(
      leader.number(
          "SELECT COUNT_BIG(*) FROM termgate.audit WHERE action = 'evict' AND scope = N'leased'") ==
      1);
}

TEST_CASE("tsql eviction: a stream that is moved announces what it raises its new scope to",
          "[F1][F4][live][sqlserver]") {
  Rig rig;
  if (!shows_holders(rig)) return;
  Session leader(rig.url), mover(rig.url);
  leader.run(
      "DECLARE @n bigint; EXEC termgate.append @stream = N'moved', @term = 9, @payload = 0x00, "
      "@scope = N'old', @sequence_no = @n OUTPUT");
  leader.run(seal("new", 5));
  mover.run("BEGIN TRANSACTION");
  mover.run(
      "DECLARE @moved bit; EXEC termgate.stream_move @stream = N'moved', @scope = N'new', @actor = "
      "N'test', @reason = N'why not', @moved = "
      "@moved OUTPUT");
  CHECK(Session(rig.url).refusal(seal("new", 7)).value_or("").find("50006 TG006") !=
        std::string::npos);
  CHECK(Session(rig.url).refusal(seal("old", 9)) ==
        std::nullopt);  // the same term again, which needs no lock
  CHECK_FALSE(ended(mover));
  mover.run("COMMIT TRANSACTION");
  CHECK(fence_of(leader, "new") == 9);
  CHECK(Session(rig.url).refusal(seal("new", 7)).value_or("").find("50001 TG001") !=
        std::string::npos);
}

TEST_CASE(
    "tsql untrusted: another recovery fork is not forgotten when the transaction that saw it first "
    "is rolled back",
    "[F3][live][sqlserver]") {
  Rig rig;
  Session leader(rig.url), session(rig.url);
  if (leader.number("SELECT COUNT_BIG(recovery_fork_guid) FROM sys.database_recovery_status WHERE "
                    "database_id = DB_ID()") == 0) {
    WARN("left out: this server tells no recovery fork");
    return;
  }
  leader.run(seal("forked", 5));
  // As a backup shows itself that was restored over the database: its fences were vouched for on
  // another fork.
  leader.run("UPDATE termgate.incarnation SET recovery_fork = N'another'");
  for (int time = 1; time <= 3; ++time) {
    INFO(time);
    session.run("BEGIN TRANSACTION");
    CHECK(session.refusal(check("forked", 5)).value_or("").find("50004 TG004") !=
          std::string::npos);
    CHECK(session.number("SELECT CAST(@@TRANCOUNT AS bigint)") == 0);
    session.run("BEGIN TRANSACTION");
    CHECK(session.run("EXEC termgate.enter @scope = N'forked', @term = 5, @nonce = 1")
              .one()[1]
              .as_int() == 50004);
    session.run("ROLLBACK TRANSACTION");
  }
  session.run(
      "DECLARE @n bigint; EXEC termgate.declare_nothing_lost @actor = N'test', @reason = N'nothing "
      "was', @scopes = @n OUTPUT");
  session.run(check("forked", 5));
}
