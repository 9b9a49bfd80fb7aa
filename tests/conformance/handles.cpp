// HeldLease as every backend must keep it: renewed in the background, lost when it is lost, given
// back by its destructor, waited for, and many of them in one statement.
#include <catch2/catch.hpp>

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/jobs.hpp>
#include <termgate/operator.hpp>
#include <termgate/stats.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using conformance::Fresh;
using conformance::requested_within;
using conformance::shared;
using conformance::unique;

TEST_CASE_METHOD(Fresh, "hold: a callback of lost may release the handle that is being released",
                 "[handles][conformance]") {
  HeldLease held = db.hold(scope, {.ttl = 10s});
  int calls = 0;
  bool again = true, still = true;
  const std::stop_callback callback(held.lost(), [&] {
    ++calls;
    still = held.still_held();
    again = held.release();
  });
  CHECK(held.release());
  CHECK(calls == 1);
  CHECK_FALSE(still);
  CHECK_FALSE(again);
  CHECK(Info(db).lease(scope)->released_at_ms);
}

TEST_CASE_METHOD(Fresh, "hold: a forced release is told to the holder with its next renewal",
                 "[handles][conformance]") {
  HeldLease held = db.hold(scope, {.ttl = 1s});
  REQUIRE(Operator(db).force_release(scope, "test", "to see that its holder hears of it"));
  CHECK(requested_within(held.lost(), 900ms));
  CHECK_FALSE(held.still_held());
  CHECK_FALSE(held.release());
}

TEST_CASE_METHOD(
    Fresh, "hold: another's lease is waited for; in vain it is Blocked; a stop token ends the wait",
    "[handles][conformance]") {
  auto first = std::make_optional(db.hold(scope, {.ttl = 2s}));
  CHECK_THROWS_AS(db.hold(scope, {.ttl = 2s, .wait = 50ms}), Blocked);
  {
    std::stop_source stop;
    const std::jthread stopper([&] {
      std::this_thread::sleep_for(100ms);
      stop.request_stop();
    });
    const auto begun = BootClock::now();
    CHECK_THROWS_AS(db.hold(scope, {.ttl = 2s, .wait = 10s, .stop = stop.get_token()}), Cancelled);
    CHECK(BootClock::now() - begun < 2s);
    LeaseOptions options;
    options.owner = "another";
    options.stop = stop.get_token();
    CHECK_THROWS_AS(db.acquire_lease(scope, 1s, options), Cancelled);
  }
  // A release is heard of: the lease would stand for another two seconds.
  std::optional<HeldLease> second;
  BootClock::time_point released, had;
  std::jthread waiter([&] {
    second = db.hold(scope, {.ttl = 2s, .wait = 10s});
    had = BootClock::now();
  });
  std::this_thread::sleep_for(300ms);
  const std::int64_t term = first->term().value();
  released = BootClock::now();
  first.reset();
  waiter.join();
  REQUIRE(second);
  CHECK(second->term().value() == term + 1);
  CHECK(had - released < 1s);
}

TEST_CASE("hold: many leases outlive their TTL by shared renewals and end with their handles",
          "[handles][conformance]") {
  auto& db = shared();
  const char* const names[] = {"many",      "\"}],",        "\\", "'; DROP TABLE leases; --",
                               "ünïcødé 🔒", "{\"scope\":1}"};
  std::vector<HeldLease> held;
  for (int i = 0; i < 40; ++i) {
    const std::string name = unique(names[i % 6]);
    held.push_back(db.hold(Scope(name), {.ttl = 1500ms, .owner = name + " owner"}));
  }
  std::this_thread::sleep_for(1800ms);
  for (const HeldLease& lease : held) {
    CAPTURE(lease.scope().name());
    CHECK(lease.still_held());
    CHECK_FALSE(lease.lost().stop_requested());
  }
  const Scope scope = held[0].scope();
  const Term term = held[0].term();
  const std::stop_token lost = held[0].lost();
  const auto info = Info(db).lease(scope);
  REQUIRE(info);
  CHECK(info->term == term.value());
  CHECK(info->owner == held[0].owner());
  CHECK(info->remaining_ms > 0);
  CHECK(info->renewed_at_ms > info->acquired_at_ms);
  CHECK_FALSE(db.try_hold(scope, {.ttl = 1s}));
  db.write(scope, term, [](Transaction&) {});
  held.clear();
  CHECK(lost.stop_requested());
  CHECK(Info(db).lease(scope)->released_at_ms);
  // A token never restarts, and the old term is shut out.
  HeldLease next = db.hold(scope, {.ttl = 1s, .wait = 0ms});
  CHECK(next.term().value() == term.value() + 1);
  CHECK_THROWS_AS(db.write(scope, term, [](Transaction&) {}), StaleTerm);
}

