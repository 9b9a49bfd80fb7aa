// How soon a lease changes hands: after a release, and after its holder was killed.
//
//   bench_takeovers URL RELEASES KILLS TTL_MS
//
// The holder and the waiter have connections of their own: a waiter in the same Database would be
// woken without the database. Two lines: from before the release's call until the waiter holds the
// lease, and from kill -9 of the holder's process until then.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

using namespace termgate;
using namespace std::chrono;
using namespace std::chrono_literals;

namespace {

void say(const char* what, std::vector<double> took_ms) {
  std::sort(took_ms.begin(), took_ms.end());
  const auto at = [&](double share) {
    return took_ms[static_cast<std::size_t>(share * static_cast<double>(took_ms.size() - 1))];
  };
  fmt::print("{}: {} times, p50 {:.1f} ms, p99 {:.1f} ms, most {:.1f} ms\n", what, took_ms.size(),
             at(0.5), at(0.99), took_ms.back());
  std::fflush(stdout);
}

double ms_since(steady_clock::time_point from) {
  return duration<double, std::milli>(steady_clock::now() - from).count();
}

// In a process of its own, which says by a byte that it holds the lease.
int hold(const char* url, const char* scope, milliseconds ttl) {
  auto db = Database::open(url);
  const HeldLease held = db.hold(Scope(scope), {.ttl = ttl, .wait = 1min});
  if (write(STDOUT_FILENO, "h", 1) != 1) return 1;
  std::this_thread::sleep_for(1h);
  return 0;
}

pid_t start_holder(const char* self, const char* url, const std::string& scope, milliseconds ttl) {
  int said[2];
  if (pipe(said) != 0) std::abort();
  const std::string ttl_ms = std::to_string(ttl.count());
  const pid_t child = fork();
  if (child == 0) {
    dup2(said[1], STDOUT_FILENO);
    execl(self, self, "--hold", url, scope.c_str(), ttl_ms.c_str(), nullptr);
    _exit(1);
  }
  close(said[1]);
  char byte = 0;
  const bool holds = read(said[0], &byte, 1) == 1;
  close(said[0]);
  if (!holds) throw std::runtime_error("the holder ended before it held the lease");
  return child;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--hold") == 0)
    return hold(argv[2], argv[3], milliseconds(std::atoi(argv[4])));
  if (argc != 5) return 2;
  const milliseconds ttl(std::atoi(argv[4]));
  auto mine = Database::open(argv[1]), other = Database::open(argv[1]);
  Operator(mine).install();
  std::vector<double> released, killed;
  const Scope scope("takeovers");
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    HeldLease held = mine.hold(scope, {.ttl = 30s});
    double took = 0;
    std::atomic<bool> waits{false};
    steady_clock::time_point from;
    std::thread waiter([&] {
      waits = true;
      HeldLease next = other.hold(scope, {.ttl = 30s, .wait = 1min});
      took = ms_since(from);
    });
    // Long enough that the waiter polls seldom: what wakes it soon is the notification, where there
    // is one.
    while (!waits) std::this_thread::yield();
    std::this_thread::sleep_for(300ms);
    from = steady_clock::now();
    held.release();
    waiter.join();
    released.push_back(took);
  }
  if (!released.empty()) say("held after a release", released);
  for (int i = 0; i < std::atoi(argv[3]); ++i) {
    const pid_t holder = start_holder("/proc/self/exe", argv[1], "killed", ttl);
    std::thread harm;
    steady_clock::time_point from;
    harm = std::thread([&] {
      // Anywhere between two renewals.
      std::this_thread::sleep_for(ttl / 2 + ttl * (i % 7) / 14);
      from = steady_clock::now();
      kill(holder, SIGKILL);
    });
    const HeldLease next = other.hold(Scope("killed"), {.ttl = ttl, .wait = 10min});
    const auto at = steady_clock::now();
    harm.join();
    waitpid(holder, nullptr, 0);
    killed.push_back(duration<double, std::milli>(at - from).count());
  }
  if (!killed.empty()) {
    fmt::print("TTL {} ms. ", ttl.count());
    say("Held after kill -9 of the holder", killed);
  }
}
