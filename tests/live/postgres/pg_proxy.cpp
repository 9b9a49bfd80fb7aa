// What the proxy sends: [F1] check_session answers for what is declared, refuses what is not; [F4]
// who holds a scope for the session (hold_session) is waited for and then evicted, idle, in a
// procedure that commits all the time, and in CREATE INDEX CONCURRENTLY, which itself waits for the
// raise.
#include <catch2/catch.hpp>

#include <chrono>
#include <string>

#include "pg_calls.hpp"

using namespace std::chrono_literals;
using termgate::test::fresh_scope;
using termgate::test::PgDatabase;
using termgate::test::PgResult;
using termgate::test::PgSession;
using termgate::test::seal;
using termgate::test::slack;
using termgate::test::time_of;
using termgate::test::wait_for_lock;
using termgate::test::wait_until;

namespace {

PgDatabase& database() {
  static PgDatabase one("proxy");
  return one;
}

std::string hold(const std::string& scope, int term) {
  return "SELECT * FROM termgate.hold_session('" + scope + "', " + std::to_string(term) + ")";
}
std::string locks_of(const PgSession& session) {
  return "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = " +
         std::to_string(session.pid());
}

}  // namespace

TEST_CASE("check_session: arguments and declarations stand in for each other", "[F1][live]") {
  const auto scope = fresh_scope();
  PgSession db(database().url());
  db.must(seal(scope, 5));

  auto passed = db.must("SELECT * FROM termgate.check_session('" + scope + "', 5)");
  CHECK(passed.rows[0] == std::vector<std::string>{scope, "5", "5"});

  db.must("SET termgate.scope = '" + scope + "'; SET termgate.term = '5'");
  CHECK(db.must("SELECT * FROM termgate.check_session()").rows[0] ==
        std::vector<std::string>{scope, "5", "5"});
  CHECK(db.must("SELECT * FROM termgate.check_session(NULL, 6)").rows[0] ==
        std::vector<std::string>{scope, "6", "6"});
  auto stale = db.run("SELECT * FROM termgate.check_session()");
  CHECK(stale.code == "TG001");
  CHECK(stale.message.find("stale term 5") != std::string::npos);
  const auto other = fresh_scope();
  CHECK(db.must("SELECT * FROM termgate.check_session('" + other + "', NULL)").rows[0] ==
        std::vector<std::string>{other, "5", "5"});
}

TEST_CASE("check_session: what is not declared is TG002 and what is malformed TG005",
          "[F1][live]") {
  PgSession db(database().url());
  const std::pair<const char*, const char*> cases[] = {
      {"", "TG002 no term declared: a write needs a scope and a term"},
      {"'orders', NULL", "TG002 no term declared for scope \"orders\": a write needs both"},
      {"NULL, 4", "TG002 no scope declared for term 4: a write needs both"}};
  for (const auto& [arguments, message] : cases) {
    const auto refused = db.run(std::string("SELECT termgate.check_session(") + arguments + ")");
    CHECK(refused.code == "TG002");
    CHECK(refused.message == message);
  }
  db.must("SET termgate.scope = ''; SET termgate.term = ''");
  CHECK(db.run("SELECT termgate.check_session()").code == "TG002");
  for (const std::string bad :
       {"5x", "-1", "0", "00", " 5", "99999999999999999999", "4611686018427387905", "1e3"}) {
    CAPTURE(bad);
    db.must("SET termgate.scope = 'orders'; SET termgate.term = '" + bad + "'");
    CHECK(db.run("SELECT termgate.check_session()").code == "TG005");
  }
  db.must("SET termgate.term = '5'; SELECT set_config('termgate.scope', repeat('x', 201), false)");
  CHECK(db.run("SELECT termgate.check_session()").code == "TG005");
  CHECK(db.run("SELECT termgate.check_session('', 5)").code == "TG005");
}

