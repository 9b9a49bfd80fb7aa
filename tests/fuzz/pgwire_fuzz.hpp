// What both directions of PostgreSQL's protocol share: bytes are framed in pieces that the first
// byte chooses and all at once, which must come to the same. A message that decodes must be the
// same when it is cut anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "unit/wire/pgwire/support.hpp"

namespace termgate::pgwire {

inline std::string remade;

inline void same(std::string_view body) {
  if (std::string_view(remade).substr(5) != body) std::abort();
  remade.clear();
}

inline Limits fuzz_limits() {
  Limits limits;
  limits.statement_bytes_max = 4096;
  limits.message_bytes_max = 1 << 20;
  limits.bind_whole_bytes_max = 64;
  limits.report_whole_bytes_max = 256;
  return limits;
}

inline void whole_and_in_pieces(const Rules& rules, const std::uint8_t* data, std::size_t size,
                                void (*decode)(char type, std::string_view body)) {
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read at_once = read_in_pieces(rules, stream, {});
  std::vector<std::size_t> cuts;
  const std::size_t step = data[0] == 0 ? 1 : data[0];
  for (std::size_t at = step; at < stream.size(); at += step) cuts.push_back(at);
  const Read in_pieces = read_in_pieces(rules, stream, cuts);
  if (in_pieces.messages != at_once.messages || in_pieces.problem != at_once.problem) std::abort();
  if (!stream.starts_with(at_once.frames)) std::abort();
  for (const auto& message : at_once.messages) {
    // In memory of exactly its size, so that a read beyond its end is seen.
    const std::vector<char> body(message.body.begin(), message.body.end());
    decode(message.type, std::string_view(body.data(), body.size()));
  }
}

}  // namespace termgate::pgwire
