// Planned hand-over on a real PostgreSQL: the request is heard at once, by NOTIFY; a hundred of
// them between two leader loops leave a gap of milliseconds, with writers at work.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/leader_loop.hpp>
#include <termgate/operator.hpp>

#include "support/pg_session.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using test::PgDatabase;
using test::PgSession;

namespace {

template <class Condition>
bool until(Condition condition, std::chrono::milliseconds within = 20s) {
  for (const auto end = std::chrono::steady_clock::now() + within;
       std::chrono::steady_clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return condition();
}

// A candidate with a Database, and so with sessions, of its own. Its work writes until it is asked
// to stop.
struct Candidate {
  Candidate(const std::string& url, const Scope& scope, std::chrono::milliseconds ttl)
      : db(Database::open(url)) {
    LeaderOptions options;
    options.ttl = ttl;
    loop = std::make_unique<LeaderLoop>(
        db, scope,
        [this](const Leadership& leads) {
          while (!leads.stop_requested()) {
            try {
              db.append(Stream(leads.scope().name()), leads.term(), "x", {.scope = leads.scope()});
              ++writes;
            } catch (const StaleTerm&) {
              ++stale;
              return;
            } catch (const Error&) {}
            std::this_thread::sleep_for(1ms);
          }
        },
        options);
  }
  Database db;
  std::atomic<int> writes{0}, stale{0};
  std::unique_ptr<LeaderLoop> loop;
};

}  // namespace

TEST_CASE("hand-over: a handle hears of the request at once and from another process",
          "[handover][live]") {
  PgDatabase database("hand_over_heard");
  Database holder = Database::open(database.url()), operator_ = Database::open(database.url());
  // A renewal is not due for a quarter of an hour.
  HeldLease held = holder.hold(Scope("s"), {.ttl = 1h});
  std::this_thread::sleep_for(300ms);  // until it listens
  const auto asked = std::chrono::steady_clock::now();
  REQUIRE(Operator(operator_).request_hand_over(Scope("s")));
  CHECK(until([&] { return held.asked_to_leave().stop_requested(); }, 2s));
  CHECK(std::chrono::steady_clock::now() - asked < 1s);
  // Plain SQL's with its notification.
  HeldLease other = holder.hold(Scope("t"), {.ttl = 1h});
  PgSession sql(database.url());
  sql.must("SELECT termgate.request_hand_over('t')");
  std::this_thread::sleep_for(100ms);
  CHECK_FALSE(other.asked_to_leave().stop_requested());
  sql.must("SELECT termgate.notify_raised('t')");
  CHECK(until([&] { return other.asked_to_leave().stop_requested(); }, 2s));
}

TEST_CASE("hand-over: a request waits for the renewal that is at the lease", "[handover][live]") {
  PgDatabase database("hand_over_waits");
  PgSession holder(database.url()), sql(database.url());
  holder.must("SELECT termgate.acquire_lease('s', 'me', '1 hour')");
  holder.must("BEGIN");
  holder.must("SELECT termgate.renew_lease('s', 'me', 1, '1 hour')");
  std::jthread ends([&] {
    std::this_thread::sleep_for(300ms);
    holder.must("COMMIT");
  });
  CHECK(sql.value("SELECT requested FROM termgate.request_hand_over('s')") == "t");
  CHECK(sql.value("SHOW lock_timeout") == "0");
  ends.join();
  // Who stays at it is named, after a second, and nothing was requested.
  holder.must("BEGIN");
  holder.must("SELECT termgate.renew_lease('s', 'me', 1, '1 hour')");
  const auto began = std::chrono::steady_clock::now();
  CHECK(sql.run("SELECT termgate.request_hand_over('s', 'other')").code == "TG006");
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  holder.must("COMMIT");
  CHECK(sql.value("SELECT coalesce(successor, 'nobody') FROM termgate.hand_over_status") ==
        "nobody");
}

TEST_CASE("leader loop: a forced release is heard at once", "[lease][live]") {
  PgDatabase database("forced_release_heard");
  Database operator_ = Database::open(database.url());
  const Scope scope("billing");
  Candidate leader(database.url(), scope, 1h);
  REQUIRE(until([&] { return leader.loop->leads().has_value(); }));
  std::this_thread::sleep_for(300ms);  // until it listens
  const auto began = std::chrono::steady_clock::now();
  REQUIRE(Operator(operator_).force_release(scope, "operator", "test"));
  CHECK(until([&] { return leader.loop->leads() != Term(1); }, 5s));
  // A renewal is due after a third of an hour.
  CHECK(std::chrono::steady_clock::now() - began < 5s);
}

TEST_CASE("hand-over: a hundred of them between two loops that write leave a gap of milliseconds",
          "[handover][live]") {
  PgDatabase database("hand_over_gap");
  Database operator_ = Database::open(database.url());
  const Scope scope("billing");
  Candidate one(database.url(), scope, 10s), other(database.url(), scope, 10s);
  REQUIRE(until([&] { return one.loop->leads() || other.loop->leads(); }));
  std::this_thread::sleep_for(300ms);  // until both listen
  std::vector<std::int64_t> gaps, whole;
  for (int i = 0; i < 100; ++i) {
    Candidate& next = one.loop->leads() ? other : one;
    const int before = next.writes;
    const auto asked = std::chrono::steady_clock::now();
    REQUIRE(Operator(operator_).request_hand_over(scope, {.to = next.loop->owner(), .drain = 20s}));
    REQUIRE(until([&] { return next.loop->leads().has_value(); }));
    whole.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::steady_clock::now() - asked)
                        .count());
    const HandOverInfo receipt = Info(operator_).hand_overs(scope).at(0);
    REQUIRE(receipt.state == "taken");
    REQUIRE(receipt.left_at_ms);
    REQUIRE(receipt.next_owner == next.loop->owner());
    gaps.push_back(*receipt.gap_ms);
    REQUIRE(until([&] { return next.writes > before; }));
  }
  std::sort(gaps.begin(), gaps.end());
  std::sort(whole.begin(), whole.end());
  std::printf(
      "gap without a leader, ms: p50 %lld, p99 %lld, max %lld; from request to the next leader: "
      "p50 %lld, p99 %lld\n",
      static_cast<long long>(gaps[50]), static_cast<long long>(gaps[98]),
      static_cast<long long>(gaps[99]), static_cast<long long>(whole[50]),
      static_cast<long long>(whole[98]));
  // Debug builds on a busy machine.
  CHECK(gaps[50] < 100);
  CHECK(gaps[98] < 1000);
  one.loop->stop();
  other.loop->stop();
  CHECK(one.stale + other.stale == 0);
  CHECK(Operator(operator_).verify().empty());
}

