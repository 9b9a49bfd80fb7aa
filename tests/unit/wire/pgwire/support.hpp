// What the tests and fuzz targets of wire/pgwire/ share: a stream read to its end in pieces, and
// what came of it, so that the same bytes in other pieces can be shown to mean the same.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/reader.hpp>

namespace termgate::pgwire {

struct Read {
  struct Message {
    char type;
    std::string body;
    bool whole;
    bool operator==(const Message&) const = default;
  };
  std::vector<Message> messages;
  std::string frames;   // all that would have been passed on
  std::string open;     // the body so far of a message without an end
  std::string problem;  // why the stream is malformed
  std::size_t consumed = 0;
  std::size_t buffered_max = 0;
  bool between_messages = true;
};

// Gives `stream` to a reader in pieces that end at `cuts` (ascending), each in memory of its own,
// so that a view that outlives its piece is seen by a sanitizer.
inline Read read_in_pieces(const Rules& rules, std::string_view stream,
                           const std::vector<std::size_t>& cuts) {
  Reader reader(rules);
  Read read;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= cuts.size() && read.problem.empty(); ++i) {
    const std::size_t end = i < cuts.size() ? cuts[i] : stream.size();
    const std::vector<char> piece(stream.begin() + static_cast<std::ptrdiff_t>(begin),
                                  stream.begin() + static_cast<std::ptrdiff_t>(end));
    std::string_view left(piece.data(), piece.size());
    for (;;) {
      const Event event = reader.next(left);
      if (event.used > left.size()) std::abort();
      left.remove_prefix(event.used);
      read.consumed += event.used;
      if (reader.buffered() > read.buffered_max) read.buffered_max = reader.buffered();
      if (event.kind == Event::Kind::need_more) {
        if (!left.empty()) std::abort();
        break;
      }
      if (event.kind == Event::Kind::malformed) {
        read.problem = event.problem.reason();
        break;
      }
      if (event.kind == Event::Kind::announced) continue;
      if (!event.frame.ends_with(event.body)) std::abort();
      read.frames += event.frame;
      read.open += event.body;
      if (event.last) {
        if (read.open.size() != event.body_bytes) std::abort();
        read.messages.push_back(
            {event.type, std::move(read.open), event.kind == Event::Kind::message});
        read.open.clear();
      }
    }
    begin = end;
  }
  read.between_messages = reader.between_messages();
  return read;
}

inline std::vector<std::size_t> every_byte(std::size_t size) {
  std::vector<std::size_t> cuts;
  for (std::size_t at = 1; at < size; ++at) cuts.push_back(at);
  return cuts;
}

}  // namespace termgate::pgwire
