// Steps wall clocks with libfaketime (clock.hpp; decision 0009). The library is first tried on a
// separate process: if it also moved the monotonic clock, every history would be worthless, because
// its moments are taken from that clock.
#include "storm/clock.hpp"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "output.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TERMGATE_STORM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TERMGATE_STORM_SANITIZED 1
#endif
#endif

extern char** environ;

namespace termgate::cli::storm {
namespace {

using std::chrono::seconds;

// NO_CACHE makes the library read the file each time, so that a step takes effect at once.
std::vector<std::string> settings_of(const std::string& library, const std::string& file) {
  const char* before = std::getenv("LD_PRELOAD");
  return {"LD_PRELOAD=" + library +
              (before != nullptr && *before != '\0' ? ":" + std::string(before) : ""),
          "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_NO_CACHE=1",
          "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1"};
}

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}
std::int64_t steady_ms() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string find_libfaketime() {
  for (const char* path : {TERMGATE_LIBFAKETIME, "/usr/lib/faketime/libfaketimeMT.so.1"}) {
    if (access(path, R_OK) == 0) return path;
  }
  return {};
}

std::vector<std::string> environment_with(const std::vector<std::string>& settings) {
  std::vector<std::string> all = settings;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view one(*at);
    const auto same = [&](const std::string& setting) {
      return one.starts_with(std::string_view(setting).substr(0, setting.find('=') + 1));
    };
    if (std::none_of(settings.begin(), settings.end(), same)) all.emplace_back(one);
  }
  return all;
}

void write_clock(const std::string& path, seconds off) {
  const std::string fresh = path + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const std::string text = fmt::format("{:+}\n", off.count());
  // A server may run as another user, so the file is readable for all, whatever our umask is.
  const bool written = file >= 0 && fchmod(file, 0644) == 0 &&
                       write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int failure = errno;
  if (file >= 0) close(file);
  if (!written || rename(fresh.c_str(), path.c_str()) != 0)
    throw Error(fmt::format("storm: the clock's file {} could not be written: {}", path,
                            std::strerror(written ? errno : failure)));
}

seconds step_of(Choice& choice, milliseconds ttl) {
  const std::int64_t few = std::max<std::int64_t>(1, 4 * ttl.count() / 1000);
  const std::int64_t how = choice.number(1, 3);
  const seconds size(choice.number(1, how == 1 ? few : how == 2 ? 60 : 3600));
  return choice.in(50) ? size : -size;
}

std::string libfaketime_problem(const std::string& library, const std::string& folder,
                                const std::string& program) {
#ifdef TERMGATE_STORM_SANITIZED
  static_cast<void>(library), static_cast<void>(folder), static_cast<void>(program);
  return "this termgate was built with a sanitizer, which does not go together with libfaketime";
#else
  if (library.find_first_of(" :") != std::string::npos)
    return fmt::format("{}: a path with a blank or a colon cannot be preloaded", library);
  if (access(library.c_str(), R_OK) != 0)
    return fmt::format("{}: {}", library, std::strerror(errno));
  constexpr seconds off(3600);
  const std::string file = folder + "/probe.clock", log = folder + "/probe.out";
  write_clock(file, off);
  std::vector<std::string> settings =
      environment_with(settings_of(std::filesystem::absolute(library).string(), file));
  std::vector<char*> envp;
  for (std::string& setting : settings) envp.push_back(setting.data());
  envp.push_back(nullptr);
  std::string word = "storm-clock", self = program;
  char* const argv[] = {self.data(), word.data(), nullptr};
  const pid_t director = getpid();
  const pid_t pid = fork();
  if (pid < 0) return "no process to try it";
  if (pid == 0) {
    // The child dies with the director. If the director has died already the signal will not come,
    // so the child also compares its parent.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != director) _exit(127);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) _exit(127);
    execve(program.c_str(), argv, envp.data());
    _exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (waitpid(pid, nullptr, WNOHANG) != pid) {
    if (std::chrono::steady_clock::now() >= end) kill(pid, SIGKILL);
    std::this_thread::sleep_for(milliseconds(5));
  }
  forget_clock(pid);
  std::ifstream lines(log);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  const auto blank = last.find(' ');
  if (last.empty() || last.find_first_not_of("0123456789 ") != std::string::npos ||
      blank == std::string::npos)
    return fmt::format("{}: a process that was started with it did not run: {}", library,
                       last.empty() ? "it said nothing" : last);
  const std::int64_t wall = std::atoll(last.c_str()), steady = std::atoll(last.c_str() + blank);
  if (std::abs(wall - wall_ms() - milliseconds(off).count()) > 60'000)
    return fmt::format("{}: it does not move a process's wall clock", library);
  if (std::abs(steady - steady_ms()) > 60'000)
    return fmt::format("{}: it moves a process's monotonic clock too", library);
  return {};
#endif
}

int print_clocks(const Arguments&) {
  print_line(fmt::format("{} {}", wall_ms(), steady_ms()));
  return Exit::done;
}

std::vector<std::string> Clocks::settings(const std::string& who) {
  const std::string path = fmt::format("{}/{}.clock", folder_, who);
  if (std::none_of(clocks_.begin(), clocks_.end(),
                   [&](const Clock& clock) { return clock.path == path; })) {
    write_clock(path, seconds(0));
    clocks_.push_back({path, false, {}});
  }
  return settings_of(library_, path);
}

bool Clocks::step_one(Choice& choice) {
  const seconds off = step_of(choice, ttl_);
  const milliseconds time = choice.span(ttl_, 6 * ttl_);
  const auto which = static_cast<std::size_t>(choice.number(0, 1'000'000));
  std::vector<Clock*> right;
  for (Clock& clock : clocks_) {
    if (!clock.stepped) right.push_back(&clock);
  }
  if (right.empty()) return false;
  Clock& clock = *right[which % right.size()];
  write_clock(clock.path, off);
  clock.stepped = true;
  clock.due = std::chrono::steady_clock::now() + time;
  return true;
}

void Clocks::tick() {
  const auto now = std::chrono::steady_clock::now();
  for (Clock& clock : clocks_) {
    if (!clock.stepped || now < clock.due) continue;
    write_clock(clock.path, seconds(0));
    clock.stepped = false;
  }
}

void Clocks::right_all() {
  for (Clock& clock : clocks_) {
    if (clock.stepped) write_clock(clock.path, seconds(0));
    clock.stepped = false;
  }
}

// libfaketime leaves these behind when its process is killed, and they would confuse a later
// process with the same number.
void forget_clock(pid_t pid) noexcept {
  shm_unlink(("/faketime_shm_" + std::to_string(pid)).c_str());
  sem_unlink(("/faketime_sem_" + std::to_string(pid)).c_str());
}

}  // namespace termgate::cli::storm
