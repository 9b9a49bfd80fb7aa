// Recognises UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace termgate::text {

// The length of the UTF-8 sequence that starts at text[at], or 0 if it is not valid: overlong
// forms, surrogates and anything above U+10FFFF are not (Unicode 15, table 3-7).
inline std::size_t utf8_sequence(std::string_view text, std::size_t at) noexcept {
  auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  auto between = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return between(at + 1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return between(at + 1, low, high) && between(at + 2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return between(at + 1, low, high) && between(at + 2, 0x80, 0xBF) && between(at + 3, 0x80, 0xBF)
               ? 4
               : 0;
  }
  return 0;
}

// UTF-8 without NUL: text that JSON and terminals can take.
inline bool is_utf8(std::string_view bytes) noexcept {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = bytes[at] == '\0' ? 0 : utf8_sequence(bytes, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

}  // namespace termgate::text
