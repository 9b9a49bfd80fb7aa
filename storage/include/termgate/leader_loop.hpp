// LeaderLoop: takes part in the election of one scope's leader for as long as it lives. While it is leader it renews the lease and runs the
// work that it was given; the work is asked to stop before the lease can end, and the loop is a candidate again once the work has ended.
//
//   LeaderLoop loop(db, Scope{"billing"}, [&](const Leadership& leads) {
//     while (!leads.stop_requested()) {
//       db.write(leads.scope(), leads.term(), [](Transaction& tx) { … });   // StaleTerm: another leads; let it out
//       …
//     }
//   });
//
// What it does not do: it cannot stop work that does not look, nor a process that the machine has stopped, and a clock may run wrong. That
// a stale leader's writes do no harm is the fence's doing alone (F1, F2): write under leads.term(), never under a term that is looked up
// later.
//
// When two may both believe to lead. The window counts from before the request was sent, by BootClock, and ends `margin` before the lease.
// As long as that clock runs slower than the database's by no more than margin ÷ TTL, less what the database's clock jumps ahead within one
// TTL, at most one of a scope's loops leads at any moment; with the default margin, a fifth: 10 % slower and a jump by a tenth of the TTL.
// A machine that was suspended past that moment says so as soon as it wakes up. A forced release ends a leader's term at once and its
// belief with its next renewal, a third of the TTL later at most. In each of these the old one's writes are refused.
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
#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate::inline v0 {

// One election won. A value, any thread; as good after the loop has gone.
class Leadership {
 public:
  const Scope& scope() const noexcept { return scope_; }
  Term term() const noexcept { return term_; }
  // Requested when leadership is lost, for whatever reason, or stop() is called. Wait on it with std::condition_variable_any.
  const std::stop_token& stop_token() const noexcept { return stop_; }
  bool stop_requested() const noexcept { return stop_.stop_requested(); }
  // Whether this election's leader may believe to lead at this moment, by the clock: false also where the loop's own thread has had no time
  // to say so.
  bool still_held(Lease::Clock::time_point now = Lease::Clock::now()) const noexcept {
    return !stop_requested() && now.time_since_epoch().count() < until_->load();
  }

 private:
  friend class LeaderLoop;
  Leadership(Scope scope, Term term, std::stop_token stop, std::shared_ptr<const std::atomic<Lease::Clock::rep>> until)
      : scope_(std::move(scope)), term_(term), stop_(std::move(stop)), until_(std::move(until)) {}

  Scope scope_;
  Term term_;
  std::stop_token stop_;
  std::shared_ptr<const std::atomic<Lease::Clock::rep>> until_;
};

// What a loop has to tell. `term` is there for all but a call that failed.
struct LeaderNews {
  enum class Kind {
    elected,
    stopped,      // no leader any more: stop() or request_stop()
    finished,     // no leader any more: the work returned, or threw something
    fenced,       // no leader any more: the work threw StaleTerm of this scope and term
    lost,         // no leader any more: the database says that the lease is not ours
    expired,      // no leader any more: it could not be renewed in time
    work_failed,  // `error` is what the work threw; told before or after its leadership's end
    call_failed  // `error` is what an acquisition, a renewal or a release threw; it will be tried again, a release four times within 150 ms
                 // and what the calls take
  };
  Kind kind;
  std::optional<Term> term = {};
  std::exception_ptr error = {};
};

struct LeaderOptions {
  std::chrono::milliseconds ttl{10'000};  // 100 ms to 1 day
  std::optional<std::chrono::milliseconds> margin =
      {};  // 0 to half the TTL; none: a fifth of it. Also the time that the work has to stop in
  // How long a standby waits before it asks again, and so how soon a released lease is taken: this, and up to half of it for the jitter. 10
  // ms to 1 day; none: a quarter of the TTL, 1 s at most.
  std::optional<std::chrono::milliseconds> poll = {};
  // No two loops or processes at a time may have the same: it takes its own lease without waiting for the end. Empty: one for each loop.
  std::string owner = {};
  std::string endpoint = {};                            // where the leader can be reached; for people and followers
  std::optional<std::chrono::milliseconds> grace = {};  // before sessions in the way of an acquisition are evicted; none: the setting
  // Called on the loop's own thread, which renews nothing and notices nothing meanwhile: hand on what takes time. What it throws ends the
  // program.
  std::function<void(const LeaderNews&)> news = {};
};

// Three threads of its own: one that keeps the time, one that talks to the database, one that works. Members: any thread.
class LeaderLoop {
 public:
  // Runs on one thread, an election at a time; nobody is elected here before it has returned. Returning gives the lease back, and others
  // have the first chance; so does throwing.
  using Work = std::function<void(const Leadership&)>;

  // Starts at once. Throws InvalidInput for options out of their ranges or no work, std::system_error where a thread cannot be started.
  LeaderLoop(Database database, Scope scope, Work work, LeaderOptions options = {});
  // stop(). Not on a thread of the loop's.
  ~LeaderLoop();
  LeaderLoop(const LeaderLoop&) = delete;
  LeaderLoop& operator=(const LeaderLoop&) = delete;

  // Asks the work to stop; once it has ended the lease is given back, so that another can take it at its next try.
  void request_stop() noexcept;
  // The same, and waits: for the work's end, and for as long as a call to the database takes (OpenOptions::answer_wait bounds that).
  // Nothing of the loop runs afterwards. On a thread of the loop's, in the work or `news`, it throws std::logic_error: request_stop() is
  // for those.
  void stop();

  // The term that it may believe to lead under at this moment, by the clock. Not a right to write: bind a write to Leadership::term().
  std::optional<Term> leads() const;
  // The election that it may believe to lead by at this moment: for a timer's tick or a request, which take place beside the work. It stays
  // bound to that election.
  std::optional<Leadership> leadership() const;
  // Calls `f` with it, on this thread, if there is one. False: not the leader, and nothing was called. Give the work of the loop nothing to
  // do but to wait if it all happens here.
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
  std::unique_ptr<State> state_;
};

}  // namespace termgate::inline v0
