// Refusals reach the audit at most once a second a scope, and none of them is lost on the way.
#include <catch2/catch.hpp>

#include <termgate/detail/refusal_log.hpp>

using termgate::detail::RefusalLog;

TEST_CASE("refusal log: the first is due at once and the next ones a second later", "[fencing]") {
  RefusalLog log;
  const auto first = log.note("a", 3, 10'000);
  REQUIRE(first);
  CHECK(first->count == 1);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(log.note("a", 3, 10'100 + i));
  CHECK(log.note("b", 1, 10'200));
  const auto later = log.note("a", 4, 11'000);
  REQUIRE(later);
  CHECK(later->count == 6);
  CHECK(later->term == 4);
  CHECK(later->first_ms == 10'100);
  CHECK(later->last_ms == 11'000);
  CHECK(log.take_all().empty());
}

TEST_CASE("refusal log: what the database did not want yet goes with the next report",
          "[fencing]") {
  RefusalLog log;
  const auto first = log.note("a", 3, 10'000);
  log.put_back(*first);
  CHECK_FALSE(log.note("a", 3, 10'500));
  const auto rest = log.take_all();
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].count == 2);
  CHECK(rest[0].first_ms == 10'000);
}

TEST_CASE("refusal log: a clock that steps back does not silence it", "[fencing]") {
  RefusalLog log;
  CHECK(log.note("a", 3, 50'000));
  CHECK(log.note("a", 3, 10'000));
}
