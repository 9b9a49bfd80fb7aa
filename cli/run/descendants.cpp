#include "run/descendants.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

namespace termgate::cli::run {
namespace {

bool is_gone(int why) { return why == ENOENT || why == ESRCH; }

// Opens a folder; returns nullptr and leaves errno if it cannot.
DIR* folder_at(int at, const char* path) {
  const int folder = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return nullptr;
  DIR* const opened = fdopendir(folder);
  if (opened == nullptr) close(folder);
  return opened;
}

template <class Each>
void for_each_number(DIR* folder, Each each) {
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
      each(static_cast<pid_t>(std::atol(entry->d_name)));
  }
  closedir(folder);
}

bool read_text(int at, const char* path, std::string& text) {
  const int file = openat(at, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char part[4096];
  ssize_t got = 0;
  while ((got = read(file, part, sizeof part)) > 0)
    text.append(part, static_cast<std::size_t>(got));
  const int why = errno;
  close(file);
  errno = why;
  return got == 0;
}

}  // namespace

std::string_view text(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::no_descriptor: return "there are too few file descriptors (ulimit -n)";
    case Obstacle::no_proc:
      return "/proc is not mounted or cannot be read, so that they cannot be found; mount it "
             "(mount -t proc proc /proc)";
    case Obstacle::other_proc:
      return "/proc is another PID namespace's, so that they cannot be found; mount this one's "
             "(unshare --pid --fork --mount-proc)";
    case Obstacle::no_subreaper:
      return "prctl(PR_SET_CHILD_SUBREAPER) is refused here (seccomp?), so that one which detaches "
             "itself is lost";
    case Obstacle::no_process:
      return "no process can be started (ulimit -u, or the control group's pids.max)";
    case Obstacle::not_found: return "a child of termgate's is not shown in /proc";
    case Obstacle::not_ended:
      return "kill() and pidfd_send_signal() are both refused here (seccomp?)";
    case Obstacle::not_reaped: return "waitpid() does not report the end of a child";
  }
  return "";
}

Descendants::Descendants() : proc_(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), why_(errno) {
  std::vector<Descendant> found;
  look(found);
  before_ = std::move(found);
}

Descendants::~Descendants() {
  if (proc_ >= 0) close(proc_);
}

std::optional<Obstacle> Descendants::rehearse() {
  if (proc_ < 0)
    return why_ == EMFILE || why_ == ENFILE ? Obstacle::no_descriptor : Obstacle::no_proc;
  char self[32] = "";
  if (readlinkat(proc_, "self", self, sizeof self - 1) <= 0) return Obstacle::no_proc;
  if (std::atol(self) != getpid()) return Obstacle::other_proc;
  int reaper = 0;
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || prctl(PR_GET_CHILD_SUBREAPER, &reaper) != 0 ||
      reaper != 1)
    return Obstacle::no_subreaper;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Obstacle::no_descriptor;
  const pid_t child = fork();
  if (child == 0) {
    // If the parent cannot kill this child, it ends when the other end of the pipe is closed.
    close(ends[1]);
    char none = 0;
    while (read(ends[0], &none, 1) < 0 && errno == EINTR) {}
    _exit(0);
  }
  close(ends[0]);
  if (child < 0) {
    close(ends[1]);
    return Obstacle::no_process;
  }
  std::vector<Descendant> found;
  bool complete = look(found);
  const auto is_it = [&](const Descendant& one) { return one.pid == child; };
  // A single look may miss a child. If 25 miss it, the kernel does not show it.
  for (int round = 0; round < 25 && std::none_of(found.begin(), found.end(), is_it); ++round) {
    usleep(2000);
    complete = look(found);
  }
  const auto it = std::find_if(found.begin(), found.end(), is_it);
  if (it != found.end()) signal(*it, SIGKILL);
  close(ends[1]);
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {}
  if (it == found.end()) return complete ? Obstacle::not_found : Obstacle::no_proc;
  if (ended != child) return Obstacle::not_reaped;
  return WIFSIGNALED(status) ? std::nullopt : std::optional(Obstacle::not_ended);
}

