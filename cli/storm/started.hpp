// Waits until a forked child has executed its program. A child that is stopped before it calls
// prctl(PR_SET_PDEATHSIG) would outlive a director that is killed then, and keep its output open
// for ever. So no child is stopped before this wait has returned.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace termgate::cli::storm {

// Create it before fork(). One thread.
class Started {
 public:
  Started() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) ends_ = {-1, -1};  // then wait() returns at once
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started() {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }

  // For the parent: returns when the child has called exec, which closes its end, or has ended.
  void wait() {
    if (ends_[0] < 0) return;
    close(ends_[1]);
    ends_[1] = -1;
    char none = 0;
    while (read(ends_[0], &none, 1) < 0 && errno == EINTR) {}
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

}  // namespace termgate::cli::storm
