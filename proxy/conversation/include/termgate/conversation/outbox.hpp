// Bytes on their way to one socket. Owner: one session, its thread. Invariant: sent() is never
// called for more bytes than view() has.
#pragma once

#include <cassert>
#include <cstddef>
#include <string>
#include <string_view>

namespace termgate::conversation {

class Outbox {
 public:
  std::string& back() noexcept { return bytes_; }
  std::string_view view() const noexcept { return std::string_view(bytes_).substr(sent_); }
  std::size_t size() const noexcept { return bytes_.size() - sent_; }
  std::size_t capacity() const noexcept { return bytes_.capacity(); }
  void sent(std::size_t bytes) noexcept {
    assert(bytes <= size());
    sent_ += bytes;
    if (sent_ >= bytes_.size()) {
      sent_ = 0;
      bytes_.clear();
      if (bytes_.capacity() > kept) std::string().swap(bytes_);
    } else if (sent_ >= compacted && sent_ >= bytes_.size() / 2) {
      // For a reader that never quite catches up, what it has read must not be kept for ever.
      bytes_.erase(0, sent_);
      sent_ = 0;
    }
  }

 private:
  // An idle connection keeps almost no memory, and a busy one does not allocate for every message.
  static constexpr std::size_t kept = 4096;
  static constexpr std::size_t compacted = 64u << 10;
  std::string bytes_;
  std::size_t sent_ = 0;
};

}  // namespace termgate::conversation
