// [F1] [F2] [F4] A transaction over more scopes than the lock table has room for: the lock table of
// the server stays as it was, other sessions work on, and a raise still waits for it and evicts it
// when it freezes.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>

#include "support/pg_session.hpp"

using namespace std::chrono_literals;
using termgate::test::PgDatabase;
using termgate::test::PgSession;
using termgate::test::wait_for_lock;

namespace {

// `scopes` scopes at term 5, and a protected table with one row each.
PgDatabase& database(int scopes) {
  static PgDatabase one("many");
  PgSession owner(one.url());
  if (owner.value("SELECT to_regclass('public.t') IS NULL") == "t") {
    owner.must(
        "CREATE TABLE t (scope text PRIMARY KEY, v int); INSERT INTO t SELECT 'scope ' || i, 0 "
        "FROM generate_series(1, " +
        std::to_string(scopes) + ") i");
    owner.must(
        "INSERT INTO termgate.fences (scope, term, vouched) SELECT scope, 5, "
        "'termgate.fences'::regclass FROM t");
    owner.must("SELECT termgate.protect('t', 'scope'); ANALYZE t; ANALYZE termgate.fences");
  }
  return one;
}

// The lock table of the test server has room for 14,080: 64 times 200 connections and 20 prepared
// transactions.
int scopes_wanted() { return std::getenv("TERMGATE_TEST_LONG") != nullptr ? 100'000 : 6'000; }

}  // namespace

