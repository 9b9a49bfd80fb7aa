#include "drill/instance.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "inherited.hpp"

extern char** environ;

namespace termgate::cli::drill {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Messages between drill and keeper. The drill sends one letter; the keeper sends a letter and a
// number.
// to the keeper:  s (stop)  c (continue)  t (terminate)  k (kill)
// from the keeper: p (id of the command's process)  x (exec failed: errno)
// o (obstacle: the command could not be ended later)  s (stopped: 1 all, 0 not all)
// e (the command ended: wait status)  g (all processes have ended)
struct Word {
  char what;
  std::int32_t number;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> those;
  for (std::string& text : texts) those.push_back(text.data());
  those.push_back(nullptr);
  return those;
}

// ---- the keeper --------------------------------------------------------------------------------

class Keeper {
 public:
  Keeper(int control, std::vector<std::string> command)
      : control_(control), command_(std::move(command)) {}

  int run() {
    // Only the drill decides when the keeper ends, so the keeper ignores the terminal's signals and
    // leaves the drill's process group.
    setpgid(0, 0);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE})
      std::signal(signal, SIG_IGN);
    if (const auto obstacle = descendants_.rehearse()) {
      report('o', static_cast<std::int32_t>(*obstacle));
      return Exit::failed;
    }
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, nullptr);
    const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!start()) return Exit::failed;
    // The command has its own copies of both streams. If the keeper kept its own open, the drill
    // would never see the end of the command's output.
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    for (;;) {
      pollfd waits[] = {{control_, POLLIN, 0}, {signals, POLLIN, 0}};
      poll(waits, 2, -1);
      signalfd_siginfo ignored;
      while (read(signals, &ignored, sizeof ignored) > 0) {}
      reap();
      if (waits[0].revents == 0) continue;
      char order = 0;
      if (recv(control_, &order, 1, MSG_DONTWAIT) <= 0) {
        if (waits[0].revents & (POLLHUP | POLLIN)) break;
        continue;
      }
      if (order == 's') report('s', stop() ? 1 : 0);
      if (order == 'c') signal_all(SIGCONT);
      if (order == 't') {
        // SIGCONT first: a stopped process does not act on SIGTERM.
        signal_all(SIGCONT);
        signal_all(SIGTERM);
      }
      if (order == 'k') kill_all();
    }
    kill_all();
    return Exit::done;
  }

 private:
  void report(char what, std::int32_t number) const {
    const Word word{what, number};
    send(control_, &word, sizeof word, MSG_NOSIGNAL);
  }

  bool start() {
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) return false;
    const pid_t keeper = getpid();
    const auto argv = pointers(command_);
    child_ = fork();
    if (child_ < 0) {
      report('x', errno);
      return false;
    }
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != keeper) _exit(127);
      setpgid(0, 0);
      hand_down_inherited();
      execvp(argv[0], argv.data());
      const int why = errno;
      static_cast<void>(!write(failure[1], &why, sizeof why));
      _exit(127);
    }
    close(failure[1]);
    int why = 0;
    const bool failed = read(failure[0], &why, sizeof why) == sizeof why;
    close(failure[0]);
    report(failed ? 'x' : 'p', failed ? why : child_);
    return !failed;
  }

  void reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid > 0) {
        if (pid == child_) {
          child_ = -1;
          report('e', status);
        }
        continue;
      }
      if (pid < 0 && errno == ECHILD && !gone_) {
        gone_ = true;
        report('g', 0);
      }
      return;
    }
  }

  void signal_all(int signal) {
    descendants_.look(found_);
    for (const run::Descendant& process : found_) descendants_.signal(process, signal);
  }

  // Stops all processes. One of them may start another just before it stops, so the list is read
  // again until none is running. Returns false if some still run after 400 rounds.
  bool stop() {
    for (int round = 0; round < 400; ++round) {
      bool all = descendants_.look(found_);
      for (const run::Descendant& process : found_) {
        if (process.state == 'T' || process.state == 't') continue;
        all = false;
        descendants_.signal(process, SIGSTOP);
      }
      if (all) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  void kill_all() {
    for (int round = 0; round < 1000 && !gone_; ++round) {
      signal_all(SIGKILL);
      reap();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  const int control_;
  std::vector<std::string> command_;
  run::Descendants descendants_;
  std::vector<run::Descendant> found_;
  pid_t child_ = -1;
  bool gone_ = false;
};

}  // namespace

int keep(const Arguments& arguments) {
  const int control = static_cast<int>(arguments.integer("control", 3, 1'000'000));
  if (fcntl(control, F_SETFD, FD_CLOEXEC) != 0)
    throw UsageError("drill-keeper is started by `termgate drill`");
  return Keeper(control, arguments.list("command")).run();
}

// ---- the drill's side --------------------------------------------------------------------------

Instance::Instance(int number, const std::vector<std::string>& command,
                   const std::vector<std::string>& settings,
                   std::function<void(int, const std::string&)> on_line)
    : number_(number), on_line_(std::move(on_line)) {
  int control[2], output[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0)
    throw Error("drill: no socket for a process");
  if (pipe2(output, O_CLOEXEC) != 0) {
    close(control[0]);
    close(control[1]);
    throw Error("drill: no pipe for a process");
  }
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::error_code no_proc;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", no_proc).string();
  if (no_proc)
    throw UsageError(
        fmt::format("{} is not started: {}", command.front(), run::text(run::Obstacle::no_proc)));
  std::vector<std::string> words = {program, "drill-keeper", "--control",
                                    std::to_string(control[1]), "--"};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<std::string> variables = settings;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view variable(*at);
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    if (std::none_of(settings.begin(), settings.end(),
                     [&](const std::string& one) { return one.starts_with(name); }))
      variables.emplace_back(variable);
  }
  const auto argv = pointers(words), envp = pointers(variables);
  keeper_ = fork();
  if (keeper_ == 0) {
    // Only async-signal-safe calls between fork and exec: another thread may hold a lock.
    fcntl(control[1], F_SETFD, 0);
    dup2(nothing, STDIN_FILENO);
    dup2(output[1], STDOUT_FILENO);
    dup2(output[1], STDERR_FILENO);
    hand_down_inherited();
    execve(program.c_str(), argv.data(), envp.data());
    _exit(127);
  }
  close(nothing);
  close(control[1]);
  close(output[1]);
  control_ = control[0];
  output_ = output[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
  if (keeper_ < 0) throw Error("drill: no process");
  await([this] { return pid_ > 0 || failure_ != 0 || obstacle_ || gone_; }, milliseconds(30'000));
  if (obstacle_)
    throw UsageError(fmt::format("{} is not started, for it could not be stopped and ended: {}",
                                 command.front(), run::text(*obstacle_)));
  if (failure_ != 0)
    throw UsageError(fmt::format("{}: {}", command.front(), std::strerror(failure_)));
  if (pid_ <= 0 && !gone_) throw Error("drill: the command was not started within 30 s");
}

Instance::~Instance() {
  // When the socket closes, the keeper kills the processes and ends.
  if (control_ >= 0) close(control_);
  if (keeper_ > 0) {
    while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  if (output_ >= 0) close(output_);
}

void Instance::send_order(char order) { send(control_, &order, 1, MSG_NOSIGNAL); }

bool Instance::read_control() {
  Word word{};
  const ssize_t count = control_ < 0 ? 0 : recv(control_, &word, sizeof word, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count != sizeof word) {
    gone_ = true;  // the keeper was killed
    if (!status_) status_ = SIGKILL;
    if (control_ >= 0) close(control_);
    control_ = -1;
    return false;
  }
  if (word.what == 'p') pid_ = word.number;
  if (word.what == 'x') failure_ = word.number;
  if (word.what == 'o') obstacle_ = static_cast<run::Obstacle>(word.number);
  if (word.what == 's') stopped_ = word.number == 1;
  if (word.what == 'e') status_ = word.number;
  if (word.what == 'g') gone_ = true;
  return true;
}

bool Instance::read_output() {
  std::array<char, 65536> bytes;
  const ssize_t count = output_ < 0 ? 0 : read(output_, bytes.data(), bytes.size());
  if (count > 0) {
    take({bytes.data(), static_cast<std::size_t>(count)});
    return true;
  }
  if (count < 0) return false;
  if (!rest_.empty()) add_line();
  if (output_ >= 0) close(output_);
  output_ = -1;
  return false;
}

// Reads the output that is available, 1,000 reads at most: a process that escaped the keeper may
// write to the pipe without end.
void Instance::read_out() {
  for (int i = 0; i < 1000 && read_output(); ++i) {}
}

void Instance::take(std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '\n') add_line();
    else if (rest_.size() < line_bytes_max) rest_ += byte;
  }
}

void Instance::add_line() {
  kept_bytes_ += rest_.size();
  lines_.push_back({next_line_++, std::move(rest_)});
  rest_.clear();
  on_line_(number_, lines_.back().text);
  while (kept_bytes_ > kept_bytes_max && lines_.size() > 1) {
    kept_bytes_ -= lines_.front().text.size();
    lines_.pop_front();
  }
}

void Instance::pump(const std::vector<Instance*>& instances, milliseconds wait) {
  std::vector<pollfd> waits;
  for (const Instance* one : instances) {
    waits.push_back({one->control_, POLLIN, 0});
    waits.push_back({one->output_, POLLIN, 0});
  }
  poll(waits.data(), waits.size(), static_cast<int>(wait.count()));
  for (Instance* one : instances) {
    // Output before control messages, so that the last output is reported before the end of the
    // process. At most 16 reads, because a process may write without pause.
    for (int i = 0; i < 16 && one->read_output(); ++i) {}
    while (one->control_ >= 0 && one->read_control()) {}
  }
}

bool Instance::await(const std::function<bool()>& what, milliseconds patience) {
  const auto end = Clock::now() + patience;
  while (!what()) {
    if (Clock::now() >= end) return false;
    pump({this}, milliseconds(20));
  }
  return true;
}

void Instance::stop() {
  stopped_ = false;
  send_order('s');
  if (!await([this] { return stopped_ || !running(); }, milliseconds(5000)) || !stopped_)
    throw Error("the command could not be stopped");
  read_out();
}

void Instance::resume() { send_order('c'); }

bool Instance::end(milliseconds patience) {
  if (gone_) return true;
  send_order('t');
  const bool by_itself = await([this] { return gone_; }, patience);
  if (!by_itself) {
    send_order('k');
    await([this] { return gone_; }, milliseconds(10'000));
  }
  read_out();
  if (!rest_.empty()) add_line();
  return by_itself;
}

std::string Instance::how_it_ended() const {
  if (!status_) return "not at all";
  if (WIFEXITED(*status_)) return fmt::format("with status {}", WEXITSTATUS(*status_));
  if (WIFSIGNALED(*status_))
    return fmt::format("by signal {} ({})", WTERMSIG(*status_), strsignal(WTERMSIG(*status_)));
  return fmt::format("with wait status {}", *status_);
}

}  // namespace termgate::cli::drill
