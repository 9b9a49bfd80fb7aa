// Bytes of one direction -> messages, whatever the pieces that they come in. For everything that has a type byte, which is
// all but a client's start-up packets (startup.hpp). One thread at a time; no I/O, no clock.
//
// A message comes in one of two ways, as its type's rule says:
//   whole     one `message`, its body in one span; for what a decision reads
//   streamed  one or more `part`s, never buffered; for what is only passed on
// What lies complete in the span given is never copied. Only what straddles two spans is, up to the rule's maximum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/pgwire/malformed.hpp>

namespace termgate::pgwire {

// What a reader does with one type of message. Bodies are counted without the type and the length's own 4 bytes.
struct Rule {
  bool known = false;
  std::uint32_t body_min = 0;
  std::uint32_t body_max = 0;
  std::int64_t whole_max = -1;   // bodies of at most this many bytes come whole, larger ones streamed; -1: all streamed
  std::uint32_t head_bytes = 0;  // of a streamed body: its first part holds at least this many bytes, or all of it
  Limit limit = Limit::none;     // which bound body_max is
};

// The bounds that an operator chooses. The rest are the protocol's.
struct Limits {
  std::uint32_t statement_bytes_max = 16u << 20;     // Query and Parse: held in memory while they are decided
  std::uint32_t message_bytes_max = 0x3fffffff;      // what is streamed: Bind, CopyData, FunctionCall, DataRow … (PostgreSQL's own 1 GB)
  std::uint32_t bind_whole_bytes_max = 8u << 10;     // up to here Bind and FunctionCall come whole
  std::uint32_t report_whole_bytes_max = 64u << 10;  // up to here ErrorResponse and NoticeResponse come whole
};

// One rule a type byte. A caller may change any of them before a reader starts: rules[frontend::bind].whole_max = -1.
class Rules {
 public:
  static Rules frontend(const Limits& limits = {}) noexcept;
  static Rules backend(const Limits& limits = {}) noexcept;

  Rule& operator[](char type) noexcept { return rules_[static_cast<unsigned char>(type)]; }
  const Rule& operator[](char type) const noexcept { return rules_[static_cast<unsigned char>(type)]; }

 private:
  std::array<Rule, 256> rules_{};
};

struct Event {
  enum class Kind {
    need_more,  // the span is used up and what it held goes no further
    announced,  // the header of a message is here, what must be seen at once of its body is not; for early decisions only
    message,    // a whole message
    part,       // a piece of a streamed message
    malformed,  // this connection is over; every later call says so again
  };

  Kind kind = Kind::need_more;
  char type = 0;
  std::uint32_t body_bytes = 0;  // of the whole body, also where this is a part of it
  bool first = false;            // this event begins its message; `frame` begins with the type byte
  bool last = false;             // this event ends it
  std::string_view frame;        // what to send to pass this on: nothing for `announced`
  std::string_view body;         // what of `frame` belongs to the body
  std::size_t used = 0;          // bytes of the span that the caller must not give again
  Malformed problem;             // for `malformed`
};

class Reader {
 public:
  // Copies nothing: `rules` must outlive the reader and may be shared between readers.
  explicit Reader(const Rules& rules) noexcept : rules_(&rules) {}

  // The next event in `input`, which begins where the last call's `used` ended. Views are valid until the next call and
  // while `input` is. A caller loops until `need_more`.
  Event next(std::string_view input) noexcept;

  // The whole messages of `type` that come next in `input`, as one piece: rows and copy data are passed on by the thousand and
  // unread. Empty where something else comes next, or not the whole of one, or one that the rules refuse: next() says which.
  // The caller must not give these bytes again.
  std::string_view run_of(char type, std::string_view input) const noexcept;

  // At a boundary between messages: where the peer may say goodbye, and where an answer of ours may be put between.
  bool between_messages() const noexcept { return state_ == State::header && held_ == 0; }

  // Bytes held back of a message that is not complete.
  std::size_t buffered() const noexcept { return state_ == State::gathering ? buffer_.size() : held_; }

 private:
  enum class State { header, gathering, streaming, broken };

  Event header_of(std::string_view input) noexcept;
  Event gather(std::string_view input) noexcept;
  Event stream(std::string_view input) noexcept;
  Event refuse(const Malformed& why, std::size_t used) noexcept;

  const Rules* rules_;
  State state_ = State::header;
  std::array<char, 5> header_{};
  std::size_t held_ = 0;  // bytes of a header that straddles
  char type_ = 0;
  std::uint32_t body_bytes_ = 0;
  std::uint32_t left_ = 0;  // of a streamed body
  std::size_t target_ = 0;  // frame bytes to gather before they are given
  bool whole_ = false;
  bool given_ = false;  // buffer_ was shown to the caller and may go
  std::string buffer_;
  Malformed problem_;
};

}  // namespace termgate::pgwire