TEST_CASE("lease log: each acquisition, renewal and release with owner, term and time",
          "[lease][live]") {
  PgDatabase database("lease_log");
  std::mutex mutex;
  std::vector<LeaseCall> calls;
  Database db = Database::open(database.url(), {.lease_log = [&](const LeaseCall& call) {
                                 const std::lock_guard lock(mutex);
                                 calls.push_back(call);
                                 throw 1;  // is ignored
                               }});
  const auto seen = [&](LeaseCall::Kind kind, LeaseCall::Result result,
                        std::optional<std::int64_t> term) {
    const std::lock_guard lock(mutex);
    return std::any_of(calls.begin(), calls.end(), [&](const LeaseCall& one) {
      return one.kind == kind && one.result == result && one.term == term &&
             one.scope == "billing" && one.took.count() > 0;
    });
  };
  using Kind = LeaseCall::Kind;
  using Result = LeaseCall::Result;
  {
    const HeldLease held = db.hold(Scope("billing"), {.ttl = 3s, .owner = "me"});
    CHECK(seen(Kind::acquire, Result::granted, 1));
    CHECK(until([&] { return seen(Kind::renew, Result::granted, 1); }));
    CHECK_FALSE(db.try_acquire_lease(Scope("billing"), 1s, {.owner = "another"}));
    CHECK(seen(Kind::acquire, Result::refused, std::nullopt));
  }
  CHECK(until([&] { return seen(Kind::release, Result::granted, 1); }));
  CHECK_THROWS_AS(db.renew_lease(Scope("billing"), Term(1), "me", 1s), LeaseLost);
  CHECK(seen(Kind::renew, Result::refused, 1));
  const std::lock_guard lock(mutex);
  CHECK(
      to_text(calls.front()).starts_with("acquire of \"billing\" by me under term 1: granted in "));
}
