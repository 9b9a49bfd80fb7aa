// drill: the user's command as a process tree that can be stopped, resumed and ended as one, and that never outlives the drill.
//
//   termgate drill ──socket──▶ termgate drill-keeper ──▶ COMMAND, a process group of its own, and whatever it starts
//
// The keeper is the parent, and adopts what the command leaves behind (PR_SET_CHILD_SUBREAPER), also what has left its process group. When
// the drill's end of the socket closes, however it died, the keeper kills all of it, stopped or not. COMMAND itself dies with its keeper
// (PR_SET_PDEATHSIG).
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

// What a process said, a line of standard output or standard error.
struct Line {
  std::int64_t number;  // from 0 on, for each instance
  std::string text;     // without its newline; cut at line_bytes_max
};

// One thread.
class Instance {
 public:
  static constexpr std::size_t line_bytes_max = 16'384;
  static constexpr std::size_t kept_bytes_max = 1 << 20;  // of lines; older ones are forgotten

  // Starts the command. `settings`: NAME=value, in place of what the environment has under these names. `said` is called for each line,
  // from pump(). Throws UsageError where the command cannot be executed, or could not be stopped and ended.
  Instance(int number, const std::vector<std::string>& command, const std::vector<std::string>& settings,
           std::function<void(int, const std::string&)> on_line);
  ~Instance();  // kills what is left of it
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  int number() const { return number_; }
  pid_t pid() const { return pid_; }
  // Reads what there is to read; waits for something at most `wait`.
  static void pump(const std::vector<Instance*>& instances, std::chrono::milliseconds wait);

  // SIGSTOP to all of it, and reads out what it had said before. Throws Error where it does not stop.
  void stop();
  void resume();
  // SIGCONT and SIGTERM to all of it; SIGKILL after `patience`. False: it had to be killed.
  bool end(std::chrono::milliseconds patience);

  bool running() const { return !status_; }                     // the command itself
  const std::optional<int>& status() const { return status_; }  // as waitpid gives it
  std::string how_it_ended() const;                             // "with status 3", "by signal 9 (Killed)"
  const std::deque<Line>& lines() const { return lines_; }
  std::int64_t lines_so_far() const { return next_line_; }

 private:
  void send_order(char order);
  bool read_control();  // false: nothing there
  bool read_output();
  void read_out();
  void take(std::string_view bytes);
  void add_line();
  bool await(const std::function<bool()>& what, std::chrono::milliseconds patience);

  const int number_;
  std::function<void(int, const std::string&)> on_line_;
  pid_t keeper_ = -1, pid_ = -1;
  int control_ = -1, output_ = -1;
  int failure_ = 0;  // errno of the execution
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
