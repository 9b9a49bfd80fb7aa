#include "watchdog.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include <termgate/detail/alarm.hpp>

namespace termgate::cli::run {
namespace {

using std::chrono::milliseconds;

struct Order {
  enum class Kind : std::int32_t { start, stop };
  Kind kind;
  std::int32_t value;                     // start: 1 for the terminal; stop: grace in ms
  std::uint32_t words, variables, bytes;  // start: what follows, each text closed by NUL
};

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::system_category(), what); }

bool read_all(int from, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(from, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int to, const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = send(to, at, size, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

// One process's parent, state and start, by /proc; false: it is gone.
struct Seen {
  pid_t parent = 0;
  char state = 'Z';
  std::uint64_t start = 0;
};
bool look_at(const char* pid, Seen& seen) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  char text[1024];
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return false;
  text[size] = '\0';
  // pid (name) state parent …; the name may hold anything, so its end is looked for from behind.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return false;
  int parent = 0;
  unsigned long long start = 0;
  // Field 22 is the moment it was started: it distinguishes a process from a later one with the same number.
  if (std::sscanf(at + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &seen.state, &parent,
                  &start) != 3)
    return false;
  seen.parent = parent;
  seen.start = start;
  return true;
}

struct Descendant {
  pid_t pid;
  std::uint64_t start;
};

// The children of a process, by the kernel's own lists, one for each thread that made some. false: this kernel keeps none. A list may miss
// a child while another one ends; it is then found in the next look.
bool children_of(pid_t parent, std::vector<pid_t>& children) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", static_cast<int>(parent));
  DIR* threads = opendir(path);
  if (threads == nullptr) return true;  // the process is gone
  bool kept = true;
  while (const dirent* entry = readdir(threads)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    std::snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", static_cast<int>(parent), entry->d_name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      // Of our own thread it must be there.
      if (parent == getpid()) kept = false;
      continue;
    }
    std::string text;
    char part[4096];
    for (ssize_t got = 0; (got = read(file, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(got));
    close(file);
    for (const char* at = text.c_str(); *at != '\0';) {
      char* end = nullptr;
      const long pid = std::strtol(at, &end, 10);
      if (end == at) break;
      children.push_back(static_cast<pid_t>(pid));
      at = *end == ' ' ? end + 1 : end;
    }
  }
  closedir(threads);
  return kept;
}

// The same from the parent of every process, for a kernel without these lists: slow on a host with thousands of processes.
std::multimap<pid_t, pid_t> all_children() {
  std::multimap<pid_t, pid_t> children;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return children;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    Seen seen;
    if (look_at(entry->d_name, seen)) children.insert({seen.parent, static_cast<pid_t>(std::atol(entry->d_name))});
  }
  closedir(folder);
  return children;
}

// All that descends from this process; zombies left out.
std::vector<Descendant> descendants() {
  std::vector<Descendant> found;
  std::vector<pid_t> open = {getpid()}, children;
  std::multimap<pid_t, pid_t> all;
  bool listed = true;
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    children.clear();
    if (listed && !children_of(parent, children)) {
      listed = false;
      children.clear();
      all = all_children();
    }
    if (!listed)
      for (auto [at, end] = all.equal_range(parent); at != end; ++at) children.push_back(at->second);
    for (const pid_t child : children) {
      Seen seen;
      if (!look_at(std::to_string(child).c_str(), seen)) continue;
      // Its number may be another process's by now. An orphan is ours: the next look finds it.
      if (seen.parent != parent) continue;
      open.push_back(child);
      if (seen.state != 'Z' && seen.state != 'X') found.push_back({child, seen.start});
    }
  }
  return found;
}

// True: it was sent, or the process is gone.
bool signal_to(const Descendant& one, int signal) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, one.pid, 0));
  if (process < 0) return errno == ESRCH || kill(one.pid, signal) == 0;
  // The number may have gone to another since it was read.
  Seen now;
  const bool same = look_at(std::to_string(one.pid).c_str(), now) && now.start == one.start;
  const bool sent = !same || syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0) == 0 || errno == ESRCH;
  close(process);
  return sent;
}

