// Engine: one SQLite file for many streams. A stream reads on a connection that it borrows from a pool. There is one writer,
// storage/sqlite's WriteQueue: a stream must hold its turn to write. Autocommit writes share a commit; a transaction keeps the turn from
// its first write to its end.
//
// A front makes one with
//   auto engine = std::make_shared<Engine>(EngineOptions{.path = "app.db", .on_moved = …});
// and gives it to each Session (session.hpp). When moved() it makes another for the path and hands over `memory()`, so that a copy of the
// file that has forgotten a raise is found (TG004); sessions of the old one fail with Lost DATABASE_MOVED.
//
// A stream that waits for the turn gives the scope and term that it waits for. The holder watchdog (F4) ends
//   - the transaction of a stream that has passed a waiter's scope with a lower term, after layer 1's setting eviction_grace_ms;
//   - that of a stream that keeps the turn while its client sends nothing, after `idle_holder_max`, where others wait.
// Processes that wait through the library, the command or the extension announce it (lock_wait.hpp) and count like streams. Other
// processes that wait for the file cannot be seen, because SQLite's waiters leave no trace.
//
// Owner: the front, and each session. Threads: any thread may call. Each mutex names what it guards; no two of the engine's mutexes are
// held at once.
// Invariants, asserted in debug builds:
//   - idle connections are open ones, and at most `readers_max` are open;
//   - at most one stream holds the turn, and only that one uses the writer.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include <termgate/detail/fence_memory.hpp>

#include <termgate/detail/sqlite/connection.hpp>
#include <termgate/detail/sqlite/file_watch.hpp>
#include <termgate/detail/sqlite/lock_wait.hpp>
#include <termgate/detail/sqlite/write_queue.hpp>

namespace termgate::sqlite_file {

class Connection;
class Control;

struct Want {
  std::string scope;
  std::int64_t term = 0;
  bool operator==(const Want&) const = default;
};

struct EngineOptions {
  std::string path = {};          // of the file, which must exist
  std::size_t readers_max = 160;  // as many transactions and reads as run at once
  std::size_t waiters_max = 512;  // writers that may wait for the turn; more are refused with hrana::Busy
  std::chrono::milliseconds idle_holder_max{3000};
  // What earlier engines of the path have seen of fences; none: nothing yet.
  std::shared_ptr<detail::FenceMemory> memory = {};
  // Called once, on a thread of the engine's, when the file is found to have been moved or replaced. It must not destroy the engine.
  std::function<void()> on_moved = {};
};

// For metrics; since the engine was made.
struct Counters {
  std::int64_t commits = 0;        // of group commits
  std::int64_t group_members = 0;  // the writes that they carried
  std::int64_t transactions = 0;   // explicit ones that have committed a write
  std::int64_t evicted = 0;
  std::array<std::int64_t, 4> observed{};  // refusals of the check that were counted and not obeyed, by Engine::observed_codes
  Counters& operator+=(const Counters& other) noexcept;
};

class Engine {
 public:
  using Clock = std::chrono::steady_clock;

  // Opens the file. Throws what storage/sqlite throws.
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A connection that reads; `may_write`: whose transaction may become a writer. Throws hrana::Busy where all are at work for too long.
  std::unique_ptr<Connection> borrow(bool may_write);
  void put_back(std::unique_ptr<Connection> connection) noexcept;

  // `work` as a member of a group commit, or alone in its commit; returns after the flush. `work`'s second argument: whether others' writes
  // are in the same transaction. Throws what `work` throws and what the commit met; sqlite::GaveUp where the stream was cancelled, ended or
  // timed out while it waited; Blocked (TG006); hrana::Busy.
  void group(Control& control, const Want& want, bool alone, const std::function<void(Connection&, bool shared)>& work);

  // For a transaction: the right to write, until it is given back or destroyed, which any thread may do.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)), held_(std::move(other.held_)) {}
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { give(); }
    explicit operator bool() const noexcept { return engine_ != nullptr; }
    void give() noexcept;
    // Around a COMMIT, which is not to be evicted any more: what was committed is no lost transaction.
    void unwatch() noexcept;
    void watch(Control& control, const std::vector<Want>& passed) noexcept;

