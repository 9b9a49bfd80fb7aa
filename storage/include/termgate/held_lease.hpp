// HeldLease: a lease as a handle. It is renewed in the background for as long as the object lives, says when it is lost, and is given back
// by the destructor.
//
//   HeldLease held = db.hold(Scope{"billing"}, {.ttl = 10s, .wait = 30s});
//   while (!held.lost().stop_requested()) {
//     db.write(held.scope(), held.term(), [](Transaction& tx) { … });   // StaleTerm: another holds it by now
//   }
//
// One thread keeps the time and one renews, on a connection of its own, for all handles of a Database: thousands of leases share one
// statement and cost little. What the handle says is a careful view (<termgate/lease.hpp>): it ends `margin` before the lease does, and
// also while a call to the database hangs. That a late write does no harm is the fence's doing alone (F1, F2): write under held.term().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <termgate/lease.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate::inline v0 {

class Database;

struct HoldOptions {
  std::chrono::milliseconds ttl{10'000};                      // 100 ms to 1 day
  std::chrono::milliseconds wait{30'000};                     // hold() only: for another's lease
  std::optional<std::chrono::milliseconds> renew_every = {};  // a tenth of the TTL to the TTL less the margin; none: a third of the TTL
  std::optional<std::chrono::milliseconds> margin =
      {};  // 0 to half the TTL; none: a fifth of it. Also the time that the work has to stop in
  // Between two looks at another's lease: the first, and the longest, to which refusals double it. With some chance added. A release is
  // heard of at once on PostgreSQL, and from handles of this Database everywhere. None: 10 ms to 1 s on PostgreSQL, to 40 ms on SQLite, to
  // 250 ms on SQL Server.
  struct Poll {
    std::chrono::milliseconds first{10};
    std::chrono::milliseconds longest{800};
  };
  std::optional<Poll> poll = {};
  std::stop_token stop = {};  // ends the wait: Cancelled
  std::string owner = {};     // empty: one for each handle. Two that share a name take the lease from each other, with a new term
  std::string endpoint = {};  // where the holder can be reached; for people and followers
  std::optional<std::chrono::milliseconds> grace = {};  // before sessions in the way of the acquisition are evicted; none: the setting
};

// Moves, does not copy. Members: any thread, but not while it is moved or destroyed.
class HeldLease {
 public:
  using Clock = Lease::Clock;

  HeldLease(HeldLease&&) noexcept;
  HeldLease& operator=(HeldLease&&) noexcept;  // gives back what it held
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;
  // release(), whose errors end here: the lease then runs out by itself. Not inside a callback of lost().
  ~HeldLease();

  const Scope& scope() const noexcept;
  Term term() const noexcept;
  const std::string& owner() const noexcept;

  // Requested when the lease is lost: the database says so, it could not be renewed in time, or it was given back. Stop callbacks run on
  // the thread that keeps all handles' time and must return at once. Wait on it with std::condition_variable_any.
  std::stop_token lost() const noexcept;
  // Whether the holder may believe in it at this moment, by the clock: false also where that thread has had no time to say so.
  bool still_held(Clock::time_point now = Clock::now()) const noexcept;
  // Where that belief ends unless the lease is renewed before.
  Clock::time_point held_until() const noexcept;

  // Gives it back, so that another can take it at once. False: it was not held any more. Throws what the call throws, after five tries
  // within 150 ms and what they take; the handle holds nothing afterwards in any case.
  bool release();

 private:
  friend class Database;
  struct State;
  explicit HeldLease(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // none: moved from
};

}  // namespace termgate::inline v0