// Under a name and a command line of its own: `pkill termgate`, with or without -f, ends termgate and must leave the watchdog, which then
// ends COMMAND. Its entry in the process list no longer has the URL of the database.
void take_own_name(pid_t guarded) {
  prctl(PR_SET_NAME, "tg-watchdog");
  char* const line = program_invocation_name;  // argv[0]; the other words follow it
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::size_t size = 0;
  char part[4096];
  for (ssize_t got = 0; (got = read(file, part, sizeof part)) > 0;) size += static_cast<std::size_t>(got);
  close(file);
  std::memset(line, 0, size);
  if (size > 0) std::snprintf(line, size, "tg-watchdog %d", static_cast<int>(guarded));
}

// How a process is scheduled. A crowded machine must not make the watchdog late: it sleeps nearly always, and has to run at once when a
// lease's time is up. Only root and who has CAP_SYS_NICE or RLIMIT_RTPRIO may ask for that; the others get what the scheduler gives.
class Scheduling {
 public:
  Scheduling() : policy_(sched_getscheduler(0)), nice_(getpriority(PRIO_PROCESS, 0)) { sched_getparam(0, &parameters_); }
  static void run_before_others() {
    sched_param lowest{};
    lowest.sched_priority = sched_get_priority_min(SCHED_FIFO);
    sched_setscheduler(0, SCHED_FIFO, &lowest);
  }
  // In a child, which inherits the above.
  void restore() const {
    sched_setscheduler(0, policy_, &parameters_);
    setpriority(PRIO_PROCESS, 0, nice_);
  }

 private:
  int policy_, nice_;
  sched_param parameters_{};
};

class Keeper {
 public:
  Keeper(Deadlines& deadlines, int socket, pid_t parent) : deadlines_(deadlines), socket_(socket), parent_(parent) {}

