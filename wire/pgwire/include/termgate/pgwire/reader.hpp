// Splits the bytes of one direction into messages, whatever pieces they arrive in. For every
// message with a type byte, which is all but a client's start-up packets (startup.hpp) and the one
// byte that answers a request for encryption. One thread at a time; no I/O, no clock.
//
// Its type's rule decides how a message is delivered:
//   whole     one `message`, its body in one span; for messages that are read
//   streamed  one or more `part`s, buffered up to head_bytes only; for messages that are passed on
// A message that is complete in the given span is never copied. Of one that spans two calls, what
// must be delivered in one span is copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/pgwire/malformed.hpp>

namespace termgate::pgwire {

// How a reader handles one type of message. Body sizes exclude the type and the length's own 4
// bytes.
struct Rule {
  bool known = false;
  std::uint32_t body_min = 0;
  std::uint32_t body_max = 0;
  // Bodies of at most this size are delivered whole, larger ones are streamed. -1: all are
  // streamed.
  std::int64_t whole_max = -1;
  // For a streamed body: its first part has at least this many bytes, or the whole body.
  std::uint32_t head_bytes = 0;
  Limit limit = Limit::none;  // the limit that body_max comes from
};

// The limits that an operator chooses. The others are the protocol's.
struct Limits {
  // For Query and Parse, which are kept in memory while they are judged.
  std::uint32_t statement_bytes_max = 16u << 20;
  // For what is streamed: Bind, CopyData, FunctionCall, DataRow and the like. PostgreSQL's own
  // limit is 1 GB.
  std::uint32_t message_bytes_max = 0x3fffffff;
  std::uint32_t bind_whole_bytes_max = 8u
                                       << 10;  // Bind and FunctionCall up to this size come whole
  std::uint32_t report_whole_bytes_max =
      64u << 10;  // ErrorResponse and NoticeResponse up to this size come whole
};

// One rule for each type byte. A caller may change any of them before a reader starts:
// rules[frontend::bind].whole_max = -1.
class Rules {
 public:
  static Rules frontend(const Limits& limits = {}) noexcept;
  static Rules backend(const Limits& limits = {}) noexcept;

  Rule& operator[](char type) noexcept { return rules_[static_cast<unsigned char>(type)]; }
  const Rule& operator[](char type) const noexcept {
    return rules_[static_cast<unsigned char>(type)];
  }

 private:
  std::array<Rule, 256> rules_{};
};

struct Event {
  enum class Kind {
    // The span is used up, and nothing in it can be passed on yet.
    need_more,
    // The header of a message is here, but not yet the part of its body that must be seen at once.
    // For early decisions only.
    announced,
    message,  // a whole message
    part,     // a piece of a streamed message
    // The connection cannot continue. Every later call returns this again.
    malformed,
  };

  Kind kind = Kind::need_more;
  char type = 0;
  std::uint32_t body_bytes = 0;  // of the whole body, even for a part
  bool first = false;            // this event begins its message; `frame` begins with the type byte
  bool last = false;             // this event ends it
  // What to send to pass this event on; empty for `announced`.
  std::string_view frame;
  std::string_view body;  // the part of `frame` that belongs to the body
  std::size_t used = 0;   // bytes of the span that the caller must not pass again
  Malformed problem;      // for `malformed`
};

class Reader {
 public:
  // `rules` is not copied: it must outlive the reader, and readers may share it.
  explicit Reader(const Rules& rules) noexcept : rules_(&rules) {}

  // The next event in `input`, which begins where the last call's `used` ended. Views are valid
  // until the next call and as long as `input` is. A caller loops until `need_more`.
  Event next(std::string_view input) noexcept;

  // The whole messages of `type` that come next in `input`, in one piece, because rows and copy
  // data are passed on by the thousand without being read. Empty if another message comes next, or
  // an incomplete or malformed one: next() then decides. The caller must not pass these bytes
  // again.
  std::string_view run_of(char type, std::string_view input) const noexcept;

  // Whether this is a boundary between messages, where the peer may end the connection, and where
  // the proxy may insert a message.
  bool between_messages() const noexcept { return state_ == State::header && held_ == 0; }

  // Bytes kept of an incomplete message.
  std::size_t buffered() const noexcept {
    return state_ == State::gathering ? buffer_.size() : held_;
  }

 private:
  enum class State { header, gathering, streaming, broken };

  Event header_of(std::string_view input) noexcept;
  Event gather(std::string_view input) noexcept;
  Event stream(std::string_view input) noexcept;
  Event refuse(const Malformed& why, std::size_t used) noexcept;

  const Rules* rules_;
  State state_ = State::header;
  std::array<char, 5> header_{};
  std::size_t held_ = 0;  // bytes of a header that spans two calls
  char type_ = 0;
  std::uint32_t body_bytes_ = 0;
  std::uint32_t left_ = 0;  // bytes left of a streamed body
  std::size_t target_ = 0;  // frame bytes to gather before they are delivered
  bool whole_ = false;
  bool given_ = false;  // buffer_ was delivered and may be cleared
  std::string buffer_;
  Malformed problem_;
};

}  // namespace termgate::pgwire