TEST_CASE("hold_session: the lock outlives the transaction and what was declared comes back",
          "[F1][live]") {
  const auto scope = fresh_scope();
  PgSession db(database().url()), observer(database().url());
  db.must("SET termgate.scope = 'before'; SET termgate.term = '3'");
  CHECK(db.must(hold(scope, 5)).rows[0] == std::vector<std::string>{scope, "5", "5"});
  CHECK(observer.value(locks_of(db)) == "1");
  CHECK(db.value("SHOW termgate.scope") == scope);
  CHECK(db.value("SHOW termgate.term") == "5");
  CHECK(db.run(hold(scope, 5)).code == "TG005");
  db.must("VACUUM termgate.fences");
  CHECK(observer.value(locks_of(db)) == "1");
  CHECK(db.value("SELECT termgate.release_session()") == "t");
  CHECK(observer.value(locks_of(db)) == "0");
  CHECK(db.value("SHOW termgate.scope") == "before");
  CHECK(db.value("SHOW termgate.term") == "3");
  CHECK(db.value("SELECT termgate.release_session('" + scope + "')") == "f");
  CHECK(db.must(seal(scope, 6)).rows[0][2] == "0");
}

TEST_CASE("release_session: nothing that runs under the lock gives it up", "[F1][live]") {
  const auto scope = fresh_scope();
  PgSession db(database().url()), observer(database().url());
  db.must("CREATE TABLE IF NOT EXISTS released (n int)");
  // The server puts the body of such a function in place of its call.
  db.must(
      "CREATE OR REPLACE FUNCTION inlined() RETURNS boolean LANGUAGE sql AS 'SELECT "
      "termgate.release_session()'");
  db.must(
      "CREATE OR REPLACE PROCEDURE takes(given boolean) LANGUAGE plpgsql AS 'BEGIN COMMIT; END'");
  db.must(
      "CREATE OR REPLACE FUNCTION indexed(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN "
      "PERFORM termgate.release_session(); "
      "RETURN n; END'");
  db.must("TRUNCATE released; INSERT INTO released VALUES (1)");
  db.must(hold(scope, 5));
  for (const std::string& text : std::vector<std::string>{
           "DO $$BEGIN PERFORM termgate.release_session(); END$$",
           "DO $$BEGIN EXECUTE 'SELECT termgate.release' || '_session(''" + scope + "'')'; END$$",
           "CALL takes(termgate.release_session())", "CALL takes(inlined())",
           "CREATE INDEX CONCURRENTLY ON released (indexed(n))", "/* */ CALL takes(inlined())",
           "EXPLAIN ANALYZE SELECT termgate.release_session()"}) {
    CAPTURE(text);
    CHECK(db.run(text).code == "TG005");
    CHECK(observer.value(locks_of(db)) == "1");
  }
  CHECK(db.value(" \n\tselect termgate.release_session()") == "t");
  CHECK(observer.value(locks_of(db)) == "0");
}

TEST_CASE("hold_session: a rolled back transaction keeps the lock until release_session",
          "[F1][live]") {
  const auto scope = fresh_scope();
  PgSession db(database().url()), observer(database().url());
  db.must(seal(scope, 5));
  db.must("BEGIN; " + hold(scope, 5) + "; ROLLBACK");
  CHECK(observer.value(locks_of(db)) == "1");
  CHECK(db.value("SELECT termgate.release_session('" + scope + "')") == "t");
  CHECK(observer.value(locks_of(db)) == "0");
  db.must(hold(scope, 5));
  db.must("SET termgate.held_session = '{'");  // a client may write over it
  CHECK(db.value("SELECT termgate.release_session('" + scope + "')") == "t");
  CHECK(observer.value(locks_of(db)) == "0");
}

