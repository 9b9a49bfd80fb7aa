// "Prove that your service survives a stale leader", as docs/use/testkit.md teaches it: compiled
// against the installed package, and run on every database at hand (TERMGATE_TEST_POSTGRESQL: on
// that server, else on SQLite).

// [example]
#define CATCH_CONFIG_MAIN  // Catch2, version 2; with version 3 main() is in Catch2::Catch2WithMain
#include <catch2/catch.hpp>  // version 3: <catch2/catch_all.hpp>

#include <termgate/operator.hpp>
#include <termgate/testkit/catch2.hpp>
#include <termgate/testkit/database.hpp>
#include <termgate/testkit/leader.hpp>
#include <termgate/testkit/lease_clock.hpp>

using namespace termgate;
using namespace termgate::testkit;
using namespace std::chrono_literals;

// The service under test: leads a scope and books.
struct Billing {
  Database db;
  LeaseOptions as;

  void book(const Lease& lease, int amount) {
    db.write(lease.scope(), lease.term(), [&](Transaction& tx) {
      tx.exec("UPDATE accounts SET balance = balance - $1 WHERE id = $2", amount, 42);
    });
  }
  // What the test adds to it are names of the moments that matter.
  void run(Points& at) {
    const Lease lease = db.acquire_lease(Scope{"billing"}, 10s, as);
    at("leads");
    book(lease, 1);
    at("has booked");
    book(lease, 1);
  }
};

TEST_CASE("billing survives a stale leader") {
  const auto database = ThrowAwayDatabase::from_environment();
  database.open().write(Scope{"setup"}, Term{1}, [](Transaction& tx) {
    tx.exec("CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL)");
    tx.exec("INSERT INTO accounts VALUES (42, 100)");
  });
  LeaseClock clock(database.open());

  Billing first{database.open(), {.owner = "first"}}, second{database.open(), {.owner = "second"}};
  Leader stale([&](Points& at) { first.run(at); });
  stale.pause_at("has booked");
  stale.run_until_paused("has booked");  // 1. It leads, and has written once …

  clock.advance(11s);  // 2. … a long pause: its lease runs out …
  const Lease lease = second.db.acquire_lease(Scope{"billing"}, 10s, second.as);
  second.book(lease, 10);  // 3. … another one takes over and writes …

  stale.resume();  // 4. … it wakes up, and writes under its old term.
  REQUIRE_THROWS_MATCHES(stale.finish(), StaleTerm,
                         StaleTermMatcher("billing", Term{1}, lease.term()));

  const auto balance =
      second.db.query("SELECT balance FROM accounts WHERE id = $1", {42}).one()[0].as_int();
  REQUIRE(balance == 100 - 1 - 10);
  REQUIRE(Operator(second.db).verify().empty());
}
// [/example]

// The hardest moment: between the check and COMMIT. On PostgreSQL the takeover ends the session of
// a leader that is frozen there; on SQLite it has to wait for the file, and so this test would.
TEST_CASE("billing survives a leader that is frozen inside its transaction") {
  const auto database = ThrowAwayDatabase::from_environment();
  if (database.url().starts_with("sqlite:")) return;
  database.open().write(Scope{"setup"}, Term{1},
                        [](Transaction& tx) { tx.exec("CREATE TABLE booked (term bigint)"); });
  LeaseClock clock(database.open());
  Database first = database.open(), second = database.open();
  Leader stale([&](Points& at) {
    const Lease lease = first.acquire_lease(Scope{"billing"}, 10s, {.owner = "first"});
    first.write(lease.scope(), lease.term(), [&](Transaction& tx) {
      tx.exec("INSERT INTO booked VALUES ($1)", lease.term().value());
      at("before COMMIT");
    });
  });
  stale.pause_at("before COMMIT");
  stale.run_until_paused("before COMMIT");
  clock.advance(11s);
  const Lease lease =
      second.acquire_lease(Scope{"billing"}, 10s, {.owner = "second", .grace = 200ms});
  stale.resume();
  REQUIRE_THROWS_AS(stale.finish(), Error);
  REQUIRE(second.query("SELECT count(*) FROM booked").one()[0].as_int() == 0);
  REQUIRE(lease.term() > Term{1});
}
