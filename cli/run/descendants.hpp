// The descendants of a process, to be stopped or ended: the watchdog uses this for COMMAND, and the
// drill for a service. It reads /proc. Orphans among a subreaper's descendants become its children,
// so none escapes by detaching itself.
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

// Why this process could not end its descendants.
enum class Obstacle : std::int32_t {
  no_descriptor,
  no_proc,
  other_proc,
  no_subreaper,
  no_process,
  not_found,
  not_ended,
  not_reaped
};
std::string_view text(Obstacle obstacle);

// The descendants of the process that creates this object. One thread.
class Descendants {
 public:
  // Children that the process has already are ignored: they belong to its caller.
  Descendants();
  ~Descendants();
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;

  // Makes this process the subreaper of its descendants. Then starts a child, finds it, ends it and
  // waits for its end. If all of that works, it works for later descendants too, and the result is
  // empty.
  std::optional<Obstacle> rehearse();

  // Lists the descendants, without zombies. Returns false if one could not be read; then look
  // again.
  bool look(std::vector<Descendant>& found);
  // Returns true if the signal was sent, or the process is gone.
  bool signal(const Descendant& one, int signal) const;
  // Sends SIGKILL to all of them until none is left, for 2,000 rounds of 2 ms at most. Returns the
  // number of those that it could not signal: they belong to another user, or seccomp refuses it.
  int kill_all();

 private:
  enum class Sight { seen, gone, failed };
  Sight see(pid_t pid, pid_t& parent, Descendant& one) const;
  bool children_of(pid_t parent, std::vector<pid_t>& children, bool& complete) const;

  // /proc, opened once, so that a later mount over it does not matter.
  int proc_;
  int why_ = 0;  // errno, if /proc could not be opened
  std::vector<Descendant> before_;
};

}  // namespace termgate::cli::run
