// Throw-away databases, time that passes at once, and the matcher; on SQLite, and on a PostgreSQL
// server where TERMGATE_TEST_POSTGRESQL names one (live_testkit).
#include <filesystem>
#include <optional>

#include <catch2/catch.hpp>

#include <termgate/info.hpp>
#include <termgate/operator.hpp>
#include <termgate/testkit/catch2.hpp>
#include <termgate/testkit/database.hpp>
#include <termgate/testkit/lease_clock.hpp>

using namespace termgate;
using namespace termgate::testkit;
using namespace std::chrono_literals;

TEST_CASE("throw-away database: is there with layer 1 and is gone afterwards", "[testkit]") {
  std::string url;
  {
    auto made = ThrowAwayDatabase::from_environment();
    url = made.url();
    auto other = std::move(made);
    CHECK(other.url() == url);
    CHECK(Operator(other.open()).installed_version() > 0);
    CHECK(other.open().check(Scope("billing"), Term(3)).value() == 3);
    CHECK(Info(other.open()).fence(Scope("billing"))->term == 3);
  }
  if (url.starts_with("sqlite:"))
    CHECK_FALSE(std::filesystem::exists(std::filesystem::path(url.substr(7)).parent_path()));
  else CHECK_THROWS_AS(Operator(Database::open(url)).installed_version(), Error);
}

TEST_CASE("throw-away database: two are two", "[testkit]") {
  const auto one = ThrowAwayDatabase::from_environment(),
             two = ThrowAwayDatabase::from_environment();
  one.open().check(Scope("billing"), Term(3));
  CHECK_FALSE(Info(two.open()).fence(Scope("billing")));
}

TEST_CASE("throw-away database: a server that is none is told", "[testkit]") {
  CHECK_THROWS_AS(ThrowAwayDatabase::postgres("sqlite:x.db"), Error);
  CHECK_THROWS_AS(ThrowAwayDatabase::postgres("postgresql://postgres@127.0.0.1:1/postgres"),
                  Unavailable);
}

TEST_CASE("lease clock: a lease runs out for the database and for its holder alike",
          "[F2][testkit]") {
  const auto made = ThrowAwayDatabase::from_environment();
  Database one = made.open(), two = made.open();
  LeaseClock clock(made.open());
  LeaseOptions first, second;
  first.owner = "first";
  second.owner = "second";
  const Scope scope("billing");
  Lease lease = *one.try_acquire_lease(scope, 1h, first);
  CHECK_FALSE(two.try_acquire_lease(scope, 1h, second));

  clock.advance(59min);
  CHECK(clock.still_held(lease));
  CHECK_FALSE(two.try_acquire_lease(scope, 1h, second));
  one.renew_lease(lease);  // its hour begins again

  clock.advance(59min);
  CHECK(clock.still_held(lease));
  CHECK_FALSE(two.try_acquire_lease(scope, 1h, second));

  clock.advance(2min);
  CHECK_FALSE(clock.still_held(lease));
  CHECK(lease.still_held());
  CHECK_THROWS_AS(one.renew_lease(lease), LeaseLost);
  const auto next = two.try_acquire_lease(scope, 1h, second);
  REQUIRE(next);
  CHECK(next->term() > lease.term());
  CHECK(clock.still_held(*next));
  CHECK_THROWS_AS(clock.advance(-1ms), std::invalid_argument);
}

TEST_CASE("matcher: says which refusal is meant", "[testkit]") {
  const StaleTerm error("TG001 stale term 3 for scope \"billing\": the fence stands at 5",
                        "billing", 3, 5);
  CHECK_THAT(error, StaleTermMatcher("billing", Term(3)));
  CHECK_THAT(error, StaleTermMatcher("billing", Term(3), Term(5)));
  CHECK_THAT(error, !StaleTermMatcher("billing", Term(4)));
  CHECK_THAT(error, !StaleTermMatcher("orders", Term(3)));
  CHECK_THAT(error, !StaleTermMatcher("billing", Term(3), Term(6)));
  CHECK(StaleTermMatcher("billing", Term(3), Term(5)).describe() ==
        "refuses term 3 of scope \"billing\" behind the fence 5");
  CHECK_THROWS_MATCHES(throw error, StaleTerm, StaleTermMatcher("billing", Term(3)));
}
