// Planned hand-over on every backend: the holder is asked, drains, leaves; its successor alone may
// take the lease; the receipt says what came of it. Who does not leave is renewed no more.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/leader_loop.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;
using conformance::requested_within;
using conformance::shared;
using conformance::unique;

namespace {

HandOverInfo receipt_of(const Scope& scope) {
  const auto found = Info(shared()).hand_overs(scope);
  REQUIRE(found.size() == 1);
  return found.front();
}

std::optional<Lease> taken_by(const std::string& owner, const Scope& scope) {
  return shared().try_acquire_lease(scope, 10s, {.owner = owner});
}

}  // namespace

TEST_CASE("hand-over: the holder is asked and keeps its lease until it leaves",
          "[handover][conformance]") {
  auto& db = shared();
  const Scope scope(unique("asked"));
  HeldLease held = db.hold(scope, {.ttl = 6s, .owner = "old:1"});
  CHECK_FALSE(held.leave_before());
  REQUIRE(Operator(db).request_hand_over(
      scope, {.to = "new:*", .drain = 20s, .actor = "ops", .reason = "a deploy"}));
  // Its own Database has asked, so that it need not wait for its next renewal.
  REQUIRE(requested_within(held.asked_to_leave(), 1500ms));
  CHECK(*held.leave_before() > HeldLease::Clock::now() + 10s);
  CHECK(held.still_held());
  db.write(scope, held.term(), [](Transaction&) {});
  const HandOverInfo asked = receipt_of(scope);
  CHECK(asked.state == "asked");
  CHECK(asked.in_progress());
  CHECK(asked.owner == "old:1");
  CHECK(asked.to == "new:*");
  CHECK(asked.requested_by == "ops");
  CHECK(asked.reason == "a deploy");
  CHECK_FALSE(asked.left_at_ms);
  CHECK_FALSE(taken_by("new:2", scope));
  REQUIRE(held.release());
  CHECK(receipt_of(scope).state == "left");
  // Neither who left, nor anybody who is not named: names are compared whole, and with their
  // letters.
  for (const char* other : {"old:1", "another:1", "new", "NEW:2", "a new:2"})
    CHECK_FALSE(taken_by(other, scope));
  const auto next = taken_by("new:2", scope);
  REQUIRE(next);
  CHECK(next->term().value() == held.term().value() + 1);
  const HandOverInfo receipt = receipt_of(scope);
  CHECK(receipt.state == "taken");
  CHECK_FALSE(receipt.in_progress());
  CHECK(receipt.term == held.term().value());
  CHECK(receipt.next_owner == "new:2");
  CHECK(receipt.next_term == next->term().value());
  REQUIRE(receipt.left_at_ms);
  REQUIRE(receipt.gap_ms);
  CHECK(std::abs(*receipt.gap_ms - (*receipt.taken_at_ms - *receipt.left_at_ms)) <= 1);
  CHECK_THROWS_AS(db.write(scope, held.term(), [](Transaction&) {}), StaleTerm);
  const auto entries = Operator(db).audit({.scope = scope.name()});
  for (const char* action : {"request_hand_over", "hand_over"})
    CHECK(std::count_if(entries.begin(), entries.end(), [&](const AuditEntry& one) {
            return one.action == action && one.actor == "ops";
          }) == 1);
  // It was about that term alone.
  REQUIRE(db.release_lease(scope, next->term(), "new:2"));
  CHECK(taken_by("another:1", scope));
}

TEST_CASE("hand-over: without a name anybody may follow but who leaves",
          "[handover][conformance]") {
  auto& db = shared();
  const Scope scope(unique("anybody"));
  Lease first = *taken_by("one", scope);
  REQUIRE(Operator(db).request_hand_over(scope));
  db.renew_lease(first);
  REQUIRE(first.leave_before());
  // Not even its own lease again, under a new term, which would be no hand-over.
  CHECK_FALSE(taken_by("one", scope));
  REQUIRE(db.release_lease(first));
  CHECK_FALSE(taken_by("one", scope));
  CHECK(taken_by("two", scope));
}

TEST_CASE("hand-over: who has not left when the drain is over is renewed no more",
          "[handover][conformance]") {
  auto& db = shared();
  const Scope scope(unique("refuses"));
  HeldLease held = db.hold(scope, {.ttl = 1s, .owner = "one"});
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "two", .drain = 300ms}));
  CHECK(requested_within(held.lost(), 1500ms));
  // It learns of that before another can have the lease.
  CHECK_FALSE(taken_by("two", scope));
  CHECK_FALSE(held.still_held());
  CHECK(receipt_of(scope).state == "over");
  LeaseOptions next;
  next.owner = "three";  // after the drain it is as after a crash
  next.wait = 5s;
  const Lease taken = db.acquire_lease(scope, 10s, next);
  CHECK(taken.term().value() == held.term().value() + 1);
  const HandOverInfo receipt = receipt_of(scope);
  CHECK(receipt.state == "taken");
  CHECK_FALSE(receipt.left_at_ms);
  CHECK(receipt.next_owner == "three");
}

TEST_CASE(
    "hand-over: a successor that does not come leaves the lease to others when the drain is over",
    "[handover][conformance]") {
  auto& db = shared();
  const Scope scope(unique("nobody"));
  const Lease first = *taken_by("one", scope);
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "two", .drain = 400ms}));
  REQUIRE(db.release_lease(first));
  CHECK_FALSE(taken_by("three", scope));
  std::this_thread::sleep_for(450ms);
  CHECK(receipt_of(scope).state == "over");
  CHECK(taken_by("three", scope));
}

