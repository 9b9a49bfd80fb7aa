// HeldLease as every backend must keep it: renewed in the background, lost when it is lost, given
// back by its destructor, waited for, and many of them in one statement.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/jobs.hpp>
#include <termgate/leader_loop.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using conformance::requested_within;
using conformance::shared;
using conformance::unique;

TEST_CASE("hold: a lease outlives its TTL by renewal and ends with its handle",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("hold"));
  std::int64_t term = 0;
  std::stop_token lost;
  {
    HeldLease held = db.hold(scope, {.ttl = 1s});
    term = held.term().value();
    lost = held.lost();
    CHECK(held.still_held());
    CHECK(held.scope() == scope);
    std::this_thread::sleep_for(1200ms);
    CHECK(held.still_held());
    CHECK_FALSE(lost.stop_requested());
    const auto info = Info(db).lease(scope);
    REQUIRE(info);
    CHECK(info->term == term);
    CHECK(info->owner == held.owner());
    CHECK(info->remaining_ms > 0);
    CHECK(info->renewed_at_ms > info->acquired_at_ms);
    CHECK_FALSE(db.try_hold(scope, {.ttl = 1s}));
    db.write(scope, held.term(), [](Transaction&) {});
  }
  CHECK(lost.stop_requested());
  CHECK(Info(db).lease(scope)->released_at_ms);
  // A token never restarts, and the old term is shut out.
  HeldLease next = db.hold(scope, {.ttl = 1s, .wait = 0ms});
  CHECK(next.term().value() == term + 1);
  CHECK_THROWS_AS(db.write(scope, Term(term), [](Transaction&) {}), StaleTerm);
}

TEST_CASE("hold: a callback of lost may release the handle that is being released",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("hold"));
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

TEST_CASE("hold: a forced release is told to the holder with its next renewal",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("forced"));
  HeldLease held = db.hold(scope, {.ttl = 1s});
  REQUIRE(Operator(db).force_release(scope, "test", "to see that its holder hears of it"));
  CHECK(requested_within(held.lost(), 900ms));
  CHECK_FALSE(held.still_held());
  CHECK_FALSE(held.release());
}

TEST_CASE("hold: another's lease is waited for; in vain it is Blocked; a stop token ends the wait",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("wait"));
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

TEST_CASE("hold: many leases share renewals and none is lost", "[handles][conformance]") {
  auto& db = shared();
  std::vector<HeldLease> held;
  for (int i = 0; i < 40; ++i) held.push_back(db.hold(Scope(unique("many")), {.ttl = 1500ms}));
  std::this_thread::sleep_for(1800ms);
  for (const HeldLease& lease : held) CHECK(lease.still_held());
}

TEST_CASE("hold: options out of their ranges are refused, and nothing is held",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("bad"));
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

TEST_CASE("hold: hostile names of scope and owner are renewed like others",
          "[handles][conformance]") {
  auto& db = shared();
  std::vector<HeldLease> held;
  for (const char* name :
       {"\"}],", "\\", "a\tb", "'; DROP TABLE leases; --", "ünïcødé 🔒", "{\"scope\":1}"}) {
    const std::string whole = unique(name);
    try {
      held.push_back(db.hold(Scope(whole), {.ttl = 1s, .owner = whole + " owner"}));
    } catch (const InvalidInput&) {
      continue;  // a name that no scope may have
    }
  }
  REQUIRE(held.size() >= 4);
  std::this_thread::sleep_for(1200ms);
  for (const HeldLease& lease : held) {
    CAPTURE(lease.scope().name());
    CHECK(lease.still_held());
  }
}

TEST_CASE("hold: two threads that want one scope are never inside together",
          "[F2][handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("turns"));
  std::atomic<int> inside{0}, most{0}, turns{0};
  const auto take_turns = [&] {
    for (int i = 0; i < 5; ++i) {
      const HeldLease held = db.hold(scope, {.ttl = 5s});
      most = std::max<int>(most, ++inside);
      std::this_thread::sleep_for(2ms);
      --inside;
      ++turns;
    }
  };
  std::thread others[] = {std::thread(take_turns), std::thread(take_turns),
                          std::thread(take_turns)};
  for (std::thread& other : others) other.join();
  CHECK(most == 1);
  CHECK(turns == 15);
}

