// What descends from a process, to be stopped or ended: the watchdog's view of COMMAND, and the drill's of a service. By /proc; a
// subreaper's descendants stay its own however they detach themselves.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace termgate::cli::run {

struct Descendant {
  pid_t pid;
  std::uint64_t start;  // distinguishes it from a later process with the same number
  char state;           // as in /proc/PID/stat
};

// Why what descends from this process could not be ended.
enum class Obstacle : std::int32_t { no_descriptor, no_proc, other_proc, no_subreaper, no_process, not_found, not_ended, not_reaped };
std::string_view text(Obstacle obstacle);

// What descends from the process that makes it. One thread.
class Descendants {
 public:
  // The children that the process has already are its caller's, not ours: they are left out.
  Descendants();
  ~Descendants();
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;

  // Makes this process the subreaper of its descendants, then starts a child, finds it, ends it and learns of its end. None: all of that
  // worked, so it works for whatever else this process starts.
  std::optional<Obstacle> rehearse();

  // Zombies left out. False: something could not be looked at; look again.
  bool look(std::vector<Descendant>& found);
  // True: it was sent, or the process is gone.
  bool signal(const Descendant& one, int signal) const;
  // KILL to all of them, until nothing is left. Processes of other users that we may not signal are left, and counted.
  int kill_all();

 private:
  enum class Sight { seen, gone, failed };
  Sight see(pid_t pid, pid_t& parent, Descendant& one) const;
  bool children_of(pid_t parent, std::vector<pid_t>& children, bool& complete) const;

  int proc_;     // opened once: it stays what it was, whatever is mounted there later
  int why_ = 0;  // errno, if it could not be opened
  std::vector<Descendant> before_;
};

}  // namespace termgate::cli::run
