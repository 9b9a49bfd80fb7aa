// The transaction of the server's session, as far as the server's answers show it. Owner: one
// session; its thread.
#pragma once

#include <cstdint>

namespace termgate::tds_session {

class Transaction {
 public:
  bool is_open() const noexcept { return descriptor_ != 0 || unannounced_; }
  // 0: the server has announced none.
  std::uint64_t descriptor() const noexcept { return descriptor_; }

  void began(std::uint64_t descriptor) noexcept {
    descriptor_ = descriptor;
    unannounced_ = descriptor == 0;
  }
  void ended() noexcept { began(0), unannounced_ = false; }

  // Not every server announces the begin and end of a transaction that a batch begins. A call of
  // ours reads @@TRANCOUNT; whatever the client sends afterwards makes that uncertain.
  void counted(std::int64_t count) noexcept { unannounced_ = count > 0; }
  void may_be_open() noexcept { unannounced_ = true; }
  void forget_count() noexcept {
    if (descriptor_ == 0) unannounced_ = false;
  }

 private:
  std::uint64_t descriptor_ = 0;
  bool unannounced_ = false;
};

}  // namespace termgate::tds_session
