// Tells the process that holds a file's write lock that others wait for it. SQLite's waiters poll
// and leave no trace in the file. Without this, a server with the lock could neither make room for
// them nor end a client that blocks a higher term (F4).
//
// A waiter sends a datagram to the process that the kernel's list of locks names: to an abstract
// Unix socket, named by process and file, so nothing is left on any disk. If that process does not
// listen, is in another network namespace, or belongs to another user (unless the waiter is root),
// nothing happens, and the waiter polls on. F1 to F3 do not depend on this.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include <termgate/detail/sqlite/sqlite_api.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// One wait. One thread.
class LockWait {
 public:
  // How long a waiter sleeps between two attempts at most; a holder that makes room leaves the lock
  // free for longer.
  static constexpr std::chrono::milliseconds pause_max{5};
  static constexpr std::chrono::milliseconds first_after{20};
  static constexpr std::chrono::milliseconds every{100};

  // `scope` is empty if the wait is not for a check. Both must outlive the LockWait.
  LockWait(sqlite3* db, std::string_view scope, std::int64_t term) noexcept
      : db_(db), scope_(scope), term_(term) {}
  // Between two attempts: announces the wait now and then, and sleeps as long as is useful, at most
  // `at_most`.
  void pause(std::chrono::milliseconds at_most);

 private:
  // False: the holder is not known.
  bool send_notice() const;

  sqlite3* const db_;
  const std::string_view scope_;
  const std::int64_t term_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_ = since_ + first_after;
  std::chrono::milliseconds pause_{1};
};

// What one waiter has announced.
struct LockWaitNotice {
  int pid = 0;
  std::string scope;  // empty: anybody
  std::int64_t term = 0;
};

class LockWaitListener {
 public:
  // `heard` is called on a thread of the listener, again each LockWait::every while the waiter
  // waits. If listening is impossible (no such file, another listener of this process for the same
  // file), nothing happens.
  LockWaitListener(const std::string& path, std::function<void(const LockWaitNotice&)> heard);
  ~LockWaitListener();
  LockWaitListener(const LockWaitListener&) = delete;
  LockWaitListener& operator=(const LockWaitListener&) = delete;

 private:
  void listen();

  const std::function<void(const LockWaitNotice&)> heard_;
  int socket_ = -1;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
