// The gate for a proxy (sql/sqlserver/install/0010_gate.sql) on a live T-SQL server: one session,
// fenced from before its first statement until after its last, whatever the statements do; sessions
// stand for the client's connection as the proxy would use it. Scopes differ, so that the cases
// share one database. TERMGATE_TEST_SQLSERVER names the server.
#include <catch2/catch.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "sqlserver_rig.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::chrono_literals;

namespace {

// One database and one session that raises for all cases: a new session compiles every procedure
// that it calls.
Rig& rig() {
  static const auto made = [] {
    auto rig = std::make_unique<Rig>();
    Session session(rig->url);
    session.run("UPDATE termgate.settings SET value = N'200' WHERE name = 'eviction_grace_ms'");
    session.run("CREATE TABLE dbo.kept (scope nvarchar(400) NOT NULL, term bigint NOT NULL)");
    session.run(
        "DECLARE @n bigint; EXEC termgate.protect @target = N'dbo.kept', @scope_column = N'scope', "
        "@protected = @n OUTPUT");
    return rig;
  }();
  return *made;
}
Session& leader() {
  static Session session(rig().url);
  return session;
}
Session& writer() {
  static Session session(rig().url);
  return session;
}

struct Answer {
  std::int64_t code = -1;  // -1: no row, or another nonce's
  std::optional<std::int64_t> fence;
  std::string message;
};
std::int64_t nonce = 4611686018427387904;

// What the proxy would do: the answer is the row that brings its nonce back, nothing else.
Answer answer_of(const Rows& rows) {
  if (rows.empty() || rows.one()[0].as_int() != nonce) return {};
  const Row row = rows.one();
  const std::size_t last = row.size() - 1;
  return {row[1].as_int(),
          last == 3 && !row[2].is_null() ? std::optional(row[2].as_int()) : std::nullopt,
          row[last].is_null() ? "" : row[last].as_text()};
}
Answer enter(Session& session, const std::string& scope, const std::string& term) {
  return answer_of(session.run("EXEC termgate.enter @scope = " + scope + ", @term = " + term +
                               ", @nonce = " + std::to_string(++nonce)));
}
Answer enter(Session& session, const std::string& scope, int term) {
  return enter(session, "N'" + scope + "'", std::to_string(term));
}
Answer leave(Session& session, const std::string& scope) {
  return answer_of(session.run("EXEC termgate.leave @scope = N'" + scope +
                               "', @nonce = " + std::to_string(++nonce)));
}

// Whether somebody holds up a raise of the scope. It is tried inside a transaction, where it cannot
// evict, and rolled back.
bool held(const std::string& scope) {
  leader().run("BEGIN TRANSACTION");
  const auto said = leader().refusal(check(scope, 1000));
  leader().run("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION");
  if (said)
    CHECK(said->find("50006 TG006 the raise of scope \"" + scope + "\" is blocked by") !=
          std::string::npos);
  return said.has_value();
}
std::int64_t open_transactions(Session& session) {
  return session.number("SELECT CAST(@@TRANCOUNT AS bigint)");
}

}  // namespace

TEST_CASE("gate: batches of autocommit are fenced by one lock until it is left",
          "[F1][F2][F5][live][sqlserver]") {
  leader().run(seal("batches", 5));
  const auto passed = enter(writer(), "batches", 5);
  CHECK(passed.code == 0);
  CHECK(passed.fence == 5);
  CHECK(open_transactions(writer()) == 0);
  writer().run(write_row(51));
  CHECK(held("batches"));
  writer().run(write_row(51));
  // A transaction of the client, rolled back, and a write behind it in the same batch: with a lock
  // of the transaction this last one would be unfenced.
  writer().run(
      "BEGIN TRANSACTION; INSERT INTO dbo.ledger (term) VALUES (52); ROLLBACK TRANSACTION; INSERT "
      "INTO dbo.ledger (term) VALUES (51)");
  CHECK(held("batches"));
  // An error that ends the client's transaction does not end the gate.
  writer().run("BEGIN TRANSACTION");
  CHECK(writer().refusal("THROW 60000, 'of the client', 1"));
  CHECK(open_transactions(writer()) == 0);
  CHECK(held("batches"));
  CHECK(leave(writer(), "batches").code == 0);
  CHECK(leader().run(seal("batches", 6)).one()[2].as_int() == 0);
  CHECK(rig().rows(51) == 3);
  CHECK(rig().rows(52) == 0);

  const auto refused = enter(writer(), "batches", 5);
  CHECK(refused.code == 50001);
  CHECK(refused.fence == 6);
  CHECK(refused.message == "TG001 stale term 5 for scope \"batches\": the fence stands at 6");
  CHECK_FALSE(held("batches"));
}

