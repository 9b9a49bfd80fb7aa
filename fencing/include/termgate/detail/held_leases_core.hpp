// HeldLeasesCore decides when to renew each of many leases, and which holders must learn that their
// lease is over. It has no clock, no thread and no database: it receives events and the time, and
// returns what to do. Internal; LeaseKeeper performs it, tests/sim/held_leases.cpp runs it on
// virtual time. One thread at a time.
//
// A lease counts as held until `margin` before its end, measured from before the request that
// granted it was sent. At that moment its holder is notified, even if a renewal is on its way; only
// a granted renewal moves the moment. Leases that fall due at about the same time are renewed by
// one statement, up to batch_max of them, and only one statement is under way at a time. None of
// this keeps the data safe: the fence does (F1, F2).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace termgate {
inline namespace v0 {
struct BootClock;

namespace detail {

class HeldLeasesCore {
 public:
  using Time = std::chrono::nanoseconds;
  // From one clock that never goes back; a step back counts as standing still.
  using Moment = std::chrono::time_point<BootClock, Time>;
  using Id = std::uint64_t;

  struct Timing {
    Time ttl;
    Time margin;  // 0 to half the TTL
    // Less than the TTL minus the margin. A renewal comes up to a quarter sooner, so that leases
    // taken together are not all renewed together; those due at about the same time share a
    // statement.
    Time renew_every;
  };
  static constexpr std::size_t batch_max = 500;
  // A failed renewal is repeated after at most TTL / retries_a_ttl.
  static constexpr int retries_a_ttl = 12;
  static constexpr std::chrono::milliseconds hurry_pause{10};

  enum class Outcome {
    renewed,
    lost,   // the database reports that the lease is no longer ours
    failed  // not renewed, or the outcome is unknown
  };
  enum class Loss { lost, expired };

  struct Action {
    std::vector<std::pair<Id, Loss>>
        over;                    // notify their holders first; the core has forgotten them
    std::vector<Id> renew;       // renew these by one statement, and report with answered()
    std::optional<Moment> wake;  // none: nothing to do until another call
  };

  explicit HeldLeasesCore(std::uint64_t seed) : random_(seed) {}

  // Adds a lease that ends at `end`, measured from before its request was sent. False: it is
  // already within its margin, or over.
  bool add(Id id, const Timing& timing, Moment end, Moment now);
  void remove(Id id);
  // Renews the lease now, because somebody may have requested it. Such hints may come at any rate.
  void hurry(Id id, Moment now);
  Action resume(Moment now);
  // The outcomes of the renewals under way, in the order of Action::renew; empty: the whole
  // statement failed or was not answered. `sent`: a moment before it was sent.
  void answered(std::span<const Outcome> outcomes, Moment sent, Moment now);

  // Until when the lease counts as held unless it is renewed. None: an unknown lease.
  std::optional<Moment> until(Id id) const;
  std::size_t size() const noexcept { return leases_.size(); }

 private:
  struct Held {
    Timing timing;
    Moment until;
    std::optional<Moment> due;  // none: it is being renewed
    Moment hurried = Moment::min();
    bool again = false;  // another hint came while it was being renewed
  };
  void set_until(Id id, Held& held, Moment until);
  void set_due(Id id, Held& held, std::optional<Moment> due);
  Time spread(Time from, Time to);

  std::uint64_t random_;
  Moment now_ = Moment::min();
  std::unordered_map<Id, Held> leases_;
  std::set<std::pair<Moment, Id>> ends_;
  std::set<std::pair<Moment, Id>> dues_;
  std::vector<Id> lost_;
  std::vector<Id> under_way_;
  bool busy_ = false;
  // Halved by each failed statement: one lease that makes it fail must not take the others with it.
  std::size_t limit_ = batch_max;
  int failures_ = 0;              // whole statements that failed in a row
  Moment pause_ = Moment::min();  // no statement before this moment
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
