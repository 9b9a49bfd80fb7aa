#include "inherited.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

namespace termgate::cli {
namespace {

sigset_t ignored, blocked;

}  // namespace

void settle_inherited() {
  // Closed streams are opened in the wrong direction, so that using them is an error: output that
  // nobody can read must not count as written. O_CLOEXEC closes them again in the programs that we
  // start.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const int way = stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY;
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", way | O_CLOEXEC) != stream) std::abort();
  }
  sigemptyset(&ignored);
  struct sigaction given {};
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigaction(signal, nullptr, &given) == 0 && given.sa_handler == SIG_IGN)
      sigaddset(&ignored, signal);
  }
  signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, &blocked);
}

bool caller_ignored(int signal) noexcept { return sigismember(&ignored, signal) == 1; }

void hand_down_inherited() noexcept {
  for (int number = 1; number < NSIG; ++number)
    signal(number, caller_ignored(number) ? SIG_IGN : SIG_DFL);
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

}  // namespace termgate::cli