TEST_CASE("gate: a refusal leaves the transaction of the client and its settings alone",
          "[F5][live][sqlserver]") {
  leader().run(seal("alone", 7));
  writer().run("BEGIN TRANSACTION");  // under XACT_ABORT ON, where a thrown error would end it
  writer().run(write_row(71));
  CHECK(enter(writer(), "alone", 6).code == 50001);
  CHECK(open_transactions(writer()) == 1);
  CHECK(writer().number("SELECT CAST(XACT_STATE() AS bigint)") == 1);
  CHECK(enter(writer(), "alone", 8).code ==
        50005);  // a raise, which is not for the client's transaction
  CHECK(enter(writer(), "N''", "6").code == 50005);
  CHECK(open_transactions(writer()) == 1);
  CHECK(enter(writer(), "alone", 7).code == 0);
  CHECK(held("alone"));
  CHECK(leave(writer(), "alone").code == 0);
  CHECK_FALSE(held("alone"));
  CHECK(open_transactions(writer()) == 1);
  // XACT_ABORT is what it was.
  CHECK(writer().refusal(
      "INSERT INTO dbo.ledger (term) VALUES (71); THROW 60000, 'of the client', 1"));
  CHECK(open_transactions(writer()) == 0);
  CHECK(rig().rows(71) == 0);

  // IMPLICIT_TRANSACTIONS: the gate begins none, and the next write of the client does.
  writer().run("SET IMPLICIT_TRANSACTIONS ON");
  CHECK(enter(writer(), "alone", 7).code == 0);
  CHECK(open_transactions(writer()) == 0);
  writer().run(write_row(72));
  CHECK(open_transactions(writer()) == 1);
  writer().run("COMMIT TRANSACTION");
  CHECK(leave(writer(), "alone").code == 0);
  CHECK(open_transactions(writer()) == 0);
  writer().run("SET IMPLICIT_TRANSACTIONS OFF");
  CHECK(rig().rows(72) == 1);
}

TEST_CASE("gate: entered twice and left once nothing is held", "[F4][live][sqlserver]") {
  leader().run(seal("twice", 5));
  CHECK(enter(writer(), "twice", 5).code == 0);
  CHECK(enter(writer(), "twice", 5).code == 0);
  CHECK(held("twice"));
  CHECK(leave(writer(), "twice").code == 0);
  CHECK_FALSE(held("twice"));
  CHECK(leave(writer(), "twice").code == 0);  // harmless where nothing is held
}

