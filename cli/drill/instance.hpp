// drill: the user's command as a process tree that can be stopped, resumed and ended as a whole,
// and that never outlives the drill.
//
//   termgate drill ──socket──▶ termgate drill-keeper ──▶ COMMAND, a process group of its own, and whatever it starts
//
// The keeper is the parent of COMMAND. It also adopts the orphans that COMMAND leaves, including
// those that left its process group (PR_SET_CHILD_SUBREAPER). When the drill's end of the socket
// closes, for whatever reason, the keeper kills all of them, stopped or not. COMMAND itself is
// killed when its keeper dies (PR_SET_PDEATHSIG).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "run/descendants.hpp"

namespace termgate::cli::drill {

// One line of standard output or standard error.
struct Line {
  std::int64_t number;  // counted from 0 for each instance
  std::string text;     // without its newline; cut at line_bytes_max
};

// One thread.
class Instance {
 public:
  static constexpr std::size_t line_bytes_max = 16'384;
  // Bytes of output that are kept: the oldest lines are dropped beyond it.
  static constexpr std::size_t kept_bytes_max = 1 << 20;

  // Starts the command. `settings` are NAME=value pairs that replace environment variables.
  // Whatever reads output calls `on_line` for each line: this constructor, pump(), stop() and
  // end(). Throws UsageError if the command cannot be executed, or could not be stopped and ended;
  // Error if it was not started within 30 s, or there is no process or descriptor for it.
  Instance(int number, const std::vector<std::string>& command,
           const std::vector<std::string>& settings,
           std::function<void(int, const std::string&)> on_line);
  ~Instance();  // kills all processes that are left
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  int number() const { return number_; }
  pid_t pid() const { return pid_; }
  // Waits at most `wait` for output or news of the instances, and reads what is there: of each up
  // to 1 MiB of output.
  static void pump(const std::vector<Instance*>& instances, std::chrono::milliseconds wait);

  // Sends SIGSTOP to all its processes, then reads the output they wrote before. Throws Error if
  // one does not stop within 5 s, or the command has ended.
  void stop();
  void resume();
  // Sends SIGCONT and SIGTERM to all its processes, and SIGKILL after `patience`. Returns false if
  // SIGKILL was needed.
  bool end(std::chrono::milliseconds patience);

  bool running() const { return !status_; }  // the command itself
  // as from waitpid(); SIGKILL if the keeper was killed
  const std::optional<int>& status() const { return status_; }
  std::string how_it_ended() const;  // "with status 3", "by signal 9 (Killed)"
  const std::deque<Line>& lines() const { return lines_; }
  std::int64_t lines_so_far() const { return next_line_; }

 private:
  void send_order(char order);
  bool read_control();  // returns false if nothing was there
  bool read_output();
  void read_out();
  void take(std::string_view bytes);
  void add_line();
  bool await(const std::function<bool()>& what, std::chrono::milliseconds patience);

  const int number_;
  std::function<void(int, const std::string&)> on_line_;
  pid_t keeper_ = -1, pid_ = -1;
  int control_ = -1, output_ = -1;
  int failure_ = 0;  // errno of the failed exec
  std::optional<run::Obstacle> obstacle_;
  bool stopped_ = false, gone_ = false;
  std::optional<int> status_;
  std::string rest_;
  std::deque<Line> lines_;
  std::size_t kept_bytes_ = 0;
  std::int64_t next_line_ = 0;
};

int keep(const Arguments& arguments);  // the hidden command `drill-keeper`

}  // namespace termgate::cli::drill
