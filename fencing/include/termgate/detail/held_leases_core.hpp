// HeldLeasesCore: when to renew which of many leases, and whose holder must hear that it is over. It has no clock, no thread and no
// database: it receives what happened and the time, and answers with what to do. Internal; LeaseKeeper performs it,
// tests/sim/held_leases.cpp plays it on virtual time. One thread at a time.
//
// A lease is believed in until `margin` before its end, counted from before the request that granted it was sent. Then its holder is
// notified, whatever is on its way. Only a renewal that was granted moves that moment. Those that fall due about the same time are renewed
// by one statement; one statement is under way at a time. None of this is what keeps the data safe: the fence does (F1, F2).
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

namespace termgate::inline v0 {
struct BootClock;
}

namespace termgate::inline v0::detail {

class HeldLeasesCore {
 public:
  using Time = std::chrono::nanoseconds;
  using Moment = std::chrono::time_point<BootClock, Time>;  // by one clock that never goes back; a step back counts as standing still
  using Id = std::uint64_t;

  struct Timing {
    Time ttl;
    Time margin;       // 0 to half the TTL
    Time renew_every;  // less than the TTL without the margin; up to a quarter sooner, so that leases taken together are not renewed
                       // together and those due together are
  };
  static constexpr std::size_t batch_max = 500;
  // After a renewal that failed the next comes this soon, at most.
  static constexpr int retries_a_ttl = 12;
  static constexpr std::chrono::milliseconds hurry_pause{10};

  enum class Outcome {
    renewed,
    lost,   // the database says that the lease is not ours any more
    failed  // not renewed, or nobody knows
  };
  enum class Loss { lost, expired };

  struct Action {
    std::vector<std::pair<Id, Loss>> over;  // notify their holders first; these leases are forgotten
    std::vector<Id> renew;                  // renew these by one statement, and report with answered()
    std::optional<Moment> wake;             // none: nothing happens before something else does
  };

  explicit HeldLeasesCore(std::uint64_t seed) : random_(seed) {}

  // A lease that ends at `end`, counted from before its request was sent. False: it is over already but for its margin.
  bool add(Id id, const Timing& timing, Moment end, Moment now);
  void remove(Id id);
  // Renew it now: somebody may have requested the lease. Such hints may come as fast as anybody likes to send them.
  void hurry(Id id, Moment now);
  Action resume(Moment now);
  // The answers to what is under way, in its order; none: the statement as a whole was not answered, or refused. `sent`: before it was
  // sent.
  void answered(std::span<const Outcome> outcomes, Moment sent, Moment now);

  // Where the belief in it ends unless it is renewed before. None: not known here.
  std::optional<Moment> until(Id id) const;
  std::size_t size() const noexcept { return leases_.size(); }

 private:
  struct Held {
    Timing timing;
    Moment until;
    std::optional<Moment> due;  // none: it is being renewed
    Moment hurried = Moment::min();
    bool again = false;  // somebody has asked while it was being renewed
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
  std::size_t limit_ = batch_max;  // halved by each statement that failed: one lease that fails them must not take the others with it
  int failures_ = 0;               // in a row, of whole statements
  Moment pause_ = Moment::min();   // no statement before
};

}  // namespace termgate::inline v0::detail