   private:
    friend class Engine;
    Turn(Engine& engine, sqlite::WriteQueue::Turn held) : engine_(&engine), held_(std::move(held)) {}
    Engine* engine_ = nullptr;
    sqlite::WriteQueue::Turn held_;
  };
  // Throws as group() does.
  Turn take_turn(Control& control, const Want& want);

  // The connection of the group commits, for the stream that has the turn.
  Connection& writer() noexcept { return *writer_; }
  // Another user of the file in this process, such as the proxy's authority, writes through it, so that there is one queue for the file.
  // Its work runs on the writer, whose authorizer lets all pass that is not a client's text.
  sqlite::WriteQueue& queue() noexcept { return *queue_; }
  // The stream that has the turn has passed the check of the scope with the term.
  void passed(const Want& pass);
  // Its transaction has committed: a raise that was rolled back is none.
  void committed(const std::vector<Want>& passed);
  // The highest fence that was seen of each scope at this path, in whatever file that was.
  const std::shared_ptr<detail::FenceMemory>& memory() const noexcept { return memory_; }

  // The path no longer names the open file. Nothing is written then.
  bool moved() const noexcept { return moved_; }
  void note_moved() noexcept;
  const std::string& path() const noexcept { return options_.path; }

  // A text that has made SQLite roll back a whole transaction commits alone from then on.
  void note_rolls_back(std::string_view text);
  bool rolls_back(std::string_view text) const;

  Counters counters() const noexcept;
  void count_transaction() noexcept { ++transactions_; }
  // Codes of refusals that --enforce observe lets pass. False: it is none of them.
  static constexpr std::array<std::string_view, 4> observed_codes{"TG001", "TG002", "TG004", "TG005"};
  bool count_observed(std::string_view code) noexcept;
  // Threads that wait for the turn.
  std::size_t waiting() const { return queue_->waiting(); }

 private:
  class Waiting;
  struct Waiter {
    Want want;
    Clock::time_point since;
  };
  struct Outside {
    int pid;
    Waiter waiter;
    Clock::time_point heard;
  };

  void hold(Control* control);
  void watch();
  void look_at_file(std::unique_lock<std::mutex>& lock);
  void look_at_holder();
  void evict(std::string code, std::string message);
  bool evicts(const Waiter& waiter, Clock::time_point now);
  void heard(const sqlite::LockWaitNotice& notice);

  const EngineOptions options_;
  sqlite::OpenAs how_;
  std::unique_ptr<Connection> writer_;
  std::unique_ptr<sqlite::WriteQueue> queue_;

  std::mutex connections_mutex_;  // guards idle_ and open_
  std::condition_variable connection_free_;
  std::deque<std::unique_ptr<Connection>> idle_;  // the next to be borrowed is the last
  std::size_t open_ = 0;

  mutable std::mutex texts_mutex_;  // guards rolling_back_
  std::unordered_set<std::string> rolling_back_;

  const std::shared_ptr<detail::FenceMemory> memory_;
  sqlite::FileWatch file_;  // the holder watchdog's
  std::atomic<bool> moved_{false};
  bool moved_reported_ = false;  // the holder watchdog's
  std::atomic<std::int64_t> transactions_{0}, evicted_{0};
  std::array<std::atomic<std::int64_t>, 4> observed_{};

  mutable std::mutex watch_mutex_;  // guards what follows
  std::condition_variable watched_;
  bool watchdog_rests_ = false;  // nobody waits, so far as it knows
  std::list<Waiter> waiters_;
  std::vector<Outside> outside_;  // few
  Control* holder_ = nullptr;
  std::vector<Want> holder_passed_;
  std::chrono::milliseconds grace_{1000};
  bool stopping_ = false;
  std::thread holder_watchdog_;
  std::unique_ptr<sqlite::LockWaitListener> outside_listener_;
};

}  // namespace termgate::sqlite_file
