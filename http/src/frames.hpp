// WebSocket's frames (RFC 6455, section 5): bytes to messages and back. No I/O, no clock. One
// thread at a time.
//
//   0               1               2               3
//   |FIN|RSV|opcode|MASK|length 7   | length 16 or 64, where the 7 bits say 126 or 127 | mask, 4 bytes, of a client | payload
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/http/handler.hpp>

namespace termgate::http {

enum class Opcode : std::uint8_t { more = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };

// The first bytes of an unmasked frame, as a server sends it.
std::string frame_head(Opcode opcode, std::size_t payload_bytes);
std::string close_frame(std::uint16_t code, std::string_view reason);

// Whether a peer may send this code in a close frame (section 7.4).
bool is_close_code(unsigned code) noexcept;
bool is_utf8_text(std::string_view text) noexcept;

// Reads a client's frames. next() takes bytes of put() over into the message, so that a message
// that is not complete is held in memory only once.
class FrameReader {
 public:
  enum class What : std::uint8_t { need_more, message, ping, pong, close, broken };
  struct Event {
    What what = What::need_more;
    Kind kind = Kind::text;
    // close: the peer's code, or 1005 if it sent none. broken: the code to close with.
    std::uint16_t code = 0;
    std::string bytes = {};    // message and ping: the payload; close: the reason
    const char* problem = "";  // broken: what is wrong
  };

  explicit FrameReader(std::size_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}
  void put(std::string_view bytes) { waiting_ += bytes; }
  // Must not be called again after `broken` or `close`.
  Event next();
  std::size_t waiting_bytes() const noexcept { return waiting_.size() - at_; }
  std::size_t held_bytes() const noexcept { return waiting_bytes() + message_.size(); }

 private:
  const char* header_problem(bool fin, unsigned reserved, bool masked,
                             std::uint64_t length) const noexcept;
  void take_payload();
  Event whole();
  Event broken(std::uint16_t code, const char* problem) const;

  const std::size_t message_bytes_max_;
  std::string waiting_;
  std::size_t at_ = 0;  // bytes of waiting_ that are already used
  // The frame that is being read.
  bool in_payload_ = false, fin_ = false;
  Opcode opcode_ = Opcode::text;
  std::uint64_t left_ = 0;  // bytes of its payload that are still to come
  unsigned char mask_[4] = {};
  std::size_t mask_at_ = 0;
  // The message so far, of which the frame may be a part.
  bool in_message_ = false;
  Kind kind_ = Kind::text;
  std::string message_, control_;
};

}  // namespace termgate::http
