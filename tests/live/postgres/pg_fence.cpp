// [F1] [F2] [F3] [F5] The check, the raise, leases and streams of layer 1, as a session with SQL
// meets them, each interleaving forced.
#include <catch2/catch.hpp>

#include <chrono>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

#include "support/pg_session.hpp"

using namespace termgate;
using termgate::test::PgDatabase;
using termgate::test::PgResult;
using termgate::test::PgSession;
using termgate::test::wait_for_lock;

namespace {

PgDatabase& database() {
  static PgDatabase one("fence");
  return one;
}

std::string fresh_scope() {
  static int number = 0;
  return "scope " + std::to_string(++number);
}

std::string call(const std::string& function, const std::string& scope, const std::string& rest) {
  return "SELECT * FROM termgate." + function + "('" + scope + "', " + rest + ")";
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

TEST_CASE("check: a writer that waited behind a raise is refused", "[F2][live]") {
  const auto scope = fresh_scope();
  PgSession observer(database().url()), writer(database().url()), raiser(database().url());
  raiser.must(call("seal", scope, "5"));
  writer.must(call("check_term", scope, "5"));
  raiser.must("BEGIN; " + call("seal", scope, "6"));
  writer.must("BEGIN");
  writer.send(call("check_term", scope, "5"));
  wait_for_lock(observer, writer);
  raiser.must("COMMIT");
  const auto refused = writer.finish();
  CHECK(refused.code == "TG001");
  CHECK(refused.message == "TG001 stale term 5 for scope \"" + scope + "\": the fence stands at 6");
}

TEST_CASE("check: a raise that rolls back leaves the writer its term", "[F2][live]") {
  const auto scope = fresh_scope();
  PgSession observer(database().url()), writer(database().url()), raiser(database().url());
  raiser.must(call("seal", scope, "5"));
  raiser.must("BEGIN; " + call("seal", scope, "6"));
  writer.send(call("check_term", scope, "5"));
  wait_for_lock(observer, writer);
  raiser.must("ROLLBACK");
  CHECK(writer.finish().value() == "5");
}

TEST_CASE("check: cancelled while it waits it leaves no lock behind", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession observer(database().url()), writer(database().url()), raiser(database().url());
  raiser.must("BEGIN; " + call("seal", scope, "6"));
  SECTION("alone") {
    writer.send(call("check_term", scope, "5"));
    wait_for_lock(observer, writer);
    writer.cancel();
    CHECK(writer.finish().code == "57014");
  }
  SECTION("inside a savepoint") {
    writer.must("BEGIN; SAVEPOINT s");
    writer.send(call("check_term", scope, "5"));
    wait_for_lock(observer, writer);
    writer.cancel();
    CHECK(writer.finish().code == "57014");
    writer.must("ROLLBACK TO s");
  }
  CHECK(observer.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = " +
                       std::to_string(writer.pid())) == "0");
  CHECK(writer.value("SELECT current_setting('lock_timeout')") == "0");
}

TEST_CASE("check: waits no longer than check_wait and names who is in the way", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession writer(database().url()), raiser(database().url() + "?application_name=slow-raiser");
  writer.must("SELECT termgate.set_setting('check_wait_ms', '200')");
  raiser.must("BEGIN; " + call("seal", scope, "6"));
  const auto blocked = writer.run(call("check_term", scope, "6"));
  writer.must("SELECT termgate.set_setting('check_wait_ms', '5000')");
  CHECK(blocked.code == "TG006");
  CHECK(blocked.message.find("pid " + std::to_string(raiser.pid())) != std::string::npos);
  CHECK(blocked.message.find("slow-raiser") != std::string::npos);
  // A shorter lock_timeout of the user's own is kept, and kept as it was.
  writer.must("SET lock_timeout = '50ms'");
  CHECK(writer.run(call("check_term", scope, "6")).code == "TG006");
  CHECK(writer.value("SHOW lock_timeout") == "50ms");
}

TEST_CASE("check: a lock taken after a savepoint goes with it and is taken again",
          "[F1][F2][live]") {
  const auto scope = fresh_scope();
  PgSession writer(database().url()), raiser(database().url());
  raiser.must(call("seal", scope, "5"));
  writer.must("BEGIN; SAVEPOINT s; " + call("check_term", scope, "5") + "; ROLLBACK TO s");
  CHECK(raiser.must(call("seal", scope, "6, '0'")).rows[0][2] ==
        "0");  // nothing in the way, so nobody was evicted
  CHECK(writer.run(call("check_term", scope, "5")).code == "TG001");
}

TEST_CASE("check: the commit of a procedure drops the lock in the middle", "[F1][live]") {
  const auto scope = fresh_scope();
  PgSession writer(database().url()), owner(database().url());
  owner.must(call("seal", scope, "5"));
  owner.must(
      "CREATE TABLE IF NOT EXISTS do_commit (v int); SELECT termgate.protect('do_commit', scope => "
      "'" +
      scope + "')");
  const auto refused = writer.run("DO $$ BEGIN PERFORM termgate.check_term('" + scope +
                                  "', 5); COMMIT; INSERT INTO do_commit VALUES (1); END $$");
  CHECK(refused.code == "TG002");
  CHECK(writer
            .run("DO $$ BEGIN PERFORM termgate.check_term('" + scope +
                 "', 5); INSERT INTO do_commit VALUES (1); END $$")
            .ok());
  owner.must("DROP TABLE do_commit");
}

TEST_CASE("check: several scopes each with its own term and no second term for one", "[F1][live]") {
  const auto one = fresh_scope();
  const auto two = fresh_scope();
  PgSession writer(database().url());
  writer.must(call("seal", one, "5"));
  writer.must(call("seal", two, "1000000000000"));
  writer.must("BEGIN");
  CHECK(writer.value(call("check_term", one, "5")) == "5");
  CHECK(writer.value(call("check_term", two, "1000000000000")) == "1000000000000");
  writer.must("SAVEPOINT s");
  CHECK(writer.run(call("check_term", one, "6")).code == "TG005");
  writer.must("ROLLBACK TO s");
  CHECK(writer.run(call("check_term", one, "4")).code == "TG001");
}

TEST_CASE("raise: two that check and then raise do not deadlock because the lock is never upgraded",
          "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession first(database().url()), second(database().url());
  first.must(call("seal", scope, "5"));
  first.must("BEGIN; " + call("check_term", scope, "5"));
  second.must("BEGIN; " + call("check_term", scope, "5"));
  CHECK(first.run(call("check_term", scope, "6")).code == "TG005");
  CHECK(second.run(call("seal", scope, "7")).code == "TG005");
}

TEST_CASE("raise: notifies nobody and a notice behind it does", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession listener(database().url()), leader(database().url());
  listener.must("LISTEN termgate");
  leader.must(call("seal", scope, "5"));
  listener.must("SELECT 1");
  CHECK(PQnotifies(listener.raw()) == nullptr);
  leader.must("SELECT termgate.notify_raised('" + scope + "')");
  listener.must("SELECT 1");
  PGnotify* notice = PQnotifies(listener.raw());
  REQUIRE(notice != nullptr);
  CHECK(std::string(notice->extra) ==
        "{\"scope\" : \"" + scope + "\", \"term\" : 5, \"schema\" : \"termgate\"}");
  PQfreemem(notice);
  leader.must(call("check_term", scope, "5"));
  leader.must("SELECT termgate.append('" + scope + "', 5, 'x')");
  listener.must("SELECT 1");
  CHECK(PQnotifies(listener.raw()) == nullptr);
}

TEST_CASE("raise: the library notifies where something was raised and nowhere else", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession listener(database().url());
  listener.must("LISTEN termgate");
  const auto notices = [&] {
    listener.must("SELECT 1");
    int count = 0;
    for (; PGnotify* notice = PQnotifies(listener.raw()); ++count) PQfreemem(notice);
    return count;
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

TEST_CASE("seal: above read committed a raise behind the snapshot is a serialization error",
          "[F2][live]") {
  const auto scope = fresh_scope();
  const auto leased = fresh_scope();
  PgSession sealer(database().url()), other(database().url());
  other.must(call("seal", scope, "5"));
  const auto before =
      other.value("SELECT term FROM termgate.acquire_lease('" + leased + "', 'a', '1 h')");
  sealer.must("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
  CHECK(sealer.must(call("seal", scope, "5")).value() == "5");  // the snapshot is right so far
  const auto after =
      other.value("SELECT term FROM termgate.acquire_lease('" + leased + "', 'a', '1 h')");
  CHECK(other.must(call("seal", scope, "8")).ok());  // nobody was in its way
  REQUIRE(before != after);
  CHECK(sealer.run(call("seal", scope, "5")).code == "40001");
  sealer.must("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
  const auto latest =
      other.value("SELECT term FROM termgate.acquire_lease('" + leased + "', 'a', '1 h')");
  CHECK(sealer.run(call("check_term", leased, latest)).code == "40001");
  sealer.must("ROLLBACK");
  CHECK(sealer.value(call("check_term", leased, latest)) == latest);
  CHECK(sealer.run(call("check_term", leased, "1000000")).code == "TG005");
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

TEST_CASE("lease: of two first acquirers the one that waited learns whose it is", "[F2][live]") {
  const std::string level = GENERATE("READ COMMITTED", "REPEATABLE READ");
  CAPTURE(level);
  const auto scope = fresh_scope();
  PgSession observer(database().url()), first(database().url()), second(database().url());
  first.must("BEGIN");
  CHECK(first.must(call("acquire_lease", scope, "'a', '10 s'")).value() == "t");
  second.must("BEGIN ISOLATION LEVEL " + level + "; SELECT 1");
  second.send(call("acquire_lease", scope, "'b', '10 s'"));
  wait_for_lock(observer, second);
  first.must("COMMIT");
  const auto answer = second.finish();
  if (level == "READ COMMITTED") {
    REQUIRE(answer.ok());
    CHECK(answer.rows[0][0] == "f");
    CHECK(answer.rows[0][3] == "a");
  } else {
    CHECK(answer.code == "40001");
  }
  CHECK(observer.value("SELECT term FROM termgate.fence('" + scope + "')") == "1");
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

TEST_CASE("lease: a frozen renewal holds up nobody", "[F4][live]") {
  const auto scope = fresh_scope();
  PgSession holder(database().url()), next(database().url());
  holder.must(call("acquire_lease", scope, "'a', '1 s'"));
  holder.must("BEGIN; " + call("renew_lease", scope, "'a', 1, '100 ms'"));  // and then it freezes
  termgate::test::wait_until("the old lease to expire", [&] {
    return next.value("SELECT live FROM termgate.lease('" + scope + "')") == "f";
  });
  CHECK(next.must(call("acquire_lease", scope, "'b', '10 s', grace => '100 ms'")).value() == "t");
  CHECK(holder.run("COMMIT").ended());
}

TEST_CASE("append: numbers are consecutive in commit order while writers wait for each other",
          "[F1][live]") {
  const auto scope = fresh_scope();
  PgSession observer(database().url()), first(database().url()), second(database().url());
  first.must(call("seal", scope, "5"));
  first.must("SELECT termgate.append('" + scope + "', 5, 'first')");
  first.must("BEGIN");
  CHECK(first.value("SELECT termgate.append('" + scope + "', 5, 'x')") == "2");
  second.send("SELECT termgate.append('" + scope + "', 5, 'y')");
  wait_for_lock(observer, second);
  SECTION("the first commits") {
    first.must("COMMIT");
    CHECK(second.finish().value() == "3");
  }
  SECTION("the first rolls back and its number is used again") {
    first.must("ROLLBACK");
    CHECK(second.finish().value() == "2");
  }
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

TEST_CASE("privileges: a level gives its functions and nothing on the tables", "[F3][live]") {
  PgSession owner(database().url());
  owner.must(call("seal", "privileged", "5"));
  struct Row {
    const char* level;
    bool read, write, lead, operate;
  };
  const Row row =
      GENERATE(Row{"", false, false, false, false}, Row{"read", true, false, false, false},
               Row{"write", true, true, false, false}, Row{"lead", true, true, true, false},
               Row{"operate", true, true, true, true});
  const std::string level = row.level;
  CAPTURE(level);
  PgSession session(database().url_as(
      "tg_role_" + (level.empty() ? "none" : level) + "_" + std::to_string(getpid()), level));
  const auto allowed = [&](const std::string& sql) { return session.run(sql).code != "42501"; };
  CHECK(allowed("SELECT * FROM termgate.fence('privileged')") == row.read);
  CHECK(allowed("SELECT * FROM termgate.fence_status") == row.read);
  CHECK(allowed("SELECT * FROM termgate.doctor()") == row.read);
  CHECK(allowed("SELECT termgate.check_term('privileged', 5)") == row.write);
  CHECK(allowed("SELECT termgate.append('privileged', 5, 'x')") == row.write);
  CHECK(allowed("SELECT termgate.seal('privileged', 5)") == row.lead);
  CHECK(allowed("SELECT termgate.acquire_lease('privileged lease', 'a', '1 s')") == row.lead);
  CHECK(allowed("SELECT termgate.force_release('privileged lease', 'a', 'b')") == row.operate);
  CHECK(allowed("SELECT termgate.prune('privileged', 1)") == row.operate);
  for (const auto* table : {"fences", "leases", "streams", "stream_writes", "settings", "audit",
                            "incarnation", "passes"}) {
    CAPTURE(table);
    CHECK_FALSE(allowed(std::string("SELECT * FROM termgate.") + table));
    CHECK_FALSE(allowed(std::string("DELETE FROM termgate.") + table));
  }
  CHECK_FALSE(allowed("SELECT termgate._set_fence('privileged', 99, 'x', 'x', '{}')"));
  CHECK_FALSE(allowed("SELECT termgate._guard(1, 'privileged', 'enforce', pg_current_snapshot())"));
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

TEST_CASE("check: a setting of the application's does not take back what has passed", "[live]") {
  const auto scope = fresh_scope();
  PgSession writer(database().url());
  writer.must(
      "CREATE TABLE IF NOT EXISTS settings_table (scope text, v int); SELECT "
      "termgate.protect('settings_table', 'scope'); " +
      call("seal", scope, "5"));
  for (const std::string setting :
       {"timezone = 'Asia/Tokyo'", "datestyle = 'SQL, DMY'", "bytea_output = 'escape'",
        "extra_float_digits = 0", "intervalstyle = 'iso_8601'"}) {
    CAPTURE(setting);
    writer.must("BEGIN; " + call("check_term", scope, "5") + "; SET LOCAL " + setting);
    CHECK(writer.run("INSERT INTO settings_table VALUES ('" + scope + "', 1)").code.empty());
    writer.must("COMMIT");
  }
  writer.must("SELECT termgate.unprotect('settings_table'); DROP TABLE settings_table");
}

TEST_CASE("jobs: a run of an overtaken term beats and completes no more", "[F2][live]") {
  PgSession worker(database().url()), leader(database().url());
  const auto scope = fresh_scope();
  const auto run = worker.value("SELECT termgate.job_start('nightly', '" + scope + "', 'me', 5)");
  CHECK(worker.value("SELECT termgate.job_heartbeat(" + run + ", 'half')") == "t");
  leader.must(call("seal", scope, "6"));
  CHECK(worker.run("SELECT termgate.job_heartbeat(" + run + ")").code == "TG001");
  CHECK(worker.run("SELECT termgate.job_finish(" + run + ", 'completed', 0)").code == "TG001");
  CHECK(leader.value("SELECT status FROM termgate.job_history WHERE run_id = " + run) == "lost");
  const std::string status = GENERATE("failed", "cancelled", "lost");
  CHECK(worker.value("SELECT termgate.job_finish(" + run + ", '" + status + "')") == "t");
  CHECK(worker.value("SELECT termgate.job_finish(" + run + ", 'completed', 0)") == "f");
  CHECK(worker.value("SELECT termgate.job_heartbeat(" + run + ")") == "f");
}

TEST_CASE("audit: nothing of the last hour is pruned and every pruning stays on record",
          "[F3][live]") {
  PgSession operator_(database().url());
  operator_.must(call("seal", fresh_scope(), "5"));
  for (const std::string age : {"0 s", "59 minutes", "-1 day"}) {
    CAPTURE(age);
    CHECK(operator_.run("SELECT termgate.prune_history('" + age + "')").code == "TG005");
  }
  CHECK(operator_.run("SELECT termgate.prune_history(NULL)").code == "TG005");
  operator_.must("UPDATE termgate.audit SET at = at - interval '1 day'");
  operator_.must("SELECT termgate.prune_history('2 hours')");
  operator_.must("UPDATE termgate.audit SET at = at - interval '1 day'");
  operator_.must("SELECT termgate.prune_history('2 hours')");
  CHECK(
      operator_.value("SELECT string_agg(DISTINCT action, ',') || count(*) FROM termgate.audit") ==
      "prune_history2");
}
