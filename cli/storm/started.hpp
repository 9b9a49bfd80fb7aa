// Waits until a forked child runs its program. A child that is stopped in front of its prctl(PR_SET_PDEATHSIG) would
// outlive a director that is killed then, and hold its output open for ever: nobody stops it before it has come so far.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace termgate::cli::storm {

// Make it in front of fork(). One thread.
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

  // For the parent: returns when the child's exec has closed its end, or the child has ended.
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
