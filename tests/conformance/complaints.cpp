// What people complain about in lock and leader libraries, a case each, on every backend.
//
//   complaint                                             case
//   tokens restart after a release                        "a term never restarts"
//   anybody's renewal revives a lock                      "a renewal needs owner and term"
//   the same owner again gets the same token              "re-entry is a new term"
//   a challenger's clock decides about the end            "the database's clock decides"; live/leases/inside.py
//   the holder is not told of a loss                      handles.cpp: "a forced release is told to the holder with its next renewal"
//   a lost lock comes back to life                        "a lost lease is not renewed back to life"
//   the token proves nothing to the database              "the old holder's write is refused before the new one's first"
//   a waiter cannot be cancelled                          handles.cpp: "a stop token ends the wait"
//   a child outlives its lock                             live/leases/run_test.py, test_nothing_outlives_its_lease
//   a job that died is shown as running for ever          live/leases/run_test.py, test_job_by_hand
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <thread>

#include <termgate/database.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using conformance::shared;
using conformance::unique;

namespace {

Lease take(const Scope& scope, const std::string& owner, std::chrono::milliseconds ttl = 10s) {
  LeaseOptions options;
  options.owner = owner;
  return shared().acquire_lease(scope, ttl, options);
}

}  // namespace

TEST_CASE("complaint: a term never restarts", "[F3][complaint][conformance]") {
  const Scope scope(unique("restart"));
  std::int64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const Lease lease = take(scope, "holder " + std::to_string(i));
    CHECK(lease.term().value() == last + 1);
    last = lease.term().value();
    REQUIRE(shared().release_lease(lease));
  }
}

TEST_CASE("complaint: a renewal needs owner and term", "[complaint][conformance]") {
  const Scope scope(unique("renewal"));
  const Lease lease = take(scope, "holder");
  CHECK_THROWS_AS(shared().renew_lease(scope, lease.term(), "another", 10s), LeaseLost);
  const Lease again = take(scope, "holder");
  CHECK_THROWS_AS(shared().renew_lease(scope, lease.term(), "holder", 10s), LeaseLost);
  CHECK_FALSE(shared().release_lease(scope, lease.term(), "holder"));
  CHECK_NOTHROW(shared().renew_lease(scope, again.term(), "holder", 10s));
}

TEST_CASE("complaint: re-entry is a new term and shuts the ghost of the same name out",
          "[F2][complaint][conformance]") {
  const Scope scope(unique("again"));
  const Lease ghost = take(scope, "host-1");
  const Lease restarted = take(scope, "host-1");
  CHECK(restarted.term().value() == ghost.term().value() + 1);
  CHECK_THROWS_AS(shared().write(scope, ghost.term(), [](Transaction&) {}), StaleTerm);
}

TEST_CASE("complaint: the database's clock decides whether a lease is over",
          "[complaint][conformance]") {
  const Scope scope(unique("clock"));
  const Lease lease = take(scope, "holder", 600ms);
  const auto begun = std::chrono::steady_clock::now();
  LeaseOptions options;
  options.owner = "challenger";
  while (!shared().try_acquire_lease(scope, 10s, options)) {
    REQUIRE(std::chrono::steady_clock::now() - begun < 10s);
    std::this_thread::sleep_for(5ms);
  }
  // The challenger says nothing of the time, so its clock cannot shorten the wait.
  CHECK(std::chrono::steady_clock::now() - begun >= 500ms);
}

TEST_CASE("complaint: a lost lease is not renewed back to life", "[complaint][conformance]") {
  const Scope scope(unique("dead"));
  const Lease lease = take(scope, "holder", 100ms);
  std::this_thread::sleep_for(150ms);
  CHECK_THROWS_AS(shared().renew_lease(scope, lease.term(), "holder", 10s), LeaseLost);
}

TEST_CASE("complaint: the old holder's write is refused before the new one's first",
          "[F2][complaint][conformance]") {
  const Scope scope(unique("window"));
  const Lease before = take(scope, "before", 100ms);
  std::this_thread::sleep_for(150ms);
  take(scope, "after");
  CHECK_THROWS_AS(shared().write(scope, before.term(), [](Transaction&) {}), StaleTerm);
}