TEST_CASE("many scopes: an update of thousands of rows and scopes leaves the lock table alone",
          "[F1][F2][live]") {
  auto& db = database(scopes_wanted());
  PgSession bulk(db.url()), other(db.url());
  bulk.must("BEGIN");
  CHECK(bulk.value("SELECT count(termgate.check_term(scope, 5)) FROM t") ==
        std::to_string(scopes_wanted()));
  CHECK(std::stoi(other.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")) < 270);
  bulk.must("UPDATE t SET v = v + 1");
  CHECK(std::stoi(other.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")) < 270);
  // Others notice nothing: the same scopes at the same term, writes included.
  other.must(
      "BEGIN; SELECT termgate.check_term('scope 900', 5); SELECT termgate.append('others', 5, "
      "'x', scope => 'scope 900'); COMMIT");
  // A raise of one of the scopes waits, of another scope does not.
  PgSession raiser(db.url());
  raiser.must("SELECT termgate.seal('not among them', 9, '0')");
  raiser.send("SELECT termgate.seal('scope 900', 6, '1 minute')");
  wait_for_lock(other, raiser);
  bulk.must("COMMIT");
  CHECK(raiser.finish().ok());
  CHECK(other.value("SELECT count(*) FROM t WHERE v = 1") == std::to_string(scopes_wanted()));
  CHECK(bulk.run("BEGIN; SELECT count(termgate.check_term(scope, 5)) FROM t").code == "TG001");
  bulk.must("ROLLBACK");
  // The fences of this test were written by hand, without an audit.
  CHECK(other.value(
            "SELECT count(*) FROM termgate.verify_findings() WHERE kind <> 'term never raised'") ==
        "0");
}

TEST_CASE("many scopes: rows whose scope was not passed are refused among thousands that were",
          "[F2][live]") {
  auto& db = database(scopes_wanted());
  PgSession bulk(db.url());
  bulk.must(
      "BEGIN; SELECT count(termgate.check_term(scope, 5)) FROM t WHERE scope BETWEEN 'scope 1' AND "
      "'scope 2'");
  bulk.must("SAVEPOINT s");
  CHECK(bulk.run("UPDATE t SET v = v + 1 WHERE scope = 'scope 3'").code == "TG002");
  bulk.must("ROLLBACK TO s; UPDATE t SET v = v + 1 WHERE scope = 'scope 199'");
  // What was passed after the savepoint is gone with it.
  bulk.must(
      "SAVEPOINT s2; SELECT termgate.check_term('scope 3', 5); UPDATE t SET v = v + 1 WHERE scope "
      "= 'scope 3'; ROLLBACK TO s2");
  CHECK(bulk.run("UPDATE t SET v = v + 1 WHERE scope = 'scope 3'").code == "TG002");
  bulk.must("ROLLBACK");
}

TEST_CASE("many scopes: a frozen one is evicted for the scope that it holds and for no other",
          "[F4][live]") {
  auto& db = database(scopes_wanted());
  PgSession frozen(db.url()), bystander(db.url()), second(db.url()), leader(db.url());
  // The scopes that each of them passes; the ones that are raised here stay raised, hence ranges of
  // their own.
  const auto pass = [](const std::string& from, const std::string& to) {
    return "SELECT count(termgate.check_term(scope, 5)) FROM t WHERE scope BETWEEN 'scope " + from +
           "' AND 'scope " + to + "'";
  };
  const auto ended_by_a_raise = [&](const std::string& number) {
    return leader.value("SELECT evicted FROM termgate.seal('scope " + number + "', 6, '100 ms')");
  };
  bystander.must("BEGIN; " + pass("4", "5"));
  frozen.must("BEGIN");
  SECTION("alone on the row") {
    frozen.must(pass("2", "25"));
    CHECK(ended_by_a_raise("2490") == "1");
  }
  SECTION("in a savepoint that was released") {
    // Its id stands in the row, and the lock of that id goes with the release.
    frozen.must("SAVEPOINT outside; SAVEPOINT inside");
    frozen.must(pass("3", "35"));
    frozen.must("RELEASE inside; RELEASE outside");
    CHECK(ended_by_a_raise("3490") == "1");
  }
  SECTION("with savepoints released and rolled back around it") {
    frozen.must("SAVEPOINT s");
    frozen.must(pass("35", "37"));
    frozen.must("ROLLBACK TO s; RELEASE s");
    frozen.must(
        "DO $$ BEGIN BEGIN PERFORM termgate.check_term(scope, 5) FROM t WHERE scope BETWEEN 'scope "
        "38' AND 'scope 4'; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$");
    CHECK(ended_by_a_raise("3690") == "0");
    CHECK(ended_by_a_raise("3990") == "1");
  }
  SECTION("two on the row") {
    frozen.must(pass("25", "3"));
    second.must("BEGIN; " + pass("25", "3"));
    CHECK(ended_by_a_raise("2990") == "2");
    CHECK(second.run("COMMIT").ended());
  }
  CHECK(frozen.run("COMMIT").ended());
  CHECK(bystander.run("COMMIT").ok());
}

TEST_CASE("many scopes: savepoints beyond what the lock table can bear are refused", "[F4][live]") {
  auto& db = database(scopes_wanted());
  PgSession bulk(db.url()), other(db.url());
  bulk.must(
      "BEGIN; SELECT count(termgate.check_term(scope, 5)) FROM t WHERE scope BETWEEN 'scope 50' "
      "AND 'scope 51'");
  const std::string each =
      "DO $$ DECLARE s text; BEGIN FOR s IN SELECT scope FROM t WHERE scope BETWEEN 'scope 52' AND "
      "'scope 55' LIMIT %s LOOP "
      "BEGIN PERFORM termgate.check_term(s, 5); EXCEPTION WHEN division_by_zero THEN NULL; END; "
      "END LOOP; END $$";
  const auto loop = [&](const std::string& count) {
    return std::string(each).replace(each.find("%s"), 2, count);
  };
  bulk.must("SAVEPOINT s; " + loop("250"));
  CHECK(std::stoi(other.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")) < 400);
  CHECK(bulk.run(loop("300")).code == "TG005");
  bulk.must("ROLLBACK TO s; " + loop("250"));  // places given up are free again
  // Scopes that were passed before the savepoint cost nothing in it.
  bulk.must(
      "ROLLBACK TO s; SELECT count(termgate.check_term(scope, 5)) FROM t WHERE scope BETWEEN "
      "'scope 52' AND 'scope 55'; " +
      loop("300"));
  bulk.must("ROLLBACK");
}
