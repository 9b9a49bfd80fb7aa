// A process of inside.py: holds the lease of a scope, or waits for it, for as long as it lives.
//
//   live_holder URL SCOPE LOG TTL_MS
//
// While it trusts its lease it writes "PID TERM MS" into LOG, MS being a moment at which it had not
// yet looked whether it may: a process that is stopped between the look and the write has written
// no lie. The moments are those of CLOCK_BOOTTIME, which is one for all processes of a machine.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <termgate/database.hpp>

using namespace termgate;
using namespace std::chrono_literals;

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int log = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return 1;
  auto db = Database::open(argv[1]);
  const Scope scope(argv[2]);
  const std::chrono::milliseconds ttl(std::atoi(argv[4]));
  for (;;) {
    try {
      const HeldLease held = db.hold(scope, {.ttl = ttl, .wait = 1h});
      for (;;) {
        const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
                             BootClock::now().time_since_epoch())
                             .count();
        if (!held.still_held()) break;
        const std::string line = fmt::format("{} {} {}\n", getpid(), held.term().value(), now);
        if (write(log, line.data(), line.size()) < 0) return 1;
        std::this_thread::sleep_for(10ms);
      }
    } catch (const Error&) { std::this_thread::sleep_for(50ms); }  // the database is away
  }
}