TEST_CASE("LeaderLoop: a tick beside the work runs only for the leader and under its term",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("ticks"));
  LeaderOptions options;
  options.ttl = 2s;
  LeaderLoop leader(
      db, scope, [](const Leadership& leads) { requested_within(leads.stop_token(), 1h); },
      options);
  const auto end = BootClock::now() + 5s;
  while (!leader.leadership() && BootClock::now() < end) std::this_thread::sleep_for(5ms);
  LeaderLoop standby(
      db, scope, [](const Leadership&) {}, options);
  int ticks = 0;
  CHECK(leader.run_if_leader([&](const Leadership& leads) {
    db.write(leads.scope(), leads.term(), [](Transaction&) {});
    ++ticks;
  }));
  CHECK_FALSE(standby.run_if_leader([&](const Leadership&) { ++ticks; }));
  CHECK(ticks == 1);
  leader.stop();
  CHECK_FALSE(leader.leadership());
}

TEST_CASE("stats: what a process does with leases is counted and told as Prometheus text",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("counted"));
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
  LeaderOptions options;
  options.ttl = 2s;
  LeaderLoop loop(
      db, Scope(unique("counted \"leader\"")),
      [](const Leadership& leads) { requested_within(leads.stop_token(), 1h); }, options);
  const auto end = BootClock::now() + 5s;
  while (!loop.leads() && BootClock::now() < end) std::this_thread::sleep_for(5ms);
  const std::string text =
      metrics_text(Info(db).stats(), {loop.stats()}, {{"projection", true, 3, 4, 0}});
  for (const char* line : {"termgate_lease_calls_total{call=\"renew\",result=\"granted\"}",
                           "termgate_lease_call_seconds_bucket{call=\"acquire\",le=\"+Inf\"}",
                           "\\\"leader\\\"", "termgate_follower_lag{follower=\"projection\"} 3"})
    CHECK(text.find(line) != std::string::npos);
  // Two loops of one scope, or two followers of one name, are one series each: Prometheus refuses a
  // text with one twice.
  const std::string twice = metrics_text(Info(db).stats(), {loop.stats(), loop.stats()},
                                         {{.name = "same"}, {.name = "same"}});
  std::set<std::string> series;
  for (std::size_t at = 0; at < twice.size();) {
    const std::string line = twice.substr(at, twice.find('\n', at) - at);
    at += line.size() + 1;
    if (!line.starts_with("#")) CHECK(series.insert(line.substr(0, line.rfind(' '))).second);
  }
  CHECK(twice.find("\"} 2\n") != std::string::npos);  // elected, by both of them
  CHECK(loop.stats().elected == 1);
  loop.stop();
  CHECK(loop.stats().stopped == 1);
  CHECK_FALSE(loop.stats().term);
}

TEST_CASE("job_heartbeat: one call beats and renews until the run or its lease is over",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("beat"));
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

TEST_CASE("write: with lease_owner a late holder is refused although nobody took over",
          "[handles][conformance]") {
  auto& db = shared();
  const Scope scope(unique("in time"));
  const Stream stream(unique("in time"));
  const auto append = [&](Transaction& tx) { tx.append(stream, "x"); };
  WriteOptions held;
  held.lease_owner = "holder";
  const Lease lease = db.acquire_lease(scope, 500ms, {.owner = "holder"});
  CHECK_NOTHROW(db.write(scope, lease.term(), append, held));
  WriteOptions wrong;
  wrong.lease_owner = "another";
  CHECK_THROWS_AS(db.write(scope, lease.term(), append, wrong), LeaseLost);
  // The lease ends while the work runs.
  CHECK_THROWS_AS(db.write(
                      scope, lease.term(),
                      [&](Transaction& tx) {
                        append(tx);
                        std::this_thread::sleep_for(600ms);
                      },
                      held),
                  LeaseLost);
  CHECK_THROWS_AS(db.write(scope, lease.term(), append, held), LeaseLost);
  CHECK(Info(db).stream(stream)->last_no == 1);
  // Without the option its term is still the highest.
  CHECK_NOTHROW(db.write(scope, lease.term(), append));
  // A given-back lease is no lease.
  const Lease again = db.acquire_lease(scope, 10s, {.owner = "holder"});
  CHECK_THROWS_AS(db.write(scope, lease.term(), append, held), StaleTerm);
  REQUIRE(db.release_lease(again));
  CHECK_THROWS_AS(db.write(scope, again.term(), append, held), LeaseLost);
  CHECK(Info(db).stream(stream)->last_no == 2);
}