  [[noreturn]] void run() {
    take_own_name(parent_);
    Scheduling::run_before_others();
    // Neither a terminal nor whoever signals our group ends or stops this one.
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before_);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) _exit(1);
    rehearse();
    // Needs root, CAP_IPC_LOCK or a high RLIMIT_MEMLOCK.
    locked_ = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
    for (;;) {
      look_at_the_clock();
      reap();
      if (finished()) _exit(0);
      pollfd watched[] = {{signals, POLLIN, 0}, {alone_ ? -1 : socket_, POLLIN, 0}};
      poll(watched, 2, pause());
      signalfd_siginfo ignored{};
      while (read(signals, &ignored, sizeof ignored) > 0) {}
      if ((watched[1].revents & (POLLIN | POLLHUP)) != 0) obey();
    }
  }

 private:
  enum class Ending { no, asked, killed };

  // While all is well the code that ends COMMAND does not run, so a machine that is short of memory pages it out, and at the worst moment
  // it would have to be read from a busy disk.
  void rehearse() {
    rehearsed_ = BootClock::now();
    Seen self;
    if (look_at("self", self)) signal_to({getpid(), self.start}, 0);
    descendants();
  }

  // Short enough that a machine that wakes up is past its deadline for this long at most: poll() counts on a clock that was suspended with
  // it.
  int pause() const {
    if (ending_ == Ending::killed) return 5;
    if (command_ < 0 && !started_) return 1000;
    const std::int64_t now = BootClock::now().time_since_epoch().count();
    const std::int64_t next = ending_ == Ending::asked ? std::min(kill_at_, deadlines_.kill_at.load()) : deadlines_.stop_at.load();
    return static_cast<int>(std::clamp<std::int64_t>((next - now) / 1'000'000, 1, 50));
  }

  bool finished() {
    if (!started_) return alone_;
    if (command_ >= 0 || !children_gone_) return false;
    if (!told_empty_) tell(Report::Kind::empty, timed_out_ ? 1 : 0);
    told_empty_ = true;
    return alone_ || getppid() != parent_;
  }

  void look_at_the_clock() {
    const auto moment = BootClock::now();
    if (!locked_ && moment - rehearsed_ > std::chrono::seconds(5)) rehearse();
    const std::int64_t now = moment.time_since_epoch().count();
    if (started_ && !told_empty_) {
      if (ending_ == Ending::no && now >= deadlines_.stop_at.load()) {
        timed_out_ = true;
        end(deadlines_.kill_at.load());
      }
      // A renewal moves kill_at on; it does not spare what has got TERM already.
      if (ending_ == Ending::asked && (now >= kill_at_ || now >= deadlines_.kill_at.load())) ending_ = Ending::killed;
      if (ending_ == Ending::killed) kill_descendants_once();
    }
  }

  void end(std::int64_t kill_at) {
    kill_at_ = ending_ == Ending::asked ? std::min(kill_at_, kill_at) : kill_at;
    if (ending_ != Ending::no) return;
    ending_ = Ending::asked;
    for (const Descendant& one : descendants()) {
      signal_to(one, SIGTERM);
      signal_to(one, SIGCONT);
    }
  }

  // A child that is forked meanwhile is found in the next look.
  void kill_descendants_once() {
    for (const Descendant& one : descendants()) signal_to(one, SIGKILL);
  }

  void reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) children_gone_ = errno == ECHILD;
      if (pid <= 0) return;
      if (pid != command_) continue;
      if (WIFSTOPPED(status)) {
        if (ending_ == Ending::no) tell(Report::Kind::stopped, WSTOPSIG(status));
        continue;
      }
      command_ = -1;
      if (WIFEXITED(status)) tell(Report::Kind::exited, WEXITSTATUS(status));
      else tell(Report::Kind::signalled, WTERMSIG(status));
    }
  }

  void obey() {
    Order order{};
    if (!read_all(socket_, &order, sizeof order)) {
      // termgate was killed: nobody renews, nobody will.
      alone_ = true;
      const std::int64_t now = BootClock::now().time_since_epoch().count();
      if (started_) end(std::min(deadlines_.kill_at.load(), now + 1'000'000'000));
      return;
    }
    if (order.kind == Order::Kind::stop) {
      if (started_) end(BootClock::now().time_since_epoch().count() + std::int64_t{order.value} * 1'000'000);
      return;
    }
    std::string texts(order.bytes, '\0');
    if (!read_all(socket_, texts.data(), texts.size())) return;
    std::vector<char*> words;
    char* at = texts.data();
    for (std::uint32_t i = 0; i < order.words + order.variables; ++i) {
      if (i == order.words) words.push_back(nullptr);
      words.push_back(at);
      at += std::strlen(at) + 1;
    }
    if (order.variables == 0) words.push_back(nullptr);
    words.push_back(nullptr);
    started_ = true;
    spawn(words.data(), words.data() + order.words + 1, order.value != 0);
  }

  void spawn(char** command, char** environment, bool foreground) {
    int failed[2];
    if (pipe2(failed, O_CLOEXEC) != 0) return not_run(errno);
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != self) _exit(1);
      setpgid(0, 0);
      if (foreground) tcsetpgrp(STDIN_FILENO, getpgrp());  // SIGTTOU is blocked
      // As we were started: what our caller ignored stays ignored.
      scheduling_.restore();
      sigprocmask(SIG_SETMASK, &before_, nullptr);
      execvpe(command[0], command, environment);
      const int why = errno;
      if (write(failed[1], &why, sizeof why) < 0) _exit(126);
      _exit(127);
    }
    close(failed[1]);
    if (child < 0) {
      close(failed[0]);
      return not_run(errno);
    }
    setpgid(child, child);
    int why = 0;
    const bool not_there = read_all(failed[0], &why, sizeof why);
    close(failed[0]);
    if (not_there) {
      waitpid(child, nullptr, 0);
      return not_run(why);
    }
    command_ = child;
    children_gone_ = false;
    tell(Report::Kind::started, child);
  }

  void not_run(int why) {
    tell(Report::Kind::not_run, why);
    children_gone_ = true;
  }

  void tell(Report::Kind kind, std::int32_t value) {
    const Report report{kind, value};
    // A parent that is stopped reads it later; a full buffer cannot be, so few are sent.
    write_all(socket_, &report, sizeof report);
  }

  Deadlines& deadlines_;
  const int socket_;
  const pid_t parent_;
  sigset_t before_{};
  const Scheduling scheduling_;  // before it changes
  bool locked_ = false;          // its memory
  BootClock::time_point rehearsed_{};
  pid_t command_ = -1;
  std::int64_t kill_at_ = 0;
  Ending ending_ = Ending::no;
  bool started_ = false, alone_ = false, children_gone_ = true, timed_out_ = false, told_empty_ = false;
};

