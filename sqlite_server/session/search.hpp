// Finding a text in another in linear time: std::string's find compares at each place anew, which 'aaa…b' in 'aaa…' makes quadratic.
#pragma once

#include <cstring>
#include <string_view>

namespace termgate::sqlite_server {

// The place of `wanted` in `text` from `from` on; npos: nowhere. An empty one is found at once.
inline std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  if (text.empty()) return std::string_view::npos;  // an empty view may have no address, which memmem() must have
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace termgate::sqlite_server
