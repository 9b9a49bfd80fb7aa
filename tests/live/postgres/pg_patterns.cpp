// The patterns in use that do not fence, each shown wrong on a real server, and the fence row that
// is right where they are not. Every interleaving is forced; the tables here are the test's own,
// layer 1 has no part in it.
#include <catch2/catch.hpp>

#include "support/pg_session.hpp"

using termgate::test::PgDatabase;
using termgate::test::PgSession;
using termgate::test::wait_for_lock;

namespace {

struct Tables {
  PgDatabase database{"patterns"};
  PgSession old_leader{database.url()};
  PgSession new_leader{database.url()};
  PgSession observer{database.url()};

  Tables() {
    observer.must(
        "CREATE TABLE log (no bigserial PRIMARY KEY, term bigint); INSERT INTO log (term) VALUES "
        "(5);"
        "CREATE TABLE fence (scope text PRIMARY KEY, term bigint); INSERT INTO fence VALUES ('s', "
        "5)");
  }
  std::string terms() {
    return observer.value("SELECT string_agg(term::text, ',' ORDER BY no) FROM log");
  }
};

}  // namespace

TEST_CASE("pattern: MAX then INSERT accepts a stale write after the new term has committed",
          "[F1][F2][live]") {
  Tables t;
  t.old_leader.must("BEGIN");
  CHECK(t.old_leader.value("SELECT max(term) FROM log") == "5");
  t.new_leader.must("INSERT INTO log (term) VALUES (6)");
  CHECK(t.old_leader.run("INSERT INTO log (term) VALUES (5); COMMIT").ok());
  CHECK(t.terms() == "5,6,5");
}

TEST_CASE("pattern: one statement with WHERE EXISTS and no lock accepts a stale write",
          "[F1][F2][live]") {
  Tables t;
  t.observer.must("SELECT pg_advisory_lock(1)");
  t.old_leader.send(
      "WITH leads AS MATERIALIZED (SELECT 1 FROM fence WHERE scope = 's' AND term = 5), stretched "
      "AS MATERIALIZED (SELECT "
      "pg_advisory_xact_lock(1) FROM leads) "
      "INSERT INTO log (term) SELECT 5 FROM leads, stretched WHERE EXISTS (SELECT 1 FROM fence "
      "WHERE scope = 's' AND term = 5)");
  PgSession other(t.database.url());
  wait_for_lock(other, t.old_leader);
  t.new_leader.must("BEGIN; UPDATE fence SET term = 6; INSERT INTO log (term) VALUES (6); COMMIT");
  t.observer.must("SELECT pg_advisory_unlock(1)");
  CHECK(t.old_leader.finish().ok());
  CHECK(t.terms() == "5,6,5");
}

TEST_CASE("pattern: an advisory lock and a read in the same statement read the old term",
          "[F1][live]") {
  Tables t;
  t.new_leader.must("BEGIN; SELECT pg_advisory_xact_lock(1); UPDATE fence SET term = 6");
  t.old_leader.must("BEGIN");
  t.old_leader.send(
      "SELECT term FROM (SELECT pg_advisory_xact_lock_shared(1)) l, fence WHERE scope = 's'");
  wait_for_lock(t.observer, t.old_leader);
  t.new_leader.must("COMMIT");
  CHECK(t.old_leader.finish().value() == "5");
  // The next statement sees it: this is why layer 1 reads in a statement of its own.
  CHECK(t.old_leader.value("SELECT term FROM fence WHERE scope = 's'") == "6");
}

TEST_CASE("pattern: MAX under FOR UPDATE is refused by PostgreSQL", "[F1][live]") {
  Tables t;
  CHECK(t.observer.run("SELECT max(term) FROM log FOR UPDATE").code == "0A000");
}

TEST_CASE("pattern: FOR UPDATE on a row that is not there locks nothing", "[F2][live]") {
  Tables t;
  t.old_leader.must("BEGIN; SELECT term FROM fence WHERE scope = 'new' FOR UPDATE");
  t.new_leader.must("BEGIN; SELECT term FROM fence WHERE scope = 'new' FOR UPDATE");
  t.old_leader.must(
      "INSERT INTO fence VALUES ('new', 1) ON CONFLICT (scope) DO UPDATE SET term = EXCLUDED.term; "
      "COMMIT");
  CHECK(t.new_leader
            .run("INSERT INTO fence VALUES ('new', 1) ON CONFLICT (scope) DO UPDATE SET term = "
                 "EXCLUDED.term; COMMIT")
            .ok());
  // Both believe that they took term 1.
  CHECK(t.observer.value("SELECT term FROM fence WHERE scope = 'new'") == "1");
}

TEST_CASE("pattern: now is the start of the transaction and not the moment after the lock",
          "[live]") {
  Tables t;
  t.new_leader.must("BEGIN; SELECT pg_advisory_xact_lock(1)");
  t.old_leader.must("BEGIN");
  t.old_leader.must("SELECT now()");
  t.old_leader.send("SELECT pg_advisory_xact_lock(1)");
  wait_for_lock(t.observer, t.old_leader);
  t.new_leader.must("COMMIT");
  t.old_leader.finish();
  CHECK(t.old_leader.value("SELECT clock_timestamp() > now()") == "t");
  CHECK(t.old_leader.value("SELECT now() = transaction_timestamp()") == "t");
}

TEST_CASE("pattern: a fence row read FOR SHARE is right in all of these", "[F1][F2][live]") {
  Tables t;
  SECTION("a raise waits for the shared lock and the log keeps its order") {
    t.old_leader.must("BEGIN; SELECT term FROM fence WHERE scope = 's' FOR SHARE");
    t.new_leader.send(
        "BEGIN; UPDATE fence SET term = 6; INSERT INTO log (term) VALUES (6); COMMIT");
    wait_for_lock(t.observer, t.new_leader);
    t.old_leader.must("INSERT INTO log (term) VALUES (5); COMMIT");
    CHECK(t.new_leader.finish().ok());
    CHECK(t.terms() == "5,5,6");
  }
  SECTION("who waited for the raise reads the new term") {
    t.new_leader.must("BEGIN; UPDATE fence SET term = 6");
    t.old_leader.must("BEGIN");
    t.old_leader.send("SELECT term FROM fence WHERE scope = 's' FOR SHARE");
    wait_for_lock(t.observer, t.old_leader);
    t.new_leader.must("COMMIT");
    CHECK(t.old_leader.finish().value() == "6");
  }
  SECTION(
      "under REPEATABLE READ a hidden raise is a serialization error and an unlocked read is old") {
    t.old_leader.must("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM log");
    t.new_leader.must("UPDATE fence SET term = 6");
    CHECK(t.old_leader.value("SELECT term FROM fence WHERE scope = 's'") == "5");
    CHECK(t.old_leader.run("SELECT term FROM fence WHERE scope = 's' FOR SHARE").code == "40001");
  }
}
