#include "run/requests.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>

#include <termgate/boot_clock.hpp>

#include "command.hpp"
#include "run/plan.hpp"
#include "run/signals.hpp"

namespace termgate::cli::run {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds pause_min{1000}, pause_max{60'000};

// Passes signals on to the child, unless `child` is 0. Returns the first signal that ends this
// process, or 0.
int pass_on(const Signals& signals, pid_t child) {
  int ending = 0;
  while (const int came = signals.next()) {
    if (came == SIGCHLD) continue;
    if (child > 0) kill(child, came);
    if (came != SIGUSR1 && came != SIGUSR2 && ending == 0 && Signals::ends_this(came))
      ending = came;
  }
  return ending;
}

void wait_for_signals(const Signals& signals, milliseconds time) {
  pollfd watched[] = {{signals.descriptor(), POLLIN, 0}};
  poll(watched, 1, static_cast<int>(time.count()));
}

}  // namespace

std::optional<int> answer_requests(bool*& begun) {
  void* shared =
      mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    throw std::system_error(errno, std::system_category(), "memory that is shared with children");
  begun = static_cast<bool*>(shared);
  const Signals signals({SIGCHLD});
  const pid_t self = getpid();
  milliseconds pause{0};
  for (int signal = 0; signal == 0;) {
    *begun = false;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0)
      throw std::system_error(errno, std::system_category(), "a process for the next request");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != self) _exit(own_outcomes + Exit::failed);
      sigset_t children;
      sigemptyset(&children);
      sigaddset(&children, SIGCHLD);
      pthread_sigmask(SIG_UNBLOCK, &children, nullptr);
      return std::nullopt;
    }
    int ended = 0;
    while (waitpid(child, &ended, WNOHANG) == 0) {
      wait_for_signals(signals, 1000ms);
      if (const int came = pass_on(signals, child); signal == 0) signal = came;
    }
    const int status = WIFEXITED(ended) ? WEXITSTATUS(ended) : own_outcomes + Exit::failed;
    if (signal != 0 || (!*begun && status == own_outcomes + Exit::wrong_usage)) return status;
    pause = *begun ? 0ms : std::clamp<milliseconds>(pause * 2, pause_min, pause_max);
    for (const auto until = BootClock::now() + pause; signal == 0 && BootClock::now() < until;) {
      wait_for_signals(signals,
                       std::chrono::duration_cast<milliseconds>(until - BootClock::now()) + 1ms);
      signal = pass_on(signals, 0);
    }
    if (signal != 0) return 128 + signal;
  }
  return std::nullopt;
}

}  // namespace termgate::cli::run
