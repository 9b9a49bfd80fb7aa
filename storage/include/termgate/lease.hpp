// Lease: a holder's ownership of a scope for a bounded time, and the term that came with it. A
// value; copy it as you like, one thread at a time for each copy.
//
// The database's clock decides who holds a lease. still_held() is this process's own conservative
// view: it is counted on a monotonic clock that includes suspension, from the moment at which the
// request was *sent*, so it ends no later than the database's. Safety never depends on it: a write
// after that is refused by its term (F1, F2).
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

#include <termgate/boot_clock.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {

class Lease {
 public:
  using Clock = BootClock;

  Lease(Scope scope, Term term, std::string owner, std::chrono::milliseconds ttl,
        Clock::time_point held_until, std::optional<Clock::time_point> leave_before = {})
      : scope_(std::move(scope)),
        term_(term),
        owner_(std::move(owner)),
        ttl_(ttl),
        held_until_(held_until),
        leave_before_(leave_before) {}

  const Scope& scope() const noexcept { return scope_; }
  Term term() const noexcept { return term_; }
  const std::string& owner() const noexcept { return owner_; }
  std::chrono::milliseconds ttl() const noexcept { return ttl_; }

  // The end of the window in which this process may believe that it leads.
  Clock::time_point held_until() const noexcept { return held_until_; }
  bool still_held(Clock::time_point now = Clock::now()) const noexcept { return now < held_until_; }
  // If set, somebody requests the holder to release the lease by then, as the last renewal
  // reported. It is not renewed after that.
  std::optional<Clock::time_point> leave_before() const noexcept { return leave_before_; }

 private:
  Scope scope_;
  Term term_;
  std::string owner_;
  std::chrono::milliseconds ttl_;
  Clock::time_point held_until_;
  std::optional<Clock::time_point> leave_before_;
};

// For Database::acquire_lease() and try_acquire_lease().
struct LeaseOptions {
  // Empty: default_owner().
  std::string owner = {};
  // Where the holder can be reached; for people and followers.
  std::string endpoint = {};
  // The time before sessions that block the acquisition are evicted; none: the setting.
  std::optional<std::chrono::milliseconds> grace = {};
  // acquire_lease() only: how long to wait while another holds it.
  std::chrono::milliseconds wait{30'000};
  // acquire_lease() only: ends that wait with Cancelled.
  std::stop_token stop = {};
};

// host:pid:random, one for each process.
const std::string& default_owner();

}  // namespace v0
}  // namespace termgate
