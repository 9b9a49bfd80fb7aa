// A machine answers by sending data or by acknowledging a keepalive probe. So a client that
// computes for an hour counts as alive, and one whose machine is gone does not.
//
// The mutex keeps the descriptor open while it is used here: its owner calls over() before closing
// it, and over() waits for the mutex.
#include "liveness.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace termgate::net {

void SocketLiveness::over() {
  const std::lock_guard lock(mutex_);
  descriptor_ = -1;
}

bool SocketLiveness::open() const {
  const std::lock_guard lock(mutex_);
  return descriptor_ >= 0;
}

std::chrono::milliseconds SocketLiveness::silent_for() const {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) return std::chrono::hours(24 * 365);
  tcp_info info{};
  socklen_t size = sizeof info;
  // The peer of a Unix socket is on this machine.
  if (getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
    return std::chrono::milliseconds(0);
  if (info.tcpi_state != TCP_ESTABLISHED) return std::chrono::hours(24 * 365);
  return std::chrono::milliseconds(std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv));
}

void SocketLiveness::ask_within(std::chrono::milliseconds bound) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) return;
  // The first probe comes after a third of the bound. One that is not answered is repeated every
  // second, the shortest interval that the kernel has.
  const int idle =
      static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(bound.count() / 3000, 1, 3600));
  const int interval = 1;
  const int count = 10;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(descriptor_, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

}  // namespace termgate::net