TEST_CASE("hand-over: what cannot be asked for", "[handover][conformance]") {
  auto& db = shared();
  const Scope scope(unique("never"));
  CHECK_FALSE(Operator(db).request_hand_over(scope));
  const Lease lease = *taken_by("one", scope);
  CHECK_THROWS_AS(Operator(db).request_hand_over(scope, {.to = "one"}), InvalidInput);
  CHECK_THROWS_AS(Operator(db).request_hand_over(scope, {.drain = 99ms}), InvalidInput);
  CHECK_THROWS_AS(Operator(db).request_hand_over(scope, {.drain = 25h}), InvalidInput);
  CHECK_THROWS_AS(Operator(db).request_hand_over(scope, {.to = std::string(201, 'x')}),
                  InvalidInput);
  CHECK_THROWS_AS(Operator(db).request_hand_over(scope, {.reason = " "}), InvalidInput);
  CHECK(Info(shared()).hand_overs(scope).empty());
  REQUIRE(db.release_lease(lease));
  CHECK_FALSE(Operator(db).request_hand_over(scope));
  CHECK(Info(shared()).hand_overs(scope).empty());
}

TEST_CASE("hand-over: a later request takes the place of the first", "[handover][conformance]") {
  auto& db = shared();
  const Scope scope(unique("again"));
  const Lease lease = *taken_by("one", scope);
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "two", .drain = 20s}));
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "three'\"\\*", .drain = 20s}));
  REQUIRE(db.release_lease(lease));
  CHECK_FALSE(taken_by("two", scope));
  CHECK(taken_by("three'\"\\ and more", scope));
}

TEST_CASE("hand-over: a leader loop ends its work in order and another leads",
          "[handover][leader][conformance]") {
  auto& db = shared();
  const Scope scope(unique("loop"));
  std::mutex mutex;
  std::vector<LeaderNews::Kind> news;
  std::atomic<bool> leading{false}, stopping{false}, led_on{true}, second_leads{false};
  LeaderOptions options;
  options.ttl = 1s;
  options.poll = 50ms;
  options.news = [&](const LeaderNews& one) {
    const std::lock_guard lock(mutex);
    news.push_back(one.kind);
  };
  LeaderLoop first(
      db, scope,
      [&](const Leadership& leads) {
        leading = true;
        while (!leads.stop_requested()) std::this_thread::sleep_for(5ms);
        stopping = true;
        // Longer than its TTL: it leads on, renewed, while it finishes.
        for (int i = 0; i < 30; ++i) {
          std::this_thread::sleep_for(50ms);
          if (!leads.still_held() || second_leads) led_on = false;
        }
        db.write(scope, leads.term(), [](Transaction&) {});
      },
      options);
  const auto until = [](const std::atomic<bool>& flag) {
    for (int i = 0; i < 1000 && !flag; ++i) std::this_thread::sleep_for(10ms);
    return flag.load();
  };
  REQUIRE(until(leading));
  LeaderOptions others = options;
  others.news = {};
  LeaderLoop second(
      db, scope,
      [&](const Leadership& leads) {
        second_leads = true;
        while (!leads.stop_requested()) std::this_thread::sleep_for(5ms);
      },
      others);
  REQUIRE(Operator(db).request_hand_over(scope, {.drain = 20s}));
  REQUIRE(until(stopping));
  REQUIRE(until(second_leads));
  CHECK(led_on);
  const HandOverInfo receipt = receipt_of(scope);
  CHECK(receipt.state == "taken");
  CHECK(receipt.owner == first.owner());
  CHECK(receipt.next_owner == second.owner());
  CHECK(receipt.left_at_ms);
  std::this_thread::sleep_for(300ms);
  CHECK_FALSE(first.leads());
  const std::lock_guard lock(mutex);
  using Kind = LeaderNews::Kind;
  CHECK(news == std::vector{Kind::elected, Kind::asked_to_leave, Kind::handed_over});
  CHECK(first.stats().handed_over == 1);
}

TEST_CASE("require_lease: COMMIT fails where the lease has ended and nobody took over",
          "[lease][conformance]") {
  auto& db = shared();
  const Scope scope(unique("deadline"));
  const Lease lease = *db.try_acquire_lease(scope, 600ms, {.owner = "me"});
  const Stream stream(unique("deadline"));
  const auto written = [&] { return Info(db).read_stream(stream, SequenceNo(0)).size(); };
  const auto write = [&](std::chrono::milliseconds work, const std::string& owner) {
    db.write(scope, lease.term(), [&](Transaction& tx) {
      tx.append(stream, "x");
      std::this_thread::sleep_for(work);
      tx.require_lease(owner);
    });
  };
  write(0ms, "me");
  CHECK(written() == 1);
  CHECK_THROWS_AS(write(0ms, "another"), LeaseLost);
  // The look at COMMIT, not at the call. SQL Server has none.
  if (db.kind() != "sqlserver") {
    try {
      db.write(scope, lease.term(), [&](Transaction& tx) {
        tx.append(stream, "x");
        tx.require_lease("me");
        std::this_thread::sleep_for(700ms);
      });
      FAIL("it was committed after the end of its lease");
    } catch (const LeaseLost& lost) {
      CHECK(lost.code() == "TG007");
      CHECK_THAT(lost.what(), StartsWith("TG007 the lease of scope"));
    }
    CHECK(written() == 1);
  }
  std::this_thread::sleep_for(700ms);
  CHECK_THROWS_AS(write(0ms, "me"), LeaseLost);
  // Without it the term, which is still the highest, is enough; and what one write required is
  // nothing to the next.
  db.write(scope, lease.term(), [&](Transaction& tx) { tx.append(stream, "x"); });
  CHECK(written() == 2);
}
