// [F1] [F2] [F3] [F5] The check, the raise, leases and streams of layer 1, as a session with SQL
// meets them, each interleaving forced.
#include <catch2/catch.hpp>

#include <chrono>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

#include "pg_calls.hpp"

using namespace termgate;
using termgate::test::call;
using termgate::test::fresh_scope;
using termgate::test::PgDatabase;
using termgate::test::PgResult;
using termgate::test::PgSession;
using termgate::test::wait_for_lock;

namespace {

PgDatabase& database() {
  static PgDatabase one("fence");
  return one;
}

}  // namespace

TEST_CASE(
    "check: waits for nobody of its own term and holds up a raise until its commit at every "
    "isolation level",
    "[F1][F2][live]") {
  const std::string level =
      GENERATE("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE");
  CAPTURE(level);
  const auto scope = fresh_scope();
  PgSession observer(database().url()), first(database().url()), second(database().url()),
      raiser(database().url());
  observer.must(call("seal", scope, "5"));
  first.must("BEGIN ISOLATION LEVEL " + level);
  second.must("BEGIN ISOLATION LEVEL " + level);
  CHECK(first.value(call("check_term", scope, "5")) == "5");
  CHECK(second.value(call("check_term", scope, "5")) == "5");
  raiser.send(call("seal", scope, "6, '10 s'"));
  wait_for_lock(observer, raiser);
  CHECK(first.value(call("check_term", scope, "5")) ==
        "5");  // again, while a raise waits for this very session
  first.must("COMMIT");
  wait_for_lock(observer, raiser);
  second.must("COMMIT");
  const PgResult sealed = raiser.finish();
  REQUIRE(sealed.ok());
  CHECK(sealed.rows[0][0] == "6");
  CHECK(sealed.rows[0][1] == "5");
  CHECK(sealed.rows[0][2] == "0");
  CHECK(first.run(call("check_term", scope, "5")).code == "TG001");
}

TEST_CASE("check: a raise behind its snapshot is stale or a serialization error and never passes",
          "[F1][F2][live]") {
  const std::string level = GENERATE("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE");
  CAPTURE(level);
  const auto scope = fresh_scope();
  PgSession writer(database().url()), raiser(database().url());
  raiser.must(call("seal", scope, "5"));
  SECTION("the session has checked before") { writer.must(call("check_term", scope, "5")); }
  SECTION("the session has not") {}
  writer.must("BEGIN ISOLATION LEVEL " + level + "; SELECT count(*) FROM pg_class");
  raiser.must(call("seal", scope, "6"));
  const auto code = writer.run(call("check_term", scope, "5")).code;
  CHECK(code == (level == "READ COMMITTED" ? "TG001" : "40001"));
}

TEST_CASE("check: a writer that waited behind a raise is judged by what became of it",
          "[F2][live]") {
  const auto scope = fresh_scope();
  PgSession observer(database().url()), writer(database().url()), raiser(database().url());
  raiser.must(call("seal", scope, "5"));
  writer.must(call("check_term", scope, "5"));
  raiser.must("BEGIN; " + call("seal", scope, "6"));
  writer.send(call("check_term", scope, "5"));
  wait_for_lock(observer, writer);
  SECTION("it commits") {
    raiser.must("COMMIT");
    CHECK(writer.finish().code == "TG001");
  }
  SECTION("it rolls back") {
    raiser.must("ROLLBACK");
    CHECK(writer.finish().value() == "5");
  }
}

TEST_CASE("check: cancelled while it waits it leaves no lock behind", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession observer(database().url()), writer(database().url()), raiser(database().url());
  raiser.must("BEGIN; " + call("seal", scope, "6"));
  const bool savepoint = GENERATE(false, true);
  CAPTURE(savepoint);
  if (savepoint) writer.must("BEGIN; SAVEPOINT s");
  writer.send(call("check_term", scope, "5"));
  wait_for_lock(observer, writer);
  writer.cancel();
  CHECK(writer.finish().code == "57014");
  if (savepoint) writer.must("ROLLBACK TO s");
  CHECK(observer.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = " +
                       std::to_string(writer.pid())) == "0");
  CHECK(writer.value("SELECT current_setting('lock_timeout')") == "0");
}