void send_order(int socket, const Order& order) { write_all(socket, &order, sizeof order); }

}  // namespace

int kill_descendants() {
  for (int round = 0;; ++round) {
    // Orphans of a subreaper's descendants are its children: none is left when it has no child, whatever a look at /proc missed.
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {}
    if (ended < 0 && errno == ECHILD) return 0;
    const auto all = descendants();
    int left = 0;
    for (const Descendant& one : all) left += signal_to(one, SIGKILL) ? 0 : 1;
    if ((!all.empty() && left == static_cast<int>(all.size())) || round > 2000) return left;
    usleep(2000);
  }
}

Watchdog::Watchdog() {
  void* shared = mmap(nullptr, sizeof(Deadlines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("memory for the watchdog");
  deadlines_ = new (shared) Deadlines;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail("a socket for the watchdog");
  // Should the watchdog be killed, all that it kept comes to us.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = getpid();
  watchdog_ = fork();
  if (watchdog_ < 0) fail("a process for the watchdog");
  if (watchdog_ == 0) {
    close(pair[0]);
    Keeper(*deadlines_, pair[1], parent).run();
  }
  close(pair[1]);
  socket_ = pair[0];
}

Watchdog::~Watchdog() {
  end_all();
  munmap(deadlines_, sizeof(Deadlines));
}

void Watchdog::end_all() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));  // which ends it, once nothing is left
  if (watchdog_ > 0) waitpid(std::exchange(watchdog_, -1), nullptr, 0);
}

void Watchdog::set_deadlines(BootClock::time_point stop_at, BootClock::time_point kill_at) {
  // The later one first: at no moment is there a time to kill that is before the time to stop.
  deadlines_->kill_at.store(kill_at.time_since_epoch().count());
  deadlines_->stop_at.store(stop_at.time_since_epoch().count());
}

void Watchdog::start(const std::vector<std::string>& command, const std::vector<std::string>& environment, bool foreground) {
  std::string texts;
  for (const auto& word : command) texts.append(word).push_back('\0');
  for (const auto& variable : environment) texts.append(variable).push_back('\0');
  send_order(socket_, {Order::Kind::start, foreground ? 1 : 0, static_cast<std::uint32_t>(command.size()),
                       static_cast<std::uint32_t>(environment.size()), static_cast<std::uint32_t>(texts.size())});
  write_all(socket_, texts.data(), texts.size());
}

void Watchdog::stop(milliseconds grace) { send_order(socket_, {Order::Kind::stop, static_cast<std::int32_t>(grace.count()), 0, 0, 0}); }

std::optional<Report> Watchdog::next() {
  Report report{};
  if (read_all(socket_, &report, sizeof report)) return report;
  kill_descendants();
  watchdog_ = -1;
  return std::nullopt;
}

}  // namespace termgate::cli::run