Descendants::Sight Descendants::see(pid_t pid, pid_t& parent, Descendant& one) const {
  char path[64];
  std::snprintf(path, sizeof path, "%d/stat", static_cast<int>(pid));
  std::string text;
  if (!read_text(proc_, path, text)) return is_gone(errno) ? Sight::gone : Sight::failed;
  // The format is: pid (name) state parent …. The name may contain anything, so search for its end
  // from the back. Field 22 is the start time.
  const auto at = text.rfind(')');
  int number = 0;
  unsigned long long start = 0;
  if (at == std::string::npos ||
      std::sscanf(text.c_str() + at + 1,
                  " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &one.state, &number, &start) != 3)
    return Sight::gone;
  parent = number;
  one.pid = pid;
  one.start = start;
  return Sight::seen;
}

// Reads the kernel's own lists of children, one for each thread that has created some. Returns
// false if this kernel has no such lists. A list may miss a child while another one ends; the next
// look finds it.
bool Descendants::children_of(pid_t parent, std::vector<pid_t>& children, bool& complete) const {
  char path[64];
  std::snprintf(path, sizeof path, "%d/task", static_cast<int>(parent));
  DIR* const threads = folder_at(proc_, path);
  if (threads == nullptr) {
    if (!is_gone(errno)) complete = false;
    return true;
  }
  bool kept = true;
  for_each_number(threads, [&](pid_t thread) {
    char list[64];
    std::snprintf(list, sizeof list, "%d/task/%d/children", static_cast<int>(parent),
                  static_cast<int>(thread));
    std::string text;
    if (!read_text(proc_, list, text)) {
      // The list of our own thread must exist, if the kernel has lists.
      if (!is_gone(errno)) complete = false;
      else if (parent == getpid()) kept = false;
      return;
    }
    for (const char* at = text.c_str(); *at != '\0';) {
      char* end = nullptr;
      const long pid = std::strtol(at, &end, 10);
      if (end == at) break;
      children.push_back(static_cast<pid_t>(pid));
      at = *end == ' ' ? end + 1 : end;
    }
  });
  return kept;
}

bool Descendants::look(std::vector<Descendant>& found) {
  found.clear();
  std::vector<pid_t> open = {getpid()}, children;
  // Children by parent, for kernels without these lists; slow on a host with thousands of
  // processes.
  std::multimap<pid_t, pid_t> all;
  bool listed = true, complete = true;
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    children.clear();
    if (listed && !children_of(parent, children, complete)) {
      listed = false;
      children.clear();
      DIR* const everybody = folder_at(proc_, ".");
      if (everybody == nullptr) return false;
      for_each_number(everybody, [&](pid_t pid) {
        pid_t its_parent = 0;
        Descendant one{};
        if (see(pid, its_parent, one) == Sight::seen) all.insert({its_parent, pid});
      });
    }
    if (!listed)
      for (auto [at, end] = all.equal_range(parent); at != end; ++at)
        children.push_back(at->second);
    for (const pid_t child : children) {
      pid_t its_parent = 0;
      Descendant one{};
      const Sight sight = see(child, its_parent, one);
      if (sight == Sight::failed) complete = false;
      // The number may belong to another process by now. If its parent died, it is an orphan and
      // thus our child, and the next look finds it.
      if (sight != Sight::seen || its_parent != parent) continue;
      if (std::any_of(before_.begin(), before_.end(), [&](const Descendant& old) {
            return old.pid == child && old.start == one.start;
          }))
        continue;
      open.push_back(child);
      if (one.state != 'Z' && one.state != 'X') found.push_back(one);
    }
  }
  return complete;
}

bool Descendants::signal(const Descendant& one, int signal) const {
  // The process's number may have been reused since it was read. A pidfd refers to one process, so
  // its start time can be compared before the signal is sent.
  const int process = static_cast<int>(syscall(SYS_pidfd_open, one.pid, 0));
  if (process < 0 && errno == ESRCH) return true;
  pid_t parent = 0;
  Descendant now{};
  const Sight sight = see(one.pid, parent, now);
  const bool other = sight == Sight::gone || (sight == Sight::seen && now.start != one.start);
  bool sent = other;
  if (process >= 0) {
    sent =
        sent || syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0) == 0 || errno == ESRCH;
    close(process);
  }
  // For systems where seccomp refuses these calls.
  return sent || kill(one.pid, signal) == 0 || errno == ESRCH;
}

int Descendants::kill_all() {
  int empty = 0;
  std::vector<Descendant> all;
  for (int round = 0;; ++round) {
    // Orphans among a subreaper's descendants become its children. So when it has no child none is
    // left, whatever a look at /proc missed.
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {}
    if (ended < 0 && errno == ECHILD) return 0;
    const bool complete = look(all);
    int left = 0;
    for (const Descendant& one : all) left += signal(one, SIGKILL) ? 0 : 1;
    empty = complete && all.empty() ? empty + 1 : 0;
    if (empty == 2) return 0;
    if ((!all.empty() && left == static_cast<int>(all.size())) || round > 2000) return left;
    usleep(2000);
  }
}

}  // namespace termgate::cli::run