TEST_CASE(
    "hold_claim: what is given, what the session declares, or what a rule says, in that order",
    "[F1][F6][live]") {
  const auto scope = fresh_scope(), other = fresh_scope();
  PgSession db(database().url()), observer(database().url());
  const auto held = [&](const std::string& arguments) {
    const auto rows =
        db.must("SELECT scope, term, fence FROM termgate.hold_claim(" + arguments + ")").rows;
    db.must("SELECT termgate.release_session('" + rows[0][0] + "')");
    return rows[0];
  };
  using Row = std::vector<std::string>;
  const std::string rule = "'" + other + "', 7, ", none = "NULL, NULL, ";
  CHECK(db.run("SELECT termgate.hold_claim(" + none + none + "true)").code == "TG002");
  CHECK(held(none + none + "false") == Row{"", "", ""});
  CHECK(held(none + rule + "true") == Row{other, "7", "7"});
  CHECK(held("'" + scope + "', 5, " + rule + "true") == Row{scope, "5", "5"});
  db.must("SET termgate.scope = '" + scope + "'");
  // Half a claim is none, and stands in the rule's way.
  CHECK(held(none + none + "false") == Row{"", "", ""});
  CHECK(db.run("SELECT termgate.hold_claim(" + none + rule + "true)").code == "TG002");
  db.must("SET termgate.term = '5'");
  CHECK(held(none + rule + "true") == Row{scope, "5", "5"});
  CHECK(held(none + none + "false") == Row{scope, "5", "5"});
  db.must("SET termgate.term = '4'");
  CHECK(db.run("SELECT termgate.hold_claim(" + none + none + "false)").code == "TG001");
  CHECK(observer.value(locks_of(db)) == "0");
}

TEST_CASE("check_claim_text: what check_claim says in one text, whatever the session remembers",
          "[F1][F2][live]") {
  const auto scope = fresh_scope(), other = fresh_scope();
  PgSession db(database().url()), observer(database().url());
  const auto asked = [](const std::string& arguments) {
    return "SELECT termgate.check_claim_text(" + arguments + ")";
  };
  const std::string none = "NULL, NULL, NULL, NULL", rule = "NULL, NULL, '" + other + "', 7",
                    given = "'" + scope + "', 5, NULL, NULL";
  CHECK(db.run(asked(none)).code == "TG002");
  for (int i = 0; i < 3; ++i) {  // from the second on the session remembers
    CHECK(db.value(asked(given)) == "5 5 " + scope);
    CHECK(db.value(asked(rule)) == "7 7 " + other);
  }
  db.must("SET termgate.scope = '" + scope + "'");
  CHECK(db.run(asked(none)).code == "TG002");
  CHECK(db.run(asked(rule)).code == "TG002");
  db.must("SET termgate.term = '5'");
  for (int i = 0; i < 2; ++i) {
    CHECK(db.value(asked(none)) == "5 5 " + scope);
    CHECK(db.value(asked(rule)) == "5 5 " + scope);
    CHECK(db.run(asked("'" + other + "', NULL, NULL, NULL")).code == "TG001");
    CHECK(db.value(asked("NULL, 5, NULL, NULL")) == "5 5 " + scope);
  }
  // It holds the lock that a raise waits for.
  db.must("BEGIN; " + asked(none));
  CHECK(observer.value(locks_of(db)) == "1");
  db.must("COMMIT");
  observer.must(seal(scope, 6));
  CHECK(db.run(asked(none)).code == "TG001");
  CHECK(db.run(asked(given)).code == "TG001");
  // A client may write the setting that the session remembers: the fence decides all the same.
  for (const std::string forged : {"5", " 5", "05", "+5", "4611686018427387905", "x", ""}) {
    CAPTURE(forged);
    db.must("SELECT set_config('termgate.term', '" + forged +
            "', false), set_config('termgate.known', '|" + forged + "|" + scope + "|', false)");
    CHECK_FALSE(db.run(asked(none)).ok());
  }
  db.must("SELECT set_config('termgate.term', ' 6', false), set_config('termgate.known', '| 6|" +
          scope + "|', false)");
  CHECK(db.value(asked(none)) == "6 6 " + scope);
}