TEST_CASE("gate: other terms and other scopes", "[F1][F2][live][sqlserver]") {
  // A new scope, and a higher term of an old one: raised, committed by itself, and entered.
  CHECK(enter(writer(), "north", 5).code == 0);
  CHECK(leader().number("SELECT term FROM termgate.fences WHERE scope = N'north'") == 5);
  CHECK(enter(writer(), "south", 2).code == 0);
  // In the gate its term is fixed, whoever would raise; a refusal changes nothing.
  CHECK(enter(writer(), "north", 6).code == 50005);
  CHECK(enter(writer(), "north", 4).code == 50001);
  const auto own = writer().refusal(seal("north", 6));
  REQUIRE(own);
  CHECK(own->find("50005 TG005 this session is in the gate of scope \"north\"") !=
        std::string::npos);
  CHECK(writer().refusal(check("north", 6)));
  CHECK(
      writer().refusal(check("north", 4)));  // what it gives back on its way out is not the gate's
  CHECK(held("north"));
  CHECK(leader().number("SELECT term FROM termgate.fences WHERE scope = N'north'") == 5);
  CHECK(leave(writer(), "north").code == 0);
  CHECK(held("south"));
  CHECK(enter(writer(), "north", 6).code == 0);
  CHECK(leader().number("SELECT term FROM termgate.fences WHERE scope = N'north'") == 6);
  CHECK(leave(writer(), "north").code == 0);
  CHECK(leave(writer(), "south").code == 0);
  CHECK_FALSE(held("north"));
  CHECK_FALSE(held("south"));

  leader().run("EXEC termgate.set_raise_by @scope = N'south', @raise_by = N'seal'");
  CHECK(enter(writer(), "south", 3).code == 50005);
  leader().run(seal("south", 3));
  CHECK(enter(writer(), "south", 3).code == 0);
  CHECK(leave(writer(), "south").code == 0);

  // A raise that the client's transaction may still undo is no ground to enter on.
  writer().run("BEGIN TRANSACTION");
  writer().run(check("north", 7));
  CHECK(enter(writer(), "north", 7).code == 50005);
  CHECK(open_transactions(writer()) == 1);
  writer().run("ROLLBACK TRANSACTION");
  CHECK_FALSE(held("north"));
  CHECK(enter(writer(), "north", 6).code == 0);
  CHECK(leave(writer(), "north").code == 0);
}

TEST_CASE("gate: malformed, blocked and untrusted are codes", "[F3][F4][F5][live][sqlserver]") {
  for (const auto& [scope, term] : {std::pair<std::string, std::string>{"NULL", "5"},
                                    {"N''", "5"},
                                    {"N'bad'", "NULL"},
                                    {"N'bad'", "0"},
                                    {"N'bad'", "4611686018427387905"},
                                    {"REPLICATE(N'x', 201)", "5"}}) {
    INFO(scope << " " << term);
    const auto refused =
        scope[0] == 'R'
            ? answer_of(writer().run("DECLARE @long nvarchar(300) = REPLICATE(N'x', 201); EXEC "
                                     "termgate.enter @scope = @long, @term = 5, @nonce = " +
                                     std::to_string(++nonce)))
            : enter(writer(), scope, term);
    CHECK(refused.code == 50005);
    CHECK(refused.message.starts_with("TG005 "));
  }
  CHECK(writer()
            .run("EXEC termgate.enter @scope = N'bad', @term = 5, @nonce = NULL")
            .one()[1]
            .as_int() == 50005);
  CHECK(leave(writer(), "").code == 50005);

  leader().run(seal("busy", 5));
  leader().run("BEGIN TRANSACTION");
  leader().run(check("busy", 6));
  const auto start = std::chrono::steady_clock::now();
  const auto blocked = enter(writer(), "busy", 5);
  CHECK(std::chrono::steady_clock::now() - start >= 900ms);
  CHECK(blocked.code == 50006);
  CHECK(blocked.message.starts_with("TG006 the check of scope \"busy\" is blocked by"));
  leader().run("ROLLBACK TRANSACTION");
  CHECK_FALSE(held("busy"));  // it took nothing with it
  CHECK(enter(writer(), "busy", 5).code == 0);
  CHECK(leave(writer(), "busy").code == 0);

  leader().run(
      "DECLARE @n bigint; EXEC termgate.declare_untrusted @actor = N'test', @reason = N'an older "
      "copy was put back', @scopes = @n OUTPUT");
  const auto untrusted = enter(writer(), "busy", 5);
  CHECK(untrusted.code == 50004);
  CHECK(untrusted.message.starts_with("TG004 the fence of scope \"busy\" is untrusted"));
  CHECK(enter(writer(), "busy", 6).code == 50004);
  leader().run(
      "DECLARE @n bigint; EXEC termgate.declare_nothing_lost @actor = N'test', @reason = N'nothing "
      "was', @scopes = @n OUTPUT");
  CHECK(enter(writer(), "busy", 5).code == 0);
  CHECK(leave(writer(), "busy").code == 0);
}

