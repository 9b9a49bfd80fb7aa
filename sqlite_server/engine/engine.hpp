// Engine: one SQLite file for many sessions. A session reads on a connection that it borrows from a pool. There is one
// writer, storage/sqlite's WriteQueue: a session must hold its baton to write. Autocommit writes share a commit; a block keeps the
// baton until it ends.
//
// A session that waits for the baton gives the scope and term that it waits for. The holder watchdog (F4) ends
//   - a session that has passed a waiter's scope with a lower term, after the eviction grace;
//   - a session that keeps the baton while its client sends nothing, after `idle_holder_max`.
// Processes that wait through the library, the command or the extension announce it (lock_wait.hpp) and count like sessions. Other
// processes that wait for the file cannot be seen, because SQLite's waiters leave no trace.
//
// Owner: the server that serves the file. Threads: any thread may call; the sessions' threads, the watchdog's and the listener's do. Each
// mutex names what it guards; no two of the engine's mutexes are held at once.
// Invariants, asserted in debug builds:
//   - idle connections are open ones, and at most `connections_max` are open;
//   - at most one session holds the baton, and only that one uses the writer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <termgate/dialect/translate.hpp>

#include <termgate/detail/fence_memory.hpp>

#include "engine/sql_connection.hpp"
#include "engine/shapes.hpp"
#include "session/plan.hpp"
#include <termgate/detail/sqlite/lock_wait.hpp>
#include <termgate/detail/sqlite/write_queue.hpp>

namespace termgate::sqlite_server {

struct Want {
  std::string scope;
  std::int64_t term = 0;
};

struct EngineOptions {
  std::string path;
  std::size_t connections_max = 128;
  std::chrono::milliseconds idle_holder_max{3000};
  std::function<void(sqlite3*)> install = {};
  // What earlier engines of the path have seen of fences; none: nothing yet.
  std::shared_ptr<detail::FenceMemory> memory = {};
  // Called once, on a thread of the engine's, when the file is found to have been moved or replaced.
  std::function<void()> on_moved = {};
};

class Engine {
 public:
  using Clock = std::chrono::steady_clock;

  // Opens the file, which must exist. Throws what storage/sqlite throws.
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A connection that reads. Throws PgException 53300 where all are at work for too long.
  std::unique_ptr<SqlConnection> borrow();
  void put_back(std::unique_ptr<SqlConnection> connection) noexcept;
  // A connection for one session's temporary tables, which go with it. Throws PgException 53300 where there are too many.
  std::unique_ptr<SqlConnection> open_temporary();
  void close_temporary(std::unique_ptr<SqlConnection> connection) noexcept;

  // `work` as a member of a group commit; returns after the flush. Throws what `work` throws, and what the commit met; sqlite::GaveUp
  // where the session was cancelled, ended or timed out while it waited for its turn. `wait`: where less than check_wait().
  void group(Control& control, const Want& want, std::optional<std::chrono::milliseconds> wait,
             const std::function<void(SqlConnection&, bool shared)>& work);
  // For a block: the baton, on the caller's thread until give_turn().
  void take_turn(Control& control, const Want& want, std::optional<std::chrono::milliseconds> wait);
  void give_turn() noexcept;
  // The connection of the group commits, for the session that has the baton.
  SqlConnection& writer() noexcept { return *writer_; }
  // The session that has the baton has passed the check of `scope` with `term`.
  void passed(std::string scope, std::int64_t term);
  // Its transaction has committed: a raise that was rolled back is none.
  void committed(const std::vector<Want>& passed);
  // The highest fence that was seen of the scope at this path, in whatever file that was.
  detail::FenceMemory& memory() noexcept { return *memory_; }

  // The path no longer names the open file. Nothing is written then; a client that gets this error connects again.
  bool moved() const noexcept { return moved_; }
  void note_moved() noexcept;

  // The statements of a text; a memory of the last ones.
  // `relations`: where the session has seen a newer schema than the engine; `declared`: the parameters' types.
  Plans plan(const std::string& text, const std::vector<dialect::Oid>& declared = {},
             std::shared_ptr<const FileRelations> relations = nullptr);

  // When it was opened, since 1970.
  std::int64_t began_us() const noexcept { return began_us_; }
  std::int64_t commits() const noexcept { return queue_->commits(); }

 private:
  class Waiting;
  Plans plan_by_shape(const std::string& text, const Shape& shape, const FileRelations& relations);
  void hold(Control* control);
  void watch();
  void heard(const sqlite::LockWaitNotice& notice);

  const EngineOptions options_;
  const std::int64_t began_us_ =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  OpenAs how_;
  std::unique_ptr<SqlConnection> writer_;
  std::unique_ptr<sqlite::WriteQueue> queue_;

  std::mutex connections_mutex_;  // guards idle_ and open_
  std::condition_variable connection_free_;
  std::deque<std::unique_ptr<SqlConnection>> idle_;  // the next to be borrowed is the last
  std::size_t open_ = 0;
  std::atomic<std::size_t> temporary_{0};  // connections that one session has for itself

  std::mutex plans_mutex_;  // guards plans_, templates_ and relations_
  std::unordered_map<std::string, Plans> plans_;
  struct KnownShape {
    std::shared_ptr<const Template> made;  // nullptr: its translation needs the values
    std::uint64_t schema = 0;
  };
  std::unordered_map<std::string, KnownShape> shapes_;
  std::shared_ptr<const FileRelations> relations_;  // what was seen last

  const std::shared_ptr<detail::FenceMemory> memory_;
  sqlite::FileWatch file_;  // the holder watchdog's
  std::atomic<bool> moved_{false};
  bool moved_reported_ = false;  // the holder watchdog's

  std::mutex watch_mutex_;  // guards what follows
  std::condition_variable watched_;
  bool watchdog_rests_ = false;  // under watch_mutex_: nobody waits, so far as it knows
  struct Waiter {
    Want want;
    Clock::time_point since;
  };
  std::list<Waiter> waiters_;
  struct Outside {
    int pid;
    Waiter waiter;
    Clock::time_point heard;
  };
  std::vector<Outside> outside_;  // few
  Control* holder_ = nullptr;
  std::vector<Want> holder_passed_;
  std::chrono::milliseconds grace_{1000};
  bool stopping_ = false;
  std::thread holder_watchdog_;
  std::unique_ptr<sqlite::LockWaitListener> outside_listener_;
};

}  // namespace termgate::sqlite_server
