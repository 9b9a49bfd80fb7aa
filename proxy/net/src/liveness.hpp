// Whether a client's machine still answers, according to the kernel's data about its connection.
// Any thread.
#pragma once

#include <mutex>

#include <termgate/conversation/authority.hpp>

namespace termgate::net {

class SocketLiveness final : public conversation::PeerLiveness {
 public:
  explicit SocketLiveness(int descriptor) : descriptor_(descriptor) {}
  // The connection is about to be closed, after which its descriptor may be another socket's.
  void over();

  bool open() const override;
  std::chrono::milliseconds silent_for() const override;
  void ask_within(std::chrono::milliseconds bound) override;

 private:
  mutable std::mutex mutex_;  // guards descriptor_
  int descriptor_;
};

}  // namespace termgate::net
