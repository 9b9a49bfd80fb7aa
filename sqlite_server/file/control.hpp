// Control: how other threads stop a stream's statement or end its transaction.
//
// Owner: the stream's Session. Threads: the session's current thread; cancel(), evict(), evicted()
// and idle_since() are for other threads too. Those touch the connection only through
// sqlite3_interrupt().
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace termgate::sqlite_file {

// Why the server ended a transaction. `code`: such as TG001, TRANSACTION_TIMEOUT, DATABASE_MOVED.
struct Eviction {
  std::string code, message;
};

class Control {
 public:
  using Clock = std::chrono::steady_clock;

  // `on_evicted` is called when a silent stream is evicted, in evict() or in silent() and with
  // mutexes held, so it may only notify another thread. A stream that runs a statement finds out by
  // itself.
  explicit Control(std::function<void(const Eviction&)> on_evicted)
      : on_evicted_(std::move(on_evicted)) {}

  // The start of SQLite's work for the stream. `shared`: an interrupt would also undo other
  // streams' writes.
  void begins(sqlite3* db, bool shared);
  void ends() noexcept;
  // The start and the end of a wait for the turn to write, which cancel() ends too.
  void waits(bool on) noexcept;

  // For the session's thread: until when its statement may run; max: no limit.
  void limit(Clock::time_point deadline) noexcept { deadline_ = deadline; }
  Clock::time_point limit() const noexcept { return deadline_; }

  bool cancelled() const noexcept { return cancelled_; }
  bool evicted() const noexcept { return evicted_; }
  bool timed_out() const noexcept;
  // Whether a wait must be given up.
  bool interrupted() const noexcept { return cancelled_ || evicted_ || timed_out(); }
  // From within SQLite, on the session's thread: whether the statement has to stop. After a
  // cancellation or a timeout, one that shares a commit has a moment to end by itself.
  bool must_stop() noexcept;

  // Ends the statement that runs, or the wait. Does nothing if there is neither.
  void cancel() noexcept;
  // Ends the statement that runs; the transaction will be rolled back. The first reason counts.
  void evict(Eviction why);
  std::optional<Eviction> why() const;
  // For the session's thread, when nothing is left that could be evicted, as after an autocommit
  // write.
  void forget_eviction() noexcept;

  // The client has the answer, and has not sent its next request.
  void silent();
  void heard() noexcept { idle_since_ = Clock::time_point{}; }
  // Since when the stream has been waiting for its client; the epoch while it is not.
  Clock::time_point idle_since() const noexcept { return idle_since_; }

 private:
  const std::function<void(const Eviction&)> on_evicted_;
  mutable std::mutex mutex_;  // guards the next four members
  sqlite3* running_ = nullptr;
  bool shared_ = false;
  bool waits_ = false;
  std::optional<Eviction> why_;
  std::atomic<Clock::time_point> deadline_{Clock::time_point::max()};
  Clock::time_point
      stop_requested_{};  // for the session's thread: when must_stop() first saw the request
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> evicted_{false};
  std::atomic<Clock::time_point> idle_since_{Clock::time_point{}};
};

}  // namespace termgate::sqlite_file
