// LeaderLoop: takes part in the election of one scope's leader for as long as it lives. While it
// leads it renews the lease and runs your work. It requests the work to stop before the lease can
// end, and is a candidate again once the work has ended.
//
//   LeaderLoop loop(db, Scope{"billing"}, [&](const Leadership& leads) {
//     while (!leads.stop_requested()) {
//       db.write(leads.scope(), leads.term(), [](Transaction& tx) { … });   // StaleTerm: another leads; let it propagate
//       …
//     }
//   });
//
// It cannot stop work that does not check, or a process that the machine has paused, and its clock
// may run wrong. Only the fence makes a stale leader's writes harmless (F1, F2): write under
// leads.term(), never under a term that is looked up later.
//
// When can two loops both believe that they lead? A loop believes it for the TTL less `margin`,
// counted from before its request was sent, by BootClock. At most one of a scope's loops does so at
// any moment, as long as that clock runs slower than the database's by no more than margin ÷ TTL,
// less what the database's clock jumps ahead within one TTL. With the default margin, a fifth, that
// allows 10 % slower and a jump by a tenth of the TTL. A machine that was suspended past the end of
// that time reports the loss as soon as it wakes up. After a forced release the old leader learns
// of it at its next renewal, normally at most a third of the TTL later. In all these cases its
// writes are refused.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <termgate/database.hpp>
#include <termgate/lease.hpp>
#include <termgate/lease_source.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate {
inline namespace v0 {

// One won election. A value; any thread. It remains valid after the loop has gone.
class Leadership {
 public:
  const Scope& scope() const noexcept { return scope_; }
  Term term() const noexcept { return term_; }
  // Requested when leadership is lost for any reason, stop() is called, or somebody requests the
  // lease (`termgate lease hand-over`). In the last case still_held() stays true and the lease is
  // renewed until the work has ended: finish what is under way, and return. Wait on it with
  // std::condition_variable_any.
  const std::stop_token& stop_token() const noexcept { return stop_; }
  bool stop_requested() const noexcept { return stop_.stop_requested(); }
  // Whether this election's leader may believe that it leads at this moment, read from the clock:
  // false even if the loop's own thread has not run yet.
  bool still_held(Lease::Clock::time_point now = Lease::Clock::now()) const noexcept {
    return now.time_since_epoch().count() < until_->load();
  }

 private:
  friend class LeaderLoop;
  Leadership(Scope scope, Term term, std::stop_token stop,
             std::shared_ptr<const std::atomic<Lease::Clock::rep>> until)
      : scope_(std::move(scope)), term_(term), stop_(std::move(stop)), until_(std::move(until)) {}

  Scope scope_;
  Term term_;
  std::stop_token stop_;
  std::shared_ptr<const std::atomic<Lease::Clock::rep>> until_;
};

// What a loop reports. `term` is set except for a call that failed.
struct LeaderNews {
  enum class Kind {
    elected,
    stopped,         // no longer leader: stop() or request_stop()
    finished,        // no longer leader: the work returned, or threw something
    handed_over,     // no longer leader: the work ended after somebody had requested the lease
    fenced,          // no longer leader: the work threw StaleTerm of this scope and term
    lost,            // no longer leader: the database or source reports that the lease is not ours
    expired,         // no longer leader: the lease could not be renewed in time
    asked_to_leave,  // still leader: somebody requests the lease, and the work is requested to stop
    // `error` is what the work threw. Reported in addition to the end of its leadership, before or
    // after it.
    work_failed,
    // `error` is what an acquisition, a renewal or a release threw. It is tried again; a release
    // four times, within 150 ms plus the duration of the calls.
    call_failed
  };
  Kind kind;
  std::optional<Term> term = {};
  std::exception_ptr error = {};
};

struct LeaderOptions {
  std::chrono::milliseconds ttl{10'000};  // 100 ms to 1 day
  // 0 to half the TTL; none: a fifth of it. It is also the time in which the work has to stop.
  std::optional<std::chrono::milliseconds> margin = {};
  // The polling interval of a standby, and so how soon a released lease is taken over: this plus up
  // to half of it as jitter. 10 ms to 1 day; none: a quarter of the TTL, 1 s at most.
  std::optional<std::chrono::milliseconds> poll = {};
  // Two loops or processes must not use the same owner at the same time: an owner acquires its own
  // lease without waiting. Empty: one for each loop.
  std::string owner = {};
  // Where the leader can be reached; for people and followers.
  std::string endpoint = {};
  // The time before sessions that block an acquisition are evicted; none: the setting.
  std::optional<std::chrono::milliseconds> grace = {};
  // Called on the loop's own thread, which neither renews nor notices anything until it returns: do
  // longer work elsewhere. An exception from it ends the program.
  std::function<void(const LeaderNews&)> news = {};
};

// It has three threads: one keeps the time, one talks to the database and the source, one runs the
// work. Members: any thread.
class LeaderLoop {
 public:
  // Runs on one thread, for one election at a time; this loop is not elected again before it has
  // returned. When it returns or throws, the lease is given back, if it is still held, and others
  // have the first chance.
  using Work = std::function<void(const Leadership&)>;

  // Starts at once. Throws InvalidInput for options out of range or no work, std::system_error if a
  // thread cannot be started or no file descriptor is left.
  LeaderLoop(Database database, Scope scope, Work work, LeaderOptions options = {});
  // Uses the leases and terms of `source` (<termgate/sources.hpp>): Redis, etcd, ZooKeeper, Consul,
  // Kubernetes, a watched file. Each new term is sealed in `database` before the work starts, and
  // the work does not start if that fails. A term that is not above the fence is refused: `news`
  // reports it as call_failed with StaleTerm, and the loop tries again later. `endpoint` is not
  // used.
  LeaderLoop(Database database, std::shared_ptr<LeaseSource> source, Scope scope, Work work,
             LeaderOptions options = {});
  // Calls stop(). Not on a thread of the loop.
  ~LeaderLoop();
  LeaderLoop(const LeaderLoop&) = delete;
  LeaderLoop& operator=(const LeaderLoop&) = delete;

  // Requests the work to stop. Once it has ended the lease is given back, so that another can take
  // it at its next try.
  void request_stop() noexcept;
  // Like request_stop(), and waits for the work's end and for a call to the database that is under
  // way (OpenOptions::answer_wait bounds that). Nothing of the loop runs afterwards. On a thread of
  // the loop, in the work or `news`, it throws std::logic_error: use request_stop() there.
  void stop();

  // The term under which it believes that it leads at this moment, read from the clock. Do not
  // write under it: use Leadership::term().
  std::optional<Term> leads() const;
  // The election by which it believes that it leads at this moment, for a timer's tick or a request
  // beside the work. It stays bound to that election.
  std::optional<Leadership> leadership() const;
  // Calls `f` with the current election on this thread, if this loop leads. False: it does not
  // lead, and `f` was not called. If all writes happen here, let the loop's work only wait.
  template <class Function>
  bool run_if_leader(Function&& f) {
    const std::optional<Leadership> now = leadership();
    if (now) std::forward<Function>(f)(*now);
    return now.has_value();
  }
  const Scope& scope() const noexcept;
  const std::string& owner() const noexcept;
  LeaderStats stats() const;

 private:
  struct State;
  void start();
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace termgate
