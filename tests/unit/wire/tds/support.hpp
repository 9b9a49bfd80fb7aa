// What the tests and fuzz targets of wire/tds/ share: a stream of packets read in pieces, and an
// answer's tokens written down as text, so that the same bytes in other pieces can be shown to mean
// the same.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/tds/packet.hpp>
#include <termgate/tds/token.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::tds {

struct Read {
  struct Message {
    std::uint8_t type = 0, first_status = 0, last_status = 0;
    std::string payload;
    bool operator==(const Message&) const = default;
  };
  std::vector<Message> messages;  // the last one may have no end
  std::string raw;                // all that would have been passed on
  std::string problem;
  std::size_t consumed = 0;
  bool operator==(const Read&) const = default;
};

// Gives `stream` to a reader in pieces that end at `cuts` (ascending), each in memory of its own,
// so that a view that outlives its piece is seen by a sanitizer.
inline Read read_in_pieces(Direction direction, std::string_view stream,
                           const std::vector<std::size_t>& cuts) {
  PacketReader reader(direction);
  Read read;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= cuts.size() && read.problem.empty(); ++i) {
    const std::size_t end = i < cuts.size() ? cuts[i] : stream.size();
    const std::vector<char> piece(stream.begin() + static_cast<std::ptrdiff_t>(begin),
                                  stream.begin() + static_cast<std::ptrdiff_t>(end));
    std::string_view left(piece.data(), piece.size());
    for (;;) {
      const PacketEvent event = reader.next(left);
      if (event.used > left.size()) std::abort();
      left.remove_prefix(event.used);
      read.consumed += event.used;
      if (event.kind == PacketEvent::Kind::need_more) {
        if (!left.empty()) std::abort();
        break;
      }
      if (event.kind == PacketEvent::Kind::malformed) {
        read.problem = event.problem.reason();
        break;
      }
      read.raw += event.raw;
      if (event.kind == PacketEvent::Kind::header) {
        if (event.first) read.messages.push_back({event.header.type, event.header.status, 0, {}});
        read.messages.back().last_status = event.header.status;
      } else {
        read.messages.back().payload += event.raw;
      }
      if (event.ends_message != (event.last && (event.header.status & status::end_of_message) != 0))
        std::abort();
    }
    begin = end;
  }
  return read;
}

inline Read read_whole(Direction direction, std::string_view stream) {
  return read_in_pieces(direction, stream, {});
}

// Every token of one message's payload, a line each. `piece`: how many bytes at a time; 0: all at
// once.
inline std::string tokens_of(std::string_view payload, std::uint32_t tds_version,
                             std::size_t piece) {
  TokenReader reader(tds_version);
  std::string text;
  while (!payload.empty()) {
    const std::vector<char> part(
        payload.begin(),
        payload.begin() + static_cast<std::ptrdiff_t>(
                              piece == 0 ? payload.size() : std::min(piece, payload.size())));
    payload.remove_prefix(part.size());
    std::string_view left(part.data(), part.size());
    for (;;) {
      const TokenEvent event = reader.next(left);
      if (event.used > left.size()) std::abort();
      left.remove_prefix(event.used);
      if (event.kind == TokenEvent::Kind::need_more) break;
      static constexpr char digits[] = "0123456789ABCDEF";
      text += {digits[event.token >> 4], digits[event.token & 15]};
      if (event.kind == TokenEvent::Kind::lost) text += std::string(" lost: ") + event.why;
      if (event.kind == TokenEvent::Kind::token) text += " " + std::string(event.body);
      if (event.kind == TokenEvent::Kind::return_value) {
        text += " value " + std::string(event.value.name) +
                (event.value.null   ? " NULL "
                 : event.value.kept ? " "
                                    : " long ") +
                std::string(event.value.data);
      }
      text += '\n';
    }
  }
  if (const auto last = reader.end_of_message())
    text += "last " + std::to_string(last->status) + '\n';
  return text;
}

}  // namespace termgate::tds
