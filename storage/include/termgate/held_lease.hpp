// HeldLease: a lease as a handle. It is renewed in the background for as long as the object lives,
// reports when it is lost, and is given back by the destructor.
//
//   HeldLease held = db.hold(Scope{"billing"}, {.ttl = 10s, .wait = 30s});
//   while (!held.lost().stop_requested()) {
//     db.write(held.scope(), held.term(), [](Transaction& tx) { … });   // StaleTerm: another process holds it now
//   }
//
// All handles of a Database share a timer thread, a renewal thread and, except on SQLite, a
// connection for it; on PostgreSQL one more thread and connection listen for releases. Leases
// that are due together are renewed by one statement, so thousands cost little. The handle's view
// is conservative (<termgate/lease.hpp>): it ends `margin` before the lease does, even while a call
// to the database hangs. Only the fence makes a late write harmless (F1, F2): write under
// held.term().
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

namespace termgate {
inline namespace v0 {

class Database;

struct HoldOptions {
  std::chrono::milliseconds ttl{10'000};  // 100 ms to 1 day
  // hold() only: how long to wait while another owner holds the lease, 0 or more.
  std::chrono::milliseconds wait{30'000};
  // At least a tenth of the TTL, and less than the TTL without the margin; none: a third of it.
  std::optional<std::chrono::milliseconds> renew_every = {};
  // 0 to half the TTL; none: a fifth of it. It is also the time in which the work has to stop.
  std::optional<std::chrono::milliseconds> margin = {};
  // hold() only: the first and the longest polling interval while another owner holds the lease, 1
  // ms to 1 day. It doubles with each poll, plus some jitter. A release is noticed at once on
  // PostgreSQL, and on every database if this Database sends it. None: from 10 ms, to 1 s on
  // PostgreSQL, 20 ms on SQLite, 250 ms on SQL Server.
  struct Poll {
    std::chrono::milliseconds first{10};
    std::chrono::milliseconds longest{800};
  };
  std::optional<Poll> poll = {};
  std::stop_token stop = {};  // hold() only: ends the wait with Cancelled
  // Empty: each handle gets an owner of its own. Two handles with one owner take the lease from
  // each other, with a new term.
  std::string owner = {};
  std::string endpoint = {};  // where the holder can be reached; for people and followers
  // The time before sessions that block the acquisition are evicted; none: the setting.
  std::optional<std::chrono::milliseconds> grace = {};
};

// Can be moved, not copied; a moved-from handle may only be assigned to or destroyed. Members: any
// thread, but not while it is moved or destroyed.
class HeldLease {
 public:
  using Clock = Lease::Clock;

  HeldLease(HeldLease&&) noexcept;
  HeldLease& operator=(HeldLease&&) noexcept;  // releases the lease that it held
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;
  // Calls release() and swallows its errors: the lease then ends when its TTL is over. Not inside a
  // callback of lost() or asked_to_leave(), where it would end the program or wait for itself.
  ~HeldLease();

  const Scope& scope() const noexcept;
  Term term() const noexcept;
  const std::string& owner() const noexcept;

  // Requested when the lease is lost: the database reports it, it could not be renewed in time, or
  // it was given back. Stop callbacks run on the timer thread that all handles share, or in
  // release(), and must return at once. Wait on it with std::condition_variable_any.
  std::stop_token lost() const noexcept;
  // Requested when somebody requests the lease (`termgate lease hand-over`): noticed by the next
  // renewal, on PostgreSQL at once. Finish what is under way, then release(). The lease is renewed
  // as before until leave_before(), and not after. Callbacks run on the timer thread and must
  // return at once.
  std::stop_token asked_to_leave() const noexcept;
  std::optional<Clock::time_point> leave_before() const noexcept;  // none: nobody requests it
  // Whether the holder may trust the lease at this moment, read from the clock: false even if the
  // timer thread has not run yet.
  bool still_held(Clock::time_point now = Clock::now()) const noexcept;
  // When still_held() becomes false, unless the lease is renewed before. In the past once it is
  // lost.
  Clock::time_point held_until() const noexcept;

  // Releases the lease, so that another can acquire it at once. False: it was no longer held, or
  // was released before. Throws the last error of five attempts, made within 150 ms plus their
  // duration. Afterwards the handle holds nothing in any case. Not inside a stop callback, where it
  // would end the program.
  bool release();

 private:
  friend class Database;
  struct State;
  explicit HeldLease(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // none: moved from
};

}  // namespace v0
}  // namespace termgate