TEST_CASE("gate: a protected table takes the autocommit writes of a session that is in it",
          "[F2][F5][live][sqlserver]") {
  const auto write = [](const std::string& scope) {
    return "INSERT INTO dbo.kept (scope, term) VALUES (N'" + scope + "', 5)";
  };
  const auto refused = [&](const std::string& scope) {
    return writer().refusal(write(scope)).value_or("").find("50002 TG002") != std::string::npos;
  };
  leader().run(seal("kept", 5));
  leader().run(seal("kept too", 5));
  CHECK(refused("kept"));
  CHECK(enter(writer(), "kept", 5).code == 0);
  writer().run(write("kept"));
  writer().run(
      "BEGIN TRANSACTION; INSERT INTO dbo.kept (scope, term) VALUES (N'kept', 5); ROLLBACK "
      "TRANSACTION; " +
      write("kept"));
  CHECK(refused("kept too"));
  CHECK(leave(writer(), "kept").code == 0);
  CHECK(refused("kept"));
  // The gate's lock taken by hand, of a scope that anybody can work out, is no pass.
  writer().run(
      "DECLARE @name nvarchar(64) = termgate._resource(N'g', CONVERT(varbinary(800), N'kept')), "
      "@rc int; EXEC @rc = sp_getapplock "
      "@Resource = @name, @LockMode = N'Shared', @LockOwner = N'Session', "
      "@LockTimeout = 100, @DbPrincipal = N'termgate_lock'");
  CHECK(held("kept"));
  CHECK(refused("kept"));
  // It has no key either: whoever took it gives it back.
  CHECK(leave(writer(), "kept").code == 50005);
  writer().run(
      "DECLARE @name nvarchar(64) = termgate._resource(N'g', CONVERT(varbinary(800), N'kept')), "
      "@rc int; EXEC @rc = sp_releaseapplock "
      "@Resource = @name, @LockOwner = N'Session', @DbPrincipal = N'termgate_lock'");
  CHECK(leave(writer(), "kept").code == 0);
  CHECK_FALSE(held("kept"));
  CHECK(leader().number("SELECT COUNT_BIG(*) FROM dbo.kept WHERE scope = N'kept'") == 2);

  // The mark ends with the gate inside a transaction as well, and does not outlive a raise.
  writer().run("BEGIN TRANSACTION");
  CHECK(enter(writer(), "kept", 5).code == 0);
  writer().run(write("kept"));
  CHECK(leave(writer(), "kept").code == 0);
  CHECK(refused("kept"));
  CHECK(open_transactions(writer()) == 0);
  leader().run(seal("kept", 6));
  CHECK(refused("kept"));
}

TEST_CASE("gate: it is another lock than that of a check in the client's transaction",
          "[F1][F2][F5][live][sqlserver]") {
  leader().run(seal("two locks", 5));
  writer().run("BEGIN TRANSACTION");
  writer().run(check("two locks", 5));
  CHECK(enter(writer(), "two locks", 5).code == 0);
  writer().run("COMMIT TRANSACTION");
  CHECK(held("two locks"));
  writer().run("BEGIN TRANSACTION");
  writer().run(check("two locks", 5));
  CHECK(leave(writer(), "two locks").code == 0);
  CHECK(held("two locks"));
  writer().run("COMMIT TRANSACTION");
  CHECK_FALSE(held("two locks"));
}

TEST_CASE("gate: a snapshot that is older than a raise lets no stale term in",
          "[F2][live][sqlserver]") {
  leader().run(seal("snapshot", 5));
  Session old(rig().url);
  old.refusal("ALTER DATABASE " + rig().name + " SET ALLOW_SNAPSHOT_ISOLATION ON");
  CHECK(enter(old, "snapshot", 5).code == 0);
  CHECK(leave(old, "snapshot").code == 0);
  old.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT");
  old.run("BEGIN TRANSACTION");
  CHECK(old.number("SELECT term FROM termgate.fences WHERE scope = N'snapshot'") == 5);
  leader().run(seal("snapshot", 6));
  CHECK(old.number("SELECT term FROM termgate.fences WHERE scope = N'snapshot'") ==
        5);  // what the snapshot still shows
  const Answer stale = enter(old, "snapshot", 5);
  // The level changes inside the transaction, so the comparison sees the raise.
  CHECK(stale.code == 50001);
  CHECK(open_transactions(old) == 1);
  CHECK_FALSE(held("snapshot"));
  old.refusal("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION");
}