TEST_CASE_METHOD(Fresh, "hold: options out of their ranges are refused, and nothing is held",
                 "[handles][conformance]") {
  const HoldOptions bad[] = {{.ttl = 0ms},
                             {.ttl = -1s},
                             {.ttl = 99ms},
                             {.ttl = std::chrono::hours(24 * 365)},
                             {.ttl = 1s, .wait = -1ms},
                             {.ttl = 1s, .renew_every = 0ms},
                             {.ttl = 1s, .renew_every = 900ms},
                             {.ttl = 1s, .margin = 600ms},
                             {.ttl = 1s, .margin = -1ms},
                             {.ttl = 1s, .poll = HoldOptions::Poll{0ms, 1s}},
                             {.ttl = 1s, .poll = HoldOptions::Poll{1s, 1ms}},
                             {.ttl = 1s, .owner = std::string(300, 'o')},
                             {.ttl = 1s, .owner = std::string("a\0b", 3)}};
  for (const HoldOptions& options : bad) CHECK_THROWS_AS(db.hold(scope, options), Error);
  CHECK_FALSE(Info(db).lease(scope));
}

TEST_CASE_METHOD(Fresh,
                 "stats: what a process does with leases is counted and told as Prometheus text",
                 "[handles][conformance]") {
  const DatabaseStats before = Info(db).stats();
  {
    HeldLease held = db.hold(scope, {.ttl = 1s});
    CHECK(Info(db).stats().held == before.held + 1);
    CHECK_FALSE(db.try_hold(scope, {.ttl = 1s}));
    CHECK_THROWS_AS(db.hold(scope, {.ttl = 1s, .wait = 20ms}), Blocked);
    std::this_thread::sleep_for(500ms);
    REQUIRE(Operator(db).force_release(scope, "test", "to count it"));
    CHECK(requested_within(held.lost(), 900ms));
  }
  CHECK_THROWS_AS(db.write(scope, Term(1), [](Transaction&) {}), StaleTerm);
  const DatabaseStats after = Info(db).stats();
  CHECK(after.held == before.held);
  CHECK(after.lost >= before.lost + 1);
  CHECK(after.acquire.granted == before.acquire.granted + 1);
  CHECK(after.acquire.refused >= before.acquire.refused + 2);
  CHECK(after.renew.granted >= before.renew.granted + 1);
  CHECK(after.renew.refused >= before.renew.refused + 1);
  CHECK(after.waits >= before.waits + 1);
  CHECK(after.waited > before.waited);
  CHECK(after.stale_writes >= before.stale_writes + 1);
  const std::string text = metrics_text(after);
  for (const char* line : {"termgate_lease_calls_total{call=\"renew\",result=\"granted\"}",
                           "termgate_lease_call_seconds_bucket{call=\"acquire\",le=\"+Inf\"}"})
    CHECK(text.find(line) != std::string::npos);
}

TEST_CASE_METHOD(Fresh,
                 "job_heartbeat: one call beats and renews until the run or its lease is over",
                 "[handles][conformance]") {
  Lease lease = db.acquire_lease(scope, 2s, {.owner = "holder"});
  const std::string run = Jobs(db).start("export", scope, lease.term(), "holder");
  const auto before = BootClock::now();
  const auto due = Jobs(db).beat(run, "page 1", 60s);
  REQUIRE(due);
  CHECK(*due >= before + 60s);
  CHECK(*due <= BootClock::now() + 60s);
  CHECK(Info(db).lease(scope)->remaining_ms > 50'000);
  CHECK(Jobs(db).list({.run_id = run}, 1).at(0).checkpoint == "page 1");
  for (const std::chrono::milliseconds ttl : {0ms, -1ms, 90'000'000ms})
    CHECK_THROWS_AS(Jobs(db).beat(run, "bad", ttl), InvalidInput);
  CHECK(Jobs(db).list({.run_id = run}, 1).at(0).checkpoint == "page 1");
  // Cancelled by another: told by the next beat, and nothing is renewed.
  REQUIRE(db.renew_lease(scope, lease.term(), "holder", 5s).term() == lease.term());
  REQUIRE(Jobs(db).finish(run, "cancelled"));
  CHECK_FALSE(Jobs(db).beat(run, "page 2", 60s));
  CHECK(Info(db).lease(scope)->remaining_ms <= 5'000);
  // The lease is over, and nobody has taken it: no heartbeat counts.
  const std::string second = Jobs(db).start("export", scope, lease.term(), "holder");
  REQUIRE(db.release_lease(scope, lease.term(), "holder"));
  CHECK_THROWS_AS(Jobs(db).beat(second, "late", 60s), LeaseLost);
  CHECK_FALSE(Jobs(db).list({.run_id = second}, 1).at(0).checkpoint);
  // Another holds it: the check refuses.
  const Lease next = db.acquire_lease(scope, 10s, {.owner = "another"});
  CHECK_THROWS_AS(Jobs(db).beat(second, "stale", 60s), StaleTerm);
  CHECK(Info(db).lease(scope)->owner == "another");
  REQUIRE(db.release_lease(next));
}
