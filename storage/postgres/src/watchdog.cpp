// Gives up connections whose server has fallen silent: at its deadline a socket is shut down, and
// the call that waits on it fails. libpq's blocking calls have no timeout of their own. One thread,
// begun with the first watch.
#include "watchdog.hpp"

#include <sys/socket.h>

namespace termgate {
inline namespace v0 {
namespace detail {

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Watchdog::Key Watchdog::add(int socket, Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
  const Key key{deadline, ++last_};
  const auto added = sockets_.emplace(key, socket).first;
  // The thread must only wake earlier if this deadline is the first of all.
  if (added == sockets_.begin()) changed_.notify_one();
  return key;
}

void Watchdog::remove(const Key& key) {
  const std::lock_guard lock(mutex_);
  sockets_.erase(key);
}

bool Watchdog::is_over(const Key& key) {
  const std::lock_guard lock(mutex_);
  return sockets_.at(key) == -1;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    for (auto& [key, socket] : sockets_) {
      if (key.first > now) {
        next = key.first;
        break;
      }
      // Under the lock, so that the watch, and with it the socket, still exists.
      if (socket != -1) shutdown(socket, SHUT_RDWR);
      // Marked and kept, because is_over() is called before remove().
      socket = -1;
    }
    if (next == Clock::time_point::max()) changed_.wait(lock);
    else changed_.wait_until(lock, next);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