TEST_CASE("check: waits no longer than check_wait or the user's lock_timeout", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession writer(database().url()), raiser(database().url() + "?application_name=slow-raiser");
  raiser.must(call("seal", scope, "5"));
  raiser.must("BEGIN; " + call("seal", scope, "6"));
  SECTION("check_wait") { writer.must("SELECT termgate.set_setting('check_wait_ms', '100')"); }
  SECTION("lock_timeout, which is put back") { writer.must("SET lock_timeout = '100ms'"); }
  const auto timeout = writer.value("SHOW lock_timeout");
  const auto start = std::chrono::steady_clock::now();
  const auto blocked = writer.run(call("check_term", scope, "5"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
  CHECK(blocked.code == "TG006");
  CHECK_THAT(blocked.message, Catch::Contains("pid " + std::to_string(raiser.pid())) &&
                                  Catch::Contains("slow-raiser"));
  CHECK(writer.value("SHOW lock_timeout") == timeout);
  writer.must("SELECT termgate.set_setting('check_wait_ms', '5000')");
}

TEST_CASE("raise: the library notifies where something was raised and nowhere else", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession listener(database().url());
  listener.must("LISTEN termgate");
  const auto notices = [&] {
    listener.must("SELECT 1");
    return listener.notifications();
  };
  for (const bool raises : {true, false, false}) {
    // Each Database is a process that has not heard of the scope yet.
    Database db = Database::open(database().url());
    db.execute(Scope(scope), Term(5), "SELECT 1");
    CHECK(notices() == (raises ? 1 : 0));
    db.check(Scope(scope), Term(5));
    db.write(Scope(scope), Term(5), [](Transaction&) {});
    CHECK(notices() == 0);
    if (raises) continue;
    db.check(Scope(scope), Term(6));
    CHECK(notices() == 1);
    CHECK_THROWS_AS(db.check(Scope(scope), Term(5)), StaleTerm);
    CHECK(notices() == 0);
    Operator(db).reset_fence(Scope(scope), Term(5), "test", "again");
    notices();
  }
  const Scope leased(fresh_scope());
  Database db = Database::open(database().url());
  REQUIRE(db.try_acquire_lease(leased, std::chrono::hours(1), {.owner = "a"}));
  CHECK(notices() == 1);
  REQUIRE_FALSE(db.try_acquire_lease(leased, std::chrono::hours(1), {.owner = "b"}));
  CHECK(notices() == 0);
}

TEST_CASE("check: a term issued behind its snapshot is a serialization error and not unissued",
          "[F2][live]") {
  const auto leased = fresh_scope();
  const std::string acquire =
      "SELECT term FROM termgate.acquire_lease('" + leased + "', 'a', '1 h')";
  PgSession holder(database().url()), other(database().url());
  other.must(acquire);
  holder.must("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
  const auto latest = other.value(acquire);
  CHECK(holder.run(call("check_term", leased, latest)).code == "40001");
  holder.must("ROLLBACK");
  CHECK(holder.value(call("check_term", leased, latest)) == latest);
  CHECK(holder.run(call("check_term", leased, "1000000")).code == "TG005");
}

TEST_CASE("check: a session that remembers a term may raise to it again after a reset",
          "[F3][live]") {
  const auto scope = fresh_scope();
  PgSession writer(database().url()), other(database().url());
  for (int i = 0; i < 3; ++i) writer.must(call("check_term", scope, "9"));
  other.must("SELECT termgate.reset_fence('" + scope + "', 5, 'test', 'mistyped')");
  // Another that still holds the lock of the lower term is not pushed aside without a wait for it.
  other.must("BEGIN; " + call("check_term", scope, "5"));
  CHECK(writer.run(call("check_term", scope, "9")).code == "TG005");
  other.must("COMMIT");
  CHECK(writer.value(call("check_term", scope, "9")) == "9");
  CHECK(other.run(call("check_term", scope, "5")).code == "TG001");
  // What the transaction has raised itself is not raised a second time.
  for (int i = 0; i < 3; ++i) writer.must(call("check_term", scope, "9"));
  other.must("SELECT termgate.reset_fence('" + scope + "', 5, 'test', 'mistyped')");
  writer.must("BEGIN; " + call("seal", scope, "6"));
  CHECK(writer.run(call("check_term", scope, "9")).code == "TG005");
  writer.must("ROLLBACK");
}

TEST_CASE("seal: the same term again takes no lock at all", "[F2][live]") {
  const auto scope = fresh_scope();
  PgSession writer(database().url()), leader(database().url());
  leader.must(call("seal", scope, "5"));
  writer.must("BEGIN; " + call("check_term", scope, "5"));
  CHECK(leader.must(call("seal", scope, "5, '0'")).rows[0][2] == "0");
  writer.must("COMMIT");
}

TEST_CASE("lease: a renewal never waits for an acquisition nor deadlocks with it", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession observer(database().url()), holder(database().url()), next(database().url());
  holder.must(call("acquire_lease", scope, "'a', '100 ms'"));
  termgate::test::wait_until("the lease to expire", [&] {
    return observer.value("SELECT live FROM termgate.lease('" + scope + "')") == "f";
  });
  holder.must("BEGIN; " + call("check_term", scope, "1"));
  next.send(call("acquire_lease", scope, "'b', '10 s', grace => '10 s'"));
  wait_for_lock(observer, next);
  CHECK(holder.must(call("renew_lease", scope, "'a', 1, '10 s'")).value() == "f");
  holder.must("COMMIT");
  CHECK(next.finish().value() == "t");
}

TEST_CASE("append: a write sent again while its first attempt is still open happens once",
          "[F5][live]") {
  const auto scope = fresh_scope();
  const std::string append = "SELECT termgate.append('" + scope + "', 5, 'x', write_id => '" +
                             "00000000-0000-4000-8000-0000000000" +
                             std::to_string(10 + scope.size() % 80) + "')";
  PgSession observer(database().url()), first(database().url()), second(database().url());
  observer.must("DELETE FROM termgate.write_ids");
  first.must(call("seal", scope, "5"));
  first.must("SELECT termgate.append('" + scope + "', 5, 'before')");
  first.must("BEGIN");
  CHECK(first.value(append) == "2");
  second.send(append);
  wait_for_lock(observer, second);
  SECTION("it is committed") { first.must("COMMIT"); }
  SECTION("it is rolled back") { first.must("ROLLBACK"); }
  CHECK(second.finish().value() == "2");
  CHECK(observer.value("SELECT count(*) FROM termgate.read_stream('" + scope + "')") == "2");
  CHECK(observer.value("SELECT last_no FROM termgate.stream_status WHERE stream_id = '" + scope +
                       "'") == "2");
}

TEST_CASE("append: what the rows show outweighs a fence that somebody lowered", "[F3][live]") {
  const auto scope = fresh_scope();
  PgSession owner(database().url());
  owner.must(call("seal", scope, "9"));
  owner.must("SELECT termgate.append('" + scope + "', 9, 'x')");
  // Only who owns the tables and switches the triggers off gets this far.
  owner.must(
      "ALTER TABLE termgate.fences DISABLE TRIGGER ALL; UPDATE termgate.fences SET term = 5 WHERE "
      "scope = '" +
      scope +
      "';"
      "ALTER TABLE termgate.fences ENABLE ALWAYS TRIGGER fences_guard; ALTER TABLE termgate.fences "
      "ENABLE ALWAYS TRIGGER "
      "fences_guard_truncate;"
      "ALTER TABLE termgate.fences ENABLE ALWAYS TRIGGER fences_flush");
  CHECK(owner.value("SELECT kind FROM termgate.verify_findings() WHERE scope = '" + scope + "'") ==
        "fence below a stored term");
  CHECK(owner.run("SELECT termgate.append('" + scope + "', 5, 'stale')").code == "TG001");
  CHECK(owner.run(call("seal", scope, "7")).code == "TG001");
  CHECK(owner.value("SELECT termgate.append('" + scope + "', 10, 'x')") == "2");
}

TEST_CASE("fences: refuse lowering and deletion and truncation even by their owner", "[F3][live]") {
  const auto scope = fresh_scope();
  PgSession owner(database().url());
  owner.must(call("seal", scope, "9"));
  const std::string replica = GENERATE("", "SET session_replication_role = replica; ");
  CAPTURE(replica);
  CHECK(owner.run(replica + "UPDATE termgate.fences SET term = 5 WHERE scope = '" + scope + "'")
            .code == "TG005");
  CHECK(owner.run(replica + "DELETE FROM termgate.fences").code == "TG005");
  CHECK(owner.run(replica + "TRUNCATE termgate.fences").code == "TG005");
  // The row that a reset leaves opens the way in its own transaction only.
  owner.must("INSERT INTO termgate.resets (scope, from_term, to_term) VALUES ('" + scope +
             "', 9, 5)");
  CHECK(owner.run(replica + "UPDATE termgate.fences SET term = 5 WHERE scope = '" + scope + "'")
            .code == "TG005");
}

TEST_CASE("search_path: what a caller puts in its way is not what layer 1 calls", "[F2][live]") {
  const auto scope = fresh_scope();
  PgSession owner(database().url());
  owner.must(call("seal", scope, "5"));
  owner.must("CREATE SCHEMA IF NOT EXISTS evil; GRANT ALL ON SCHEMA evil TO PUBLIC");
  PgSession writer(database().url_as("tg_evil_" + std::to_string(getpid()), "write"));
  writer.must(
      "CREATE FUNCTION evil.lies(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
      "CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.lies);"
      "CREATE OPERATOR evil.>= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.lies)");
  // Whoever finds this operator must not be the owner of layer 1.
  writer.must(
      "CREATE TABLE evil.ran_as (who text); GRANT ALL ON evil.ran_as TO PUBLIC;"
      "CREATE FUNCTION evil.tells(text, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN INSERT "
      "INTO evil.ran_as VALUES (current_user); "
      "RETURN $1 OPERATOR(pg_catalog.=) $2; END';"
      "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.tells);"
      "CREATE OPERATOR evil.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.tells)");
  writer.must("SET search_path = evil, pg_catalog");
  CHECK(writer.run("SELECT termgate.check_term('" + scope + "', 4)").code == "TG001");
  writer.must("SET termgate.scope = '" + scope + "'; SET termgate.term = '5'");
  CHECK(writer.value("SELECT fence FROM termgate.check_session()") == "5");
  CHECK(writer.value("SELECT fence FROM termgate.hold_session()") == "5");
  CHECK(writer.value("SELECT termgate.release_session()") == "t");
  CHECK(writer.value("SELECT count(*) FROM evil.ran_as") == "0");
  CHECK(writer.value("SELECT termgate.check_term('" + scope + "', 5)") == "5");
  CHECK(writer.run("SELECT termgate.append('" + scope + "', 4, 'x')").code == "TG001");
  writer.must("RESET search_path");
  owner.must("DROP SCHEMA evil CASCADE");
}

TEST_CASE("search_path: a collation of the caller's own does not change whose lock is taken",
          "[F1][F2][live]") {
  const auto scope = fresh_scope();
  PgSession admin(database().url());
  admin.must(call("seal", scope, "5"));
  admin.must(
      "CREATE SCHEMA hostile; CREATE COLLATION hostile.\"C\" (provider = icu, locale = "
      "'und-u-ks-level1', deterministic = false)");
  PgSession writer(database().url()), sealer(database().url());
  writer.must("SET search_path = hostile, pg_catalog");
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    writer.must("BEGIN; " + call("check_term", scope, std::to_string(5 + i)));
    sealer.send(call("seal", scope, std::to_string(6 + i) + ", '10 s'"));
    wait_for_lock(admin, sealer);
    writer.must("COMMIT");
    CHECK(sealer.finish().ok());
  }
}
