// Planned hand-over on every backend: the holder is asked, drains, leaves; its successor alone may
// take the lease; the receipt says what came of it. Who does not leave is renewed no more.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;
using conformance::Fresh;
using conformance::requested_within;
using conformance::shared;

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

TEST_CASE_METHOD(Fresh, "hand-over: the holder is asked and keeps its lease until it leaves",
                 "[handover][conformance]") {
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

TEST_CASE_METHOD(Fresh, "hand-over: without a name anybody may follow but who leaves",
                 "[handover][conformance]") {
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

TEST_CASE_METHOD(Fresh, "hand-over: who has not left when the drain is over is renewed no more",
                 "[handover][conformance]") {
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

TEST_CASE_METHOD(
    Fresh,
    "hand-over: a successor that does not come leaves the lease to others when the drain is over",
    "[handover][conformance]") {
  const Lease first = *taken_by("one", scope);
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "two", .drain = 400ms}));
  REQUIRE(db.release_lease(first));
  CHECK_FALSE(taken_by("three", scope));
  std::this_thread::sleep_for(450ms);
  CHECK(receipt_of(scope).state == "over");
  CHECK(taken_by("three", scope));
}

TEST_CASE_METHOD(Fresh, "hand-over: what cannot be asked for", "[handover][conformance]") {
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

TEST_CASE_METHOD(Fresh, "hand-over: a later request takes the place of the first",
                 "[handover][conformance]") {
  const Lease lease = *taken_by("one", scope);
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "two", .drain = 20s}));
  REQUIRE(Operator(db).request_hand_over(scope, {.to = "three'\"\\*", .drain = 20s}));
  REQUIRE(db.release_lease(lease));
  CHECK_FALSE(taken_by("two", scope));
  CHECK(taken_by("three'\"\\ and more", scope));
}

// Layer 1 looks at COMMIT (not on SQL Server), the library with lease_owner when the work has
// ended.
TEST_CASE_METHOD(Fresh,
                 "require_lease: a write whose lease has ended fails although nobody took over",
                 "[lease][conformance]") {
  Term term(1);
  const auto acquire = [&] { term = db.acquire_lease(scope, 500ms, {.owner = "me"}).term(); };
  const auto required = [&](std::chrono::milliseconds work, const std::string& owner = "me") {
    db.write(scope, term, [&](Transaction& tx) {
      tx.append(stream, "x");
      tx.require_lease(owner);
      std::this_thread::sleep_for(work);
    });
  };
  const auto owned = [&](std::chrono::milliseconds work, const std::string& owner = "me") {
    const auto append = [&](Transaction& tx) {
      tx.append(stream, "x");
      std::this_thread::sleep_for(work);
    };
    db.write(scope, term, append, {.lease_owner = owner});
  };
  const auto written = [&] { return Info(db).read_stream(stream, SequenceNo(0)).size(); };
  acquire();
  required(0ms);
  owned(0ms);
  CHECK_THROWS_AS(required(0ms, "another"), LeaseLost);
  CHECK_THROWS_AS(owned(0ms, "another"), LeaseLost);
  CHECK_THROWS_AS(owned(600ms), LeaseLost);
  CHECK_THROWS_AS(required(0ms), LeaseLost);
  CHECK_THROWS_AS(owned(0ms), LeaseLost);
  if (db.kind() != "sqlserver") {
    acquire();
    try {
      required(600ms);
      FAIL("it was committed after the end of its lease");
    } catch (const LeaseLost& lost) {
      CHECK(lost.code() == "TG007");
      CHECK_THAT(lost.what(), StartsWith("TG007 the lease of scope"));
    }
  }
  CHECK(written() == 2);
  // Without it the term, which is still the highest, is enough; and what one write required is
  // nothing to the next.
  db.write(scope, term, [&](Transaction& tx) { tx.append(stream, "x"); });
  CHECK(written() == 3);
  // One that was given back is none.
  acquire();
  REQUIRE(db.release_lease(scope, term, "me"));
  CHECK_THROWS_AS(owned(0ms), LeaseLost);
  CHECK_THROWS_AS(required(0ms), LeaseLost);
}
