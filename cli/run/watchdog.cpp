#include "watchdog.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "command.hpp"
#include "inherited.hpp"

namespace termgate::cli::run {
namespace {

using std::chrono::milliseconds;

struct Order {
  enum class Kind : std::int32_t { start, stop };
  Kind kind;
  std::int32_t value;                     // start: 1 to give it the terminal; stop: grace in ms
  std::uint32_t words, variables, bytes;  // start: counts of what follows; each text ends with NUL
};

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::system_category(), what);
}

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

std::int64_t now() { return BootClock::now().time_since_epoch().count(); }

// Whether exec's EACCES is about the command: it also fails with EACCES for any missing name if
// PATH contains a folder that may not be read.
bool is_in_path(const char* name) {
  const char* path = std::getenv("PATH");
  if (std::strchr(name, '/') != nullptr || path == nullptr) return true;
  for (std::string_view rest = path;;) {
    const auto end = rest.find(':');
    const std::string file = std::string(rest.substr(0, end)) + "/" + name;
    if (access(file.c_str(), F_OK) == 0) return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
}

// Gives the watchdog a name and a command line of its own. `pkill termgate`, with or without -f,
// must end termgate but not the watchdog, which then ends COMMAND. The new command line also no
// longer shows the database's URL.
void take_own_name(pid_t guarded) {
  prctl(PR_SET_NAME, "tg-watchdog");
  char* const line = program_invocation_name;  // argv[0]; the other words follow it
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::size_t size = 0;
  char part[4096];
  for (ssize_t got = 0; (got = read(file, part, sizeof part)) > 0;)
    size += static_cast<std::size_t>(got);
  close(file);
  std::memset(line, 0, size);
  if (size > 0) std::snprintf(line, size, "tg-watchdog %d", static_cast<int>(guarded));
}

// Scheduling of this process. The watchdog sleeps nearly always, but must run at once when the
// lease's time is up, even on a crowded machine. That needs root, CAP_SYS_NICE or RLIMIT_RTPRIO;
// without them it runs as the scheduler decides.
class Scheduling {
 public:
  Scheduling() : policy_(sched_getscheduler(0)), nice_(getpriority(PRIO_PROCESS, 0)) {
    sched_getparam(0, &parameters_);
  }
  static void run_before_others() {
    sched_param lowest{};
    lowest.sched_priority = sched_get_priority_min(SCHED_FIFO);
    sched_setscheduler(0, SCHED_FIFO, &lowest);
  }
  // Restores the scheduling in a child, which has inherited the watchdog's.
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
  Keeper(Deadlines& deadlines, int socket, pid_t parent)
      : deadlines_(deadlines), socket_(socket), parent_(parent) {}

  [[noreturn]] void run() {
    take_own_name(parent_);
    Scheduling::run_before_others();
    // A process group of its own, so that signals from a terminal or to our group neither end nor
    // stop it.
    setpgid(0, 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    const auto obstacle =
        signals < 0 ? std::optional(Obstacle::no_descriptor) : descendants_.rehearse();
    tell(obstacle ? Report::Kind::refused : Report::Kind::ready,
         obstacle ? static_cast<std::int32_t>(*obstacle) : 0);
    if (obstacle) _exit(1);
    // mlockall() needs root, CAP_IPC_LOCK or a high RLIMIT_MEMLOCK.
    locked_ = mlockall(MCL_CURRENT | MCL_ONFAULT) == 0;
    for (;;) {
      deadlines_.watched_at.store(now());
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

  // Runs the code that ends COMMAND, without effect. Otherwise a machine short of memory would page
  // it out, and it would have to be read from a busy disk at the worst moment.
  void keep_in_memory() {
    looked_ = BootClock::now();
    descendants_.look(found_);
    descendants_.signal({getpid(), 0, 'R'}, 0);
  }

  // How long to sleep. poll() does not count the time while the machine is suspended, so after a
  // suspension a deadline may be missed by as much as this.
  int pause() const {
    if (ending_ == Ending::killed) return 5;
    if (command_ < 0 && !started_) return 1000;
    const std::int64_t next = ending_ == Ending::asked
                                  ? std::min(kill_at_, deadlines_.kill_at.load())
                                  : deadlines_.stop_at.load();
    return static_cast<int>(std::clamp<std::int64_t>((next - now()) / 1'000'000, 1, 50));
  }

  bool finished() {
    if (!started_) return alone_;
    if (command_ >= 0 || !children_gone_) return false;
    if (!told_empty_) tell(Report::Kind::empty, timed_out_ ? 1 : 0);
    told_empty_ = true;
    return alone_ || getppid() != parent_;
  }

  void look_at_the_clock() {
    if (!locked_ && BootClock::now() - looked_ > std::chrono::seconds(5)) keep_in_memory();
    const std::int64_t moment = now();
    if (started_ && !told_empty_) {
      if (ending_ == Ending::no && moment >= deadlines_.stop_at.load()) {
        timed_out_ = true;
        end(deadlines_.kill_at.load());
      }
      // A renewal moves kill_at, but does not save processes that have got SIGTERM already.
      if (ending_ == Ending::asked && (moment >= kill_at_ || moment >= deadlines_.kill_at.load()))
        ending_ = Ending::killed;
      if (ending_ == Ending::killed) signal_all({SIGKILL});
    }
  }

  void end(std::int64_t kill_at) {
    kill_at_ = ending_ == Ending::asked ? std::min(kill_at_, kill_at) : kill_at;
    if (ending_ != Ending::no) return;
    ending_ = Ending::asked;
    signal_all({SIGTERM, SIGCONT});
  }

  // Signals all descendants; the next look finds a child that is forked meanwhile. COMMAND's own
  // process is signalled even if /proc cannot be read: it is our child, so its number cannot have
  // been reused.
  void signal_all(std::initializer_list<int> signals) {
    descendants_.look(found_);
    if (command_ > 0 && std::none_of(found_.begin(), found_.end(),
                                     [&](const Descendant& one) { return one.pid == command_; })) {
      for (const int signal : signals) kill(command_, signal);
    }
    for (const Descendant& one : found_) {
      for (const int signal : signals) descendants_.signal(one, signal);
    }
  }

  void reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0 && errno == ECHILD) {
        children_gone_ = true;
        // Another wait has taken its status.
        if (command_ >= 0) tell(Report::Kind::vanished, 0);
        command_ = -1;
      }
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
      // termgate was killed, so nobody will renew the lease.
      alone_ = true;
      if (started_) end(std::min(deadlines_.kill_at.load(), now() + 1'000'000'000));
      return;
    }
    if (order.kind == Order::Kind::stop) {
      if (started_) end(now() + std::int64_t{order.value} * 1'000'000);
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
      scheduling_.restore();
      hand_down_inherited();
      execvpe(command[0], command, environment);
      const int why = errno == EACCES && !is_in_path(command[0]) ? ENOENT : errno;
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
    // A stopped parent reads the report later. Reports are few, so the buffer does not fill.
    write_all(socket_, &report, sizeof report);
  }

  Deadlines& deadlines_;
  const int socket_;
  const pid_t parent_;
  Descendants descendants_;
  std::vector<Descendant> found_;
  const Scheduling scheduling_;  // read before it changes
  bool locked_ = false;          // whether its memory is locked
  BootClock::time_point looked_{};
  pid_t command_ = -1;
  std::int64_t kill_at_ = 0;
  Ending ending_ = Ending::no;
  bool started_ = false, alone_ = false, children_gone_ = true, timed_out_ = false,
       told_empty_ = false;
};

}  // namespace

Watchdog::Watchdog() {
  void* shared =
      mmap(nullptr, sizeof(Deadlines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("memory for the watchdog");
  deadlines_ = new (shared) Deadlines;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    fail("a socket for the watchdog");
  // If the watchdog is killed, its descendants become our children.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  deadlines_->watched_at.store(now());
  const pid_t parent = getpid();
  watchdog_ = fork();
  if (watchdog_ < 0) fail("a process for the watchdog");
  if (watchdog_ == 0) {
    close(pair[0]);
    Keeper(*deadlines_, pair[1], parent).run();
  }
  close(pair[1]);
  socket_ = pair[0];
  pollfd first{socket_, POLLIN, 0};
  while (poll(&first, 1, 200) <= 0 && silence() < silence_max) wake();
  const auto report = first.revents != 0 ? next() : std::nullopt;
  if (report && report->kind == Report::Kind::ready) return;
  end_all();
  throw UsageError(
      "COMMAND is not started, for it and what it starts could not be ended when the lease is "
      "lost: " +
      (report ? std::string(text(static_cast<Obstacle>(report->value)))
              : "the watchdog was ended before it was ready (a limit, or seccomp?)"));
}

Watchdog::~Watchdog() {
  end_all();
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  munmap(deadlines_, sizeof(Deadlines));
}

void Watchdog::end_all() {
  // This ends the watchdog once no process is left.
  if (socket_ >= 0) close(std::exchange(socket_, -1));
  while (watchdog_ > 0) {
    const pid_t ended = waitpid(watchdog_, nullptr, WNOHANG);
    if (ended == watchdog_ || (ended < 0 && errno != EINTR)) watchdog_ = -1;
    else if (silence() > silence_max) replace();
    else {
      wake();
      usleep(2000);
    }
  }
}

void Watchdog::wake() const {
  if (watchdog_ > 0) kill(watchdog_, SIGCONT);
}

milliseconds Watchdog::silence() const {
  return std::chrono::duration_cast<milliseconds>(
      std::chrono::nanoseconds(now() - deadlines_->watched_at.load()));
}

void Watchdog::replace() {
  if (watchdog_ <= 0) return;
  kill(std::exchange(watchdog_, -1), SIGKILL);
  // Do not wait for it: while a debugger traces it, only the debugger sees its end.
  descendants_.kill_all();
}

void Watchdog::set_deadlines(BootClock::time_point stop_at, BootClock::time_point kill_at) {
  // The later deadline first, so that the time to kill is never before the time to stop.
  deadlines_->kill_at.store(kill_at.time_since_epoch().count());
  deadlines_->stop_at.store(stop_at.time_since_epoch().count());
}

void Watchdog::start(const std::vector<std::string>& command,
                     const std::vector<std::string>& environment, bool foreground) {
  std::string texts;
  for (const auto& word : command) texts.append(word).push_back('\0');
  for (const auto& variable : environment) texts.append(variable).push_back('\0');
  const Order order{
      Order::Kind::start, foreground ? 1 : 0, static_cast<std::uint32_t>(command.size()),
      static_cast<std::uint32_t>(environment.size()), static_cast<std::uint32_t>(texts.size())};
  send_order(&order, sizeof order);
  send_order(texts.data(), texts.size());
}

void Watchdog::stop(milliseconds grace) {
  const Order order{Order::Kind::stop, static_cast<std::int32_t>(grace.count()), 0, 0, 0};
  send_order(&order, sizeof order);
}

// Sends an order, without waiting long for a watchdog that does not read.
void Watchdog::send_order(const void* data, std::size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = send(socket_, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) {
      at += put;
      size -= static_cast<std::size_t>(put);
    } else if (errno == EAGAIN) {
      if (silence() > silence_max) return replace();
      wake();
      pollfd room{socket_, POLLOUT, 0};
      poll(&room, 1, 50);
    } else if (errno != EINTR) {
      return;  // the watchdog is gone; next() reports that
    }
  }
}

std::optional<Report> Watchdog::next() {
  Report report{};
  if (read_all(socket_, &report, sizeof report)) return report;
  replace();
  return std::nullopt;
}

}  // namespace termgate::cli::run
