// Control: what other threads may do to a stream at work: stop its statement, end its transaction.
//
// Owner: the stream's Session. Threads: the session's thread of the moment, and through cancel(), evict() and tick() any other. A
// connection is touched through sqlite3_interrupt() alone.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace termgate::sqlite_file {

// Why a transaction was ended though its client did not end it. `code`: TG001, TRANSACTION_TIMEOUT, DATABASE_MOVED.
struct Eviction {
  std::string code, message;
};

class Control {
 public:
  using Clock = std::chrono::steady_clock;

  // `on_evicted`: called where a silent stream is evicted, with mutexes held, on the thread that evicts; it may only pass the word on. A
  // stream at work finds out by itself.
  explicit Control(std::function<void(const Eviction&)> on_evicted) : on_evicted_(std::move(on_evicted)) {}

  // Around what SQLite does for the stream. `shared`: an interrupt would take other streams' writes along.
  void begins(sqlite3* db, bool shared);
  void ends() noexcept;
  // Around a wait for the write lock, which cancel() ends too.
  void waits(bool on) noexcept;

  // The session's thread: until when its statement may run; max: for ever.
  void limit(Clock::time_point deadline) noexcept { deadline_ = deadline; }
  Clock::time_point limit() const noexcept { return deadline_; }

  bool cancelled() const noexcept { return cancelled_; }
  bool evicted() const noexcept { return evicted_; }
  bool timed_out() const noexcept;
  // Whether a wait has to be given up.
  bool interrupted() const noexcept { return cancelled_ || evicted_ || timed_out(); }
  // From within SQLite, on the session's thread: whether the statement has to stop. One that shares a commit is given a moment to end by
  // itself.
  bool must_stop() noexcept;

  // Ends the statement that runs, or the wait, if there is one; else nothing.
  void cancel() noexcept;
  // Ends the statement, and once for all the transaction. The first reason counts.
  void evict(Eviction why);
  std::optional<Eviction> why() const;
  // The session's thread, when it has nothing any more that could be evicted: an autocommit write is over.
  void forget_eviction() noexcept;

  // The client has the answer; its next request is whole.
  void silent();
  void heard() noexcept { idle_since_ = Clock::time_point{}; }
  // Since when the stream waits for its client; the epoch while it does not.
  Clock::time_point idle_since() const noexcept { return idle_since_; }

 private:
  const std::function<void(const Eviction&)> on_evicted_;
  mutable std::mutex mutex_;  // guards the next four
  sqlite3* running_ = nullptr;
  bool shared_ = false;
  bool waits_ = false;
  std::optional<Eviction> why_;
  std::atomic<Clock::time_point> deadline_{Clock::time_point::max()};
  Clock::time_point stop_requested_{};  // the session's thread: when must_stop() met it first
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> evicted_{false};
  std::atomic<Clock::time_point> idle_since_{Clock::time_point{}};
};

}  // namespace termgate::sqlite_file
