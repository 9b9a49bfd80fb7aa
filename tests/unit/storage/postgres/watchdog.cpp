// A watch that is over ends the wait on its socket and on no other; one that is dismissed in time
// ends nothing.
#include <catch2/catch.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "watchdog.hpp"

using namespace std::chrono_literals;
using termgate::detail::Watchdog;

namespace {

struct Pair {
  Pair() {
    // No REQUIRE: Catch2 checks on one thread only, and this is made on several.
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("socketpair");
  }
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  bool ended(int wait_ms) const {
    pollfd descriptor{ends[0], POLLIN, 0};
    char byte = 0;
    return poll(&descriptor, 1, wait_ms) == 1 && recv(ends[0], &byte, 1, 0) == 0;
  }
  int ends[2];
};

}  // namespace

TEST_CASE("watchdog: each watch in turn ends its own socket", "[postgres]") {
  Watchdog watchdog;
  // One after the other: the thread must take up a watch that comes while it has nothing to wait
  // for.
  for (int i = 0; i < 3; ++i) {
    Pair watched, other;
    const Watchdog::Watch watch(watchdog, watched.ends[0], Watchdog::Clock::now() + 20ms);
    CHECK(watched.ended(5000));
    CHECK(watch.over());
    CHECK_FALSE(other.ended(0));
  }
}

TEST_CASE("watchdog: an earlier deadline overtakes a later one", "[postgres]") {
  Watchdog watchdog;
  Pair late, early;
  const Watchdog::Watch first(watchdog, late.ends[0], Watchdog::Clock::now() + 1h);
  std::this_thread::sleep_for(10ms);  // the thread waits for the hour by now
  const Watchdog::Watch second(watchdog, early.ends[0], Watchdog::Clock::now() + 20ms);
  CHECK(early.ended(5000));
  CHECK(second.over());
  CHECK_FALSE(first.over());
  CHECK_FALSE(late.ended(0));
}

TEST_CASE("watchdog: a watch dismissed in time ends nothing", "[postgres]") {
  Watchdog watchdog;
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      Pair watched;
      for (int i = 0; i < 500; ++i) {
        const Watchdog::Watch watch(watchdog, watched.ends[0], Watchdog::Clock::now() + 10s);
        if (watch.over()) ++ended;
      }
      if (watched.ended(0)) ++ended;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(ended == 0);
}