TEST_CASE("gate: a proxy's calls prove themselves, and only its secret leaves",
          "[F1][F2][F5][live][sqlserver]") {
  leader().run(seal("proxied", 5));
  const auto call = [](const std::string& what) {
    const Row row = writer()
                        .run(
                            "DECLARE @proof bigint = 7, @code bigint, @trancount bigint, @raise "
                            "bigint, @message nvarchar(2048); EXEC termgate." +
                            what +
                            ", @proof = @proof OUTPUT, @code = @code OUTPUT, @trancount = "
                            "@trancount OUTPUT, @message = @message OUTPUT; "
                            "SELECT @proof AS proof, @code AS code, @trancount AS trancount")
                        .one();
    CHECK(row[0].as_int() == -8);
    return std::make_pair(row[1].as_int(), row[2].as_int());
  };
  const std::string enter_it = "gate_enter @scope = N'proxied', @term = 5, @secret = 0x0102",
                    leave_it = "gate_leave @scope = N'proxied', @secret = 0x0102";
  CHECK(call("gate_enter @scope = N'proxied', @term = 4, @secret = 0x0102").first == 50001);
  CHECK(call("gate_enter @scope = N'proxied', @term = 6, @secret = 0x0102").first == 50005);
  CHECK_FALSE(held("proxied"));
  CHECK(call(enter_it) == std::make_pair(std::int64_t{0}, std::int64_t{0}));
  CHECK(call(enter_it).first == 0);
  CHECK(held("proxied"));
  // Another secret, and the calls for people, neither enter nor leave.
  CHECK(call("gate_enter @scope = N'proxied', @term = 5, @secret = 0x03").first == 50005);
  CHECK(call("gate_leave @scope = N'proxied', @secret = 0x03").first == 50005);
  CHECK(leave(writer(), "proxied").code == 50005);
  CHECK(enter(writer(), "proxied", 5).code == 50005);
  CHECK(held("proxied"));
  // It is the server that knows whether a transaction is open.
  writer().run("BEGIN TRANSACTION");
  CHECK(call(leave_it) == std::make_pair(std::int64_t{1}, std::int64_t{1}));
  CHECK(held("proxied"));
  writer().run("ROLLBACK TRANSACTION");
  CHECK(call(leave_it).first == 0);
  CHECK_FALSE(held("proxied"));
  CHECK(call(leave_it).first == 0);
  // What the session has declared counts where neither is given.
  CHECK(call("gate_enter @secret = 0x0102").first == 50002);
  writer().run(
      "EXEC sp_set_session_context N'termgate.scope', N'proxied'; EXEC sp_set_session_context "
      "N'termgate.term', N'5'");
  CHECK(call("gate_enter @secret = 0x0102").first == 0);
  CHECK(held("proxied"));
  CHECK(call(leave_it).first == 0);
  writer().run(
      "EXEC sp_set_session_context N'termgate.scope', NULL; EXEC sp_set_session_context "
      "N'termgate.term', NULL");
}

TEST_CASE("gate: for members of write and not of read", "[F6][live][sqlserver]") {
  leader().run(seal("granted", 5));
  const std::string name = "live_gate_" + std::to_string(getpid());
  leader().run("CREATE LOGIN " + name + " WITH PASSWORD = 'Gate-" + name + "'");
  leader().run("CREATE USER " + name + " FOR LOGIN " + name);
  const std::string url = with(rig().url, {{"UID", name}, {"PWD", "Gate-" + name}});
  const std::string call = "EXEC termgate.enter @scope = N'granted', @term = 5, @nonce = 1";
  leader().run("ALTER ROLE termgate_read ADD MEMBER " + name);
  const auto reader = Session(url).refusal(call);
  REQUIRE(reader);
  CHECK(reader->find("permission") != std::string::npos);
  CHECK(reader->find("enter") != std::string::npos);
  leader().run("ALTER ROLE termgate_write ADD MEMBER " + name);
  {
    Session writes(url);
    CHECK(enter(writes, "granted", 5).code == 0);
    CHECK(leave(writes, "granted").code == 0);
  }
  leader().run("DROP USER " + name);
  leader().run("DROP LOGIN " + name);
}
