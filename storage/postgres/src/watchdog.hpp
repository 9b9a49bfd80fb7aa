// Ends the wait for a server that no longer answers: if a watch expires before it is dismissed, its
// socket is shut down, and the call that waits for an answer on it finds the connection lost. libpq
// itself waits without limit. Any thread; one thread of its own, started with the first watch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace termgate {
inline namespace v0 {
namespace detail {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  Watchdog() = default;
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Watches `socket` from construction to destruction; the socket must stay open for that long.
  class Watch {
   public:
    Watch(Watchdog& watchdog, int socket, Clock::time_point deadline)
        : watchdog_(watchdog), key_(watchdog.add(socket, deadline)) {}
    ~Watch() { watchdog_.remove(key_); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    // Whether the socket was shut down.
    bool over() const { return watchdog_.is_over(key_); }

   private:
    Watchdog& watchdog_;
    std::pair<Clock::time_point, std::uint64_t> key_;
  };

 private:
  using Key = std::pair<Clock::time_point, std::uint64_t>;

  Key add(int socket, Clock::time_point deadline);
  void remove(const Key& key);
  bool is_over(const Key& key);
  void watch();

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::map<Key, int> sockets_;  // -1: shut down
  std::uint64_t last_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace detail
}  // namespace v0
}  // namespace termgate