TEST_CASE("hold_session: protected tables let the transactions of a procedure pass", "[F1][live]") {
  const auto scope = fresh_scope();
  PgSession db(database().url());
  db.must(
      "DROP TABLE IF EXISTS held; CREATE TABLE held (v int); SELECT termgate.protect('held', scope "
      "=> '" +
      scope + "')");
  db.must(
      "CREATE OR REPLACE PROCEDURE fill_held() LANGUAGE plpgsql AS $$BEGIN FOR i IN 1..3 LOOP "
      "INSERT INTO held VALUES (i); COMMIT; END "
      "LOOP; END$$");
  CHECK(db.run("CALL fill_held()").code == "TG002");
  db.must(hold(scope, 5));
  db.must("CALL fill_held()");
  db.must("SELECT termgate.release_session()");
  CHECK(db.value("SELECT count(*) FROM held") == "3");
  CHECK(db.run("CALL fill_held()").code == "TG002");
}

TEST_CASE("hold_session: a procedure that commits all the time is evicted", "[F4][live]") {
  const auto scope = fresh_scope();
  const bool fast = GENERATE(false, true);
  CAPTURE(fast);
  PgSession holder(database().url()), leader(database().url()), observer(database().url());
  leader.must("CREATE TABLE IF NOT EXISTS ticks (scope text, v int)");
  leader.must(
      "CREATE OR REPLACE PROCEDURE tick(s text, pause float8) LANGUAGE plpgsql AS $$BEGIN FOR i IN "
      "1..10000000 LOOP "
      "INSERT INTO ticks VALUES (s, i); COMMIT; IF pause > 0 THEN PERFORM pg_sleep(pause); END IF; "
      "END LOOP; END$$");
  holder.must(hold(scope, 5));
  holder.send("CALL tick('" + scope + "', " + (fast ? "0" : "0.2") + ")");
  wait_until("the first row", [&] {
    return observer.value("SELECT count(*) > 0 FROM ticks WHERE scope = '" + scope + "'") == "t";
  });
  PgResult sealed;
  const auto took = time_of([&] { sealed = leader.must(seal(scope, 6)); });
  const auto count = observer.value("SELECT max(v) FROM ticks WHERE scope = '" + scope + "'");
  CAPTURE(took.count());
  CHECK(sealed.rows[0][2] == "1");
  CHECK(took >= 1000ms);
  CHECK(took < 1000ms + slack);
  CHECK(holder.finish().ended());
  CHECK(observer.value("SELECT max(v) FROM ticks WHERE scope = '" + scope + "'") == count);
}

TEST_CASE(
    "hold_session: an index built concurrently does not deadlock with the raise that waits for it",
    "[F4][live]") {
  const auto scope = fresh_scope();
  // Longer than deadlock_timeout, so that the server's detector meets the raise as well.
  constexpr auto grace = 2500ms;
  PgSession holder(database().url()), leader(database().url()), writer(database().url()),
      observer(database().url());
  leader.must("DROP TABLE IF EXISTS indexed; CREATE TABLE indexed (v int)");
  // The first phase waits for this writer. Once the raise waits, let it go: the second phase then
  // waits for the raise.
  writer.must("BEGIN; INSERT INTO indexed VALUES (1)");
  holder.must(hold(scope, 5));
  holder.must("SET deadlock_timeout = '1 h'");
  holder.send("CREATE INDEX CONCURRENTLY ON indexed (v)");
  wait_for_lock(observer, holder);
  const auto start = std::chrono::steady_clock::now();
  leader.send(seal(scope, 6, std::to_string(grace.count()) + " ms"));
  wait_for_lock(observer, leader);
  writer.must("COMMIT");
  auto sealed = leader.finish();
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  CAPTURE(sealed.message, took.count());
  REQUIRE(sealed.ok());
  CHECK(sealed.rows[0][2] == "1");
  CHECK(took >= grace);
  CHECK(took < grace + slack);
  CHECK(holder.finish().ended());
}
