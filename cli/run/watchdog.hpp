// The watchdog of `termgate run`: a process between `termgate` and COMMAND that ends COMMAND and
// all its descendants when the lease's time is up, even if `termgate` has been stopped or killed.
// It is forked before the program has a second thread or a connection. It only waits for a
// deadline, for orders from `termgate`, and for its children.
//
//   termgate ── start, stop, end ──> watchdog (subreaper, process group of its own) ──> COMMAND (process group of its own) ──> …
//            <── started, stopped, ended ──
//
// Descendants of COMMAND are found even if they detach themselves: an orphan among a subreaper's
// descendants becomes the subreaper's child.
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

// Deadlines in memory that both processes share; lock-free. Nanoseconds of BootClock.
struct Deadlines {
  std::atomic<std::int64_t> stop_at{0};     // SIGTERM to everything; each renewal moves it
  std::atomic<std::int64_t> kill_at{0};     // SIGKILL to what is left
  std::atomic<std::int64_t> watched_at{0};  // when the watchdog last looked at its clock
};

// A message from the watchdog to `termgate`. Messages arrive in the order in which they were sent.
struct Report {
  enum class Kind : std::int32_t {
    ready,      // it has tested that it can end a descendant
    refused,    // it cannot end a descendant; value is the Obstacle
    started,    // value: COMMAND's process id, which is also its process group's
    not_run,    // value: errno of exec
    stopped,    // COMMAND was stopped by a signal (value): job control
    exited,     // COMMAND exited with value; what it left behind is being ended
    signalled,  // COMMAND was ended by signal value
    vanished,   // COMMAND has ended, but its status is lost
    empty       // no process is left; value: 1 if the watchdog had to end one because time was up
  };
  Kind kind;
  std::int32_t value;
};

// A watchdog that has not looked at its clock for so long is replaced, even if nothing else is
// wrong.
inline constexpr std::chrono::milliseconds silence_max{3000};

class Watchdog {
 public:
  // Forks the watchdog. The caller must have one thread and no connection. Throws UsageError if
  // COMMAND could not be ended later (no /proc, a limit, or seccomp), std::system_error if there is
  // no memory, socket or process for the watchdog.
  Watchdog();
  ~Watchdog();  // calls end_all()
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_deadlines(BootClock::time_point stop_at, BootClock::time_point kill_at);
  // Starts COMMAND with `environment` (NAME=value) instead of ours. With `foreground` it gets the
  // terminal.
  void start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             bool foreground);
  // Sends SIGTERM to all processes now, and SIGKILL after `grace`.
  void stop(std::chrono::milliseconds grace);
  // Call it when COMMAND itself has ended: its remaining processes get SIGTERM, and SIGKILL after
  // `grace`.
  void clear(std::chrono::milliseconds grace) { stop(grace); }

  // Ends all processes, at most a second after SIGTERM, and returns when none is left.
  void end_all();

  // Sends SIGCONT, in case the watchdog was stopped.
  void wake() const;
  // The time since it last looked at its clock: normally at most 50 ms while COMMAND runs.
  std::chrono::milliseconds silence() const;
  // Kills a watchdog that does not respond, and all its descendants. Once its last reports are
  // read, next() returns nothing.
  void replace();

  // Readable when there is a report, or the watchdog has ended.
  int descriptor() const noexcept { return socket_; }
  // Waits for the next report. Empty if the watchdog has ended; its descendants are then killed.
  std::optional<Report> next();

 private:
  void send_order(const void* data, std::size_t size);

  Deadlines* deadlines_ = nullptr;
  int socket_ = -1;
  pid_t watchdog_ = -1;
  // Created before the watchdog, so that the watchdog counts as a descendant.
  Descendants descendants_;
};

}  // namespace termgate::cli::run
