// LeaderCore: what a candidate for the leadership of one scope does next. It has no clock, no
// thread and no database: its caller reports what has happened and what time it is, and gets back
// the call to make, the news for the application, and when to come back. Internal. LeaderLoop
// performs the actions, tests/sim/leaders.cpp simulates them on virtual time.
//
// Owner: one LeaderLoop, which serialises the calls; one thread at a time. Invariants, asserted
// after every event:
//   - it leads only while the work of that election runs;
//   - at most one call to the database is under way; it is no acquisition while it leads or gives
//     a lease back;
//   - it never leads and gives back at the same time;
//   - once `over`, nothing is under way and nothing is held.
//
//   standby ── acquisition granted ──> leads ── stop(), the work ended, a renewal was refused,
//       or `margin` before the lease's end ──> steps down
//   steps down ── the work has ended; the lease is released, or not ──> standby, or over
//
// While it leads, the work may be requested to stop, because somebody wants the lease.
//
// It believes that it leads until `margin` before the lease's end, counted from before the request
// was sent, and reports the loss at that moment, whatever call is under way. Only a granted renewal
// moves that moment; one with an unknown outcome does not. A late answer changes nothing:
// leadership that was reported as lost is lost. It is not elected again before the work of the last
// election has ended. None of this keeps the data safe: the fence does (F1, F2).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>

#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {
struct BootClock;

namespace detail {

class LeaderCore {
 public:
  using Time = std::chrono::nanoseconds;
  // From one clock that never goes back; a step back counts as standing still.
  using Moment = std::chrono::time_point<BootClock, Time>;

  struct Timing {
    Time ttl;
    Time margin;  // 0 to half the TTL
    // How long a standby waits at most before it tries again; a jitter adds up to half of it. While
    // the database does not answer, the wait begins at min(poll, TTL / retries_a_ttl) and doubles
    // up to twice the poll; a jitter makes each wait up to half longer or shorter.
    Time poll;
  };
  // A renewal is sent when a third of the TTL has passed, or up to a quarter of that earlier. A
  // failed one is repeated after at most TTL / retries_a_ttl.
  static constexpr int renewals_a_ttl = 3;
  static constexpr int retries_a_ttl = 12;
  // A release that failed, or may have, is sent again, up to releases_max times in all, after
  // pauses of 10, 20, 40 and 80 ms: another's acquisition may hold the row, and without a release
  // the lease could last for hours. But a stop must not wait for a database that has gone.
  static constexpr int releases_max = 5;
  static constexpr std::chrono::milliseconds release_pause{10};
  // Hints are acted on at most once in this time: they may come at any rate.
  static constexpr std::chrono::milliseconds hint_pause{10};

  enum class Loss {
    stopped,      // stop() was called
    finished,     // the work ended by itself
    handed_over,  // the work ended after somebody had requested the lease
    fenced,       // the work was refused as stale: another has been elected
    lost,         // the database reports that the lease is no longer ours
    expired       // no renewal was granted in time
  };

  struct Call {
    enum class Kind { acquire, renew, release };
    Kind kind;
    std::optional<Term> term;  // for renew and release
  };
  struct LeadershipChange {
    std::optional<Loss> loss;  // none: elected
    Term term;
  };

  // --- what happens
  struct Woken {};
  struct Stop {};
  struct Hint {};     // somebody may have released the lease, or requested it
  struct WorkEnded {  // once for each election
    bool stale;       // refused as stale
  };
  struct Answer {  // to the call under way
    enum class How {
      granted,      // acquired, renewed, released
      refused,      // held by another, or no longer ours
      unavailable,  // surely not done
      unknown       // perhaps done
    };
    How how;
    // An acquisition was granted.
    std::optional<Term> term = {};
    // Granted: when the lease ends, counted from before the request was sent.
    Moment until = {};
    // An acquisition was refused: how long the other's lease still lasts, if that is known.
    std::optional<Time> free_in = {};
    // A renewal was granted, and somebody has requested the lease.
    bool leave = false;
  };
  using Event = std::variant<Woken, Stop, Hint, WorkEnded, Answer>;

  struct Action {
    std::optional<LeadershipChange> change;  // act on this first: stop the work, or start it
    bool leave = false;          // request the work to stop, and lead on until it has ended
    std::optional<Call> call;    // then make this call; one at a time, and each is answered
    std::optional<Moment> wake;  // none: nothing to do until another event
    bool over = false;           // nothing will happen any more
  };

  // `seed` is for the jitter: a different one for each candidate.
  LeaderCore(Timing timing, std::uint64_t seed) : timing_(timing), random_(seed) {}

  Action resume(const Event& event, Moment now);

  // The term that it leads under at this moment, as far as it knows.
  std::optional<Term> leads(Moment now) const {
    return leading_ && now < leading_->until ? std::optional(leading_->term) : std::nullopt;
  }
  // Until when it leads, unless a renewal is granted before.
  std::optional<Moment> leads_until() const {
    return leading_ ? std::optional(leading_->until) : std::nullopt;
  }

 private:
  struct Held {
    Term term;
    Moment until;
  };
  void assert_consistent(const Action& action) const noexcept;
  void step_down(Loss loss, Moment now, Action& action);
  void answered(const Call& call, const Answer& answer, Moment now, Action& action);
  void acquired(const Answer& answer, Moment now, Action& action);
  void gives_back(Held held);
  void backs_off(Moment now);
  Moment due(Moment sent, Moment now);
  void waits(Time time, Moment now);
  Time spread(Time from, Time to);

  const Timing timing_;
  std::uint64_t random_;
  Moment now_ = Moment::min();
  std::optional<Held> leading_;  // ends where the margin begins
  std::optional<Held>
      give_back_;  // ends with the lease; set as well while the release is under way
  Moment give_back_at_ = Moment::min();
  int releases_ = 0;  // releases in a row that did not get through
  std::optional<Call> under_way_;
  Moment next_ = Moment::min();  // no acquisition or renewal before this moment
  int failures_ = 0;             // acquisitions in a row that failed or were granted too late
  bool working_ = false;
  bool stopping_ = false;
  bool leaving_ = false;  // it still leads, and has requested the work to stop
  bool hinted_ = false;
  Moment hint_after_ = Moment::min();
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
