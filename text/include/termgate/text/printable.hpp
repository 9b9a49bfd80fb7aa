// Bytes as one readable line: control characters, and bytes that are not UTF-8, are escaped as
// \xNN.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include <termgate/text/utf8.hpp>

namespace termgate::text {

// Passes the escaped bytes to `put` in parts, at least one. `backslashes`: each one is doubled.
template <class Put>
void escape(std::string_view bytes, bool backslashes, Put put) {
  const bool utf8 = is_utf8(bytes);
  // What each byte becomes: a table, because comparing each byte with each range is slow for a
  // large payload.
  enum Way : char { as_it_is, hex, twice, perhaps_control };
  Way ways[256]{};
  for (std::size_t value = 0; value < std::size(ways); ++value) {
    if (value < 0x20 || value == 0x7F || (value >= 0x80 && !utf8)) ways[value] = hex;
  }
  if (backslashes) ways['\\'] = twice;
  // The controls from U+0080 to U+009F steer a terminal as well as those below U+0020; both of
  // their bytes are escaped.
  if (utf8) ways[0xC2] = perhaps_control;
  static constexpr char digits[] = "0123456789abcdef";
  char part[4096];  // passed on when the longest escape might no longer fit
  char* to = part;
  const auto put_hex = [&](unsigned char value) {
    *to++ = '\\';
    *to++ = 'x';
    *to++ = digits[value >> 4];
    *to++ = digits[value & 15];
  };
  const char* const end = bytes.data() + bytes.size();
  for (const char* at = bytes.data(); at != end; ++at) {
    if (to - part > static_cast<std::ptrdiff_t>(sizeof part) - 8) {
      put(std::string_view(part, static_cast<std::size_t>(to - part)));
      to = part;
    }
    const auto value = static_cast<unsigned char>(*at);
    const Way way = ways[value];
    if (way == hex) {
      put_hex(value);
    } else if (way == perhaps_control && static_cast<unsigned char>(at[1]) < 0xA0) {
      put_hex(value);
      put_hex(static_cast<unsigned char>(*++at));
    } else {
      if (way == twice) *to++ = '\\';
      *to++ = *at;
    }
  }
  put(std::string_view(part, static_cast<std::size_t>(to - part)));
}

inline std::string escape(std::string_view bytes, bool backslashes) {
  std::string line;
  escape(bytes, backslashes, [&](std::string_view part) { line += part; });
  return line;
}

// Doubles backslashes, so that the text can be read back.
inline std::string printable(std::string_view bytes) { return escape(bytes, true); }
// Leaves backslashes as they are, for messages.
inline std::string escaped(std::string_view message) { return escape(message, false); }

}  // namespace termgate::text
