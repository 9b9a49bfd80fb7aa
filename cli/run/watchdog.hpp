// The watchdog of `termgate run`: a process between `termgate` and COMMAND that ends COMMAND and all that descends from it when the lease's
// time is up, also where `termgate` has been stopped or killed meanwhile. It is forked before the program has a thread or a connection, and
// does nothing but wait for a deadline, for words from `termgate`, and for its children.
//
//   termgate ── start, stop, end ──> watchdog (subreaper, process group of its own) ──> COMMAND (process group of its own) ──> …
//            <── started, stopped, ended ──
//
// What descends from COMMAND is found however it has detached itself: an orphan of a subreaper's descendants becomes the subreaper's child.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <termgate/boot_clock.hpp>

#include "run/descendants.hpp"

namespace termgate::cli::run {

// In memory that both processes share; lock-free. Nanoseconds of BootClock.
struct Deadlines {
  std::atomic<std::int64_t> stop_at{0};     // TERM to everything; moved on by each renewal
  std::atomic<std::int64_t> kill_at{0};     // KILL to what is left
  std::atomic<std::int64_t> watched_at{0};  // when the watchdog last looked at its clock
};

// To `termgate`, in order.
struct Report {
  enum class Kind : std::int32_t {
    ready,      // it has shown that it can end a process that descends from it
    refused,    // it cannot: value is the Obstacle
    started,    // value: COMMAND's process, whose group has the same number
    not_run,    // value: errno of exec
    stopped,    // COMMAND was stopped by a signal (value): job control
    exited,     // COMMAND exited with value; what it left behind is being ended
    signalled,  // COMMAND was ended by signal value
    vanished,   // COMMAND has ended, and how cannot be found out
    empty       // nothing is left of it. value: 1 where the watchdog had to end something because time was up
  };
  Kind kind;
  std::int32_t value;
};

// One that has not looked at its clock for so long is not waited for, though nothing else is wrong.
inline constexpr std::chrono::milliseconds silence_max{3000};

class Watchdog {
 public:
  // Forks. The caller has one thread and no connection. Throws UsageError where COMMAND could not be ended later: no /proc, a limit,
  // seccomp.
  Watchdog();
  ~Watchdog();  // end_all()
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_deadlines(BootClock::time_point stop_at, BootClock::time_point kill_at);
  // Starts COMMAND with `environment` (NAME=value) in place of ours. `foreground`: it gets the terminal.
  void start(const std::vector<std::string>& command, const std::vector<std::string>& environment, bool foreground);
  // TERM to everything now, KILL after `grace`.
  void stop(std::chrono::milliseconds grace);
  // COMMAND's own end was reported: whatever is left gets TERM, and KILL after `grace`.
  void clear(std::chrono::milliseconds grace) { stop(grace); }

  // Ends everything, at most a second after TERM, and returns when nothing is left.
  void end_all();

  // A watchdog that is stopped goes on (SIGCONT); nothing happens to one that runs.
  void wake() const;
  // Since it last looked at its clock: 50 ms at most while COMMAND runs, if all is well.
  std::chrono::milliseconds silence() const;
  // Kills the watchdog, which does not answer, and all that it keeps. next() then returns none.
  void replace();

  int descriptor() const noexcept { return socket_; }  // readable: a report, or the watchdog's end
  // None: the watchdog is gone, and what it kept was killed.
  std::optional<Report> next();

 private:
  void send_order(const void* data, std::size_t size);

  Deadlines* deadlines_ = nullptr;
  int socket_ = -1;
  pid_t watchdog_ = -1;
  Descendants descendants_;  // before the watchdog is one of them
};

}  // namespace termgate::cli::run
