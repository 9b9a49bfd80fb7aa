// Engine: one SQLite file for many streams. A stream reads on a connection that it borrows from a
// pool. There is one writer, storage/sqlite's WriteQueue: a stream must hold its turn to write.
// Autocommit writes share a commit; a transaction keeps the turn from its first write to its end.
//
// A front creates one with
//   auto engine = std::make_shared<Engine>(EngineOptions{.path = "app.db", .on_moved = …});
// and passes it to each Session (session.hpp). After moved() it creates another one for the path
// with the old one's memory(), so that a copy of the file that has forgotten a raise is noticed
// (TG004). Sessions of the old engine then fail with Lost DATABASE_MOVED.
//
// A stream that waits for the turn names the scope and term that it waits for. The holder watchdog
// (F4) ends
//   - the transaction of a stream that has passed a waiter's scope with a lower term, after
//     layer 1's setting eviction_grace_ms;
//   - the transaction of a stream that keeps the turn while its client is silent for
//     `idle_holder_max`, if others wait.
// Processes that wait through the library, the command or the extension announce it (lock_wait.hpp)
// and count like streams. Other processes that wait for the file cannot be seen, because SQLite's
// waiters leave no trace.
//
// Owner: the front, and each session. Threads: any thread may call. Each mutex names what it
// guards; a thread never holds two of the engine's mutexes.
// Invariants, asserted in debug builds:
//   - every idle connection is open, and at most `readers_max` are open;
//   - at most one stream has the turn; only that stream, or work of queue(), uses the writer.
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
  std::string path = {};          // the file, which must exist
  std::size_t readers_max = 160;  // how many reads and transactions can run at once
  std::size_t waiters_max =
      512;  // writers that may wait for the turn; further ones get hrana::Busy
  std::chrono::milliseconds idle_holder_max{3000};
  // The fences that earlier engines of the path have seen; none: this is the first.
  std::shared_ptr<detail::FenceMemory> memory = {};
  // Called once, on a thread of the engine, when the file turns out to have been moved or replaced.
  // It must not destroy the engine.
  std::function<void()> on_moved = {};
};

// For metrics; counted since the engine was created.
struct Counters {
  std::int64_t commits = 0;        // group commits
  std::int64_t group_members = 0;  // writes in group commits
  std::int64_t transactions = 0;   // explicit transactions that committed a write
  std::int64_t evicted = 0;
  std::array<std::int64_t, 4>
      observed{};  // refusals that --enforce observe only counted, by Engine::observed_codes
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

  // Borrows a connection for reading; `may_write`: its transaction may become a writer. Throws
  // hrana::Busy if none has become free within five seconds, and what opening one throws.
  std::unique_ptr<Connection> borrow(bool may_write);
  void put_back(std::unique_ptr<Connection> connection) noexcept;

  // Runs `work` as a member of a group commit, or `alone` in its own commit, and returns after the
  // flush. The second argument of `work`: whether the transaction contains others' writes. Throws
  // what `work` and the commit throw; sqlite::GaveUp if the stream was evicted, or was cancelled or
  // timed out while it waited; Blocked (TG006); hrana::Busy.
  void group(Control& control, const Want& want, bool alone,
             const std::function<void(Connection&, bool shared)>& work);

  // A transaction's right to write, until it is given back or destroyed, on any thread.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept
        : engine_(std::exchange(other.engine_, nullptr)), held_(std::move(other.held_)) {}
    Turn& operator=(Turn&& other) noexcept;
    ~Turn() { give(); }
    explicit operator bool() const noexcept { return engine_ != nullptr; }
    void give() noexcept;
    // Called before a COMMIT, which must not be evicted any more: what was committed cannot be
    // reported as lost.
    void unwatch() noexcept;
    // Undoes unwatch() after a COMMIT that failed and left the transaction open.
    void watch(Control& control, const std::vector<Want>& passed) noexcept;

   private:
    friend class Engine;
    Turn(Engine& engine, sqlite::WriteQueue::Turn held)
        : engine_(&engine), held_(std::move(held)) {}
    Engine* engine_ = nullptr;
    sqlite::WriteQueue::Turn held_;
  };
  // Throws as group() does.
  Turn take_turn(Control& control, const Want& want);

  // The connection of the group commits, for the stream that has the turn.
  Connection& writer() noexcept { return *writer_; }
  // For another user of the file in this process, such as the proxy's authority, so that the file
  // has one queue. Its work runs on the writer, whose authorizer restricts only clients' texts.
  sqlite::WriteQueue& queue() noexcept { return *queue_; }
  // The stream that has the turn has passed the check of this scope and term.
  void passed(const Want& pass);
  // The stream's transaction has committed. Raises count only now, because one that is rolled back
  // never happened.
  void committed(const std::vector<Want>& passed);
  // The highest fence of each scope that was seen at this path, in any file.
  const std::shared_ptr<detail::FenceMemory>& memory() const noexcept { return memory_; }

  // The path no longer names the open file; nothing is written then.
  bool moved() const noexcept { return moved_; }
  void note_moved() noexcept;
  const std::string& path() const noexcept { return options_.path; }

  // Remembers a text that made SQLite roll back a whole transaction; from then on it commits alone.
  void note_rolls_back(std::string_view text);
  bool rolls_back(std::string_view text) const;

  Counters counters() const noexcept;
  void count_transaction() noexcept { ++transactions_; }
  // Codes of refusals that --enforce observe lets pass. False: another code.
  static constexpr std::array<std::string_view, 4> observed_codes{"TG001", "TG002", "TG004",
                                                                  "TG005"};
  bool count_observed(std::string_view code) noexcept;
  // How many threads wait for the turn.
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
  std::deque<std::unique_ptr<Connection>> idle_;  // borrowed from the back
  std::size_t open_ = 0;

  mutable std::mutex texts_mutex_;  // guards rolling_back_
  std::unordered_set<std::string> rolling_back_;

  const std::shared_ptr<detail::FenceMemory> memory_;
  sqlite::FileWatch file_;  // for the holder watchdog
  std::atomic<bool> moved_{false};
  bool moved_reported_ = false;  // for the holder watchdog
  std::atomic<std::int64_t> transactions_{0}, evicted_{0};
  std::array<std::atomic<std::int64_t>, 4> observed_{};

  mutable std::mutex watch_mutex_;  // guards the members below
  std::condition_variable watched_;
  bool watchdog_rests_ = false;  // the watchdog rests, because it knows of no waiter
  std::list<Waiter> waiters_;
  std::vector<Outside> outside_;  // usually few
  Control* holder_ = nullptr;
  std::vector<Want> holder_passed_;
  std::chrono::milliseconds grace_{1000};
  bool stopping_ = false;
  std::thread holder_watchdog_;
  std::unique_ptr<sqlite::LockWaitListener> outside_listener_;
};

}  // namespace termgate::sqlite_file
