// Bytes as hexadecimal digits, and URL encoding (%XX).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/text/ascii.hpp>

namespace termgate::text {

// The value of a hexadecimal digit of either case; -1 for any other character.
constexpr int hex_value(char c) noexcept {
  if (is_digit(c)) return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

inline void append_hex(std::string& text, std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::size_t at = text.size();
  text.resize(at + 2 * bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text[at++] = digits[value >> 4];
    text[at++] = digits[value & 15];
  }
}

inline std::string hex(std::string_view bytes) {
  std::string text;
  append_hex(text, bytes);
  return text;
}

// All but letters, digits and `kept` as %XX.
inline std::string percent_encoded(std::string_view text, std::string_view kept = {}) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (is_letter_or_digit(c) || kept.find(c) != std::string_view::npos) {
      encoded += c;
    } else {
      encoded += '%';
      encoded += digits[static_cast<unsigned char>(c) >> 4];
      encoded += digits[static_cast<unsigned char>(c) & 15];
    }
  }
  return encoded;
}

// Keeps a % that is not followed by two hexadecimal digits.
inline std::string percent_decoded_where_it_can(std::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool both = text[at] == '%' && at + 2 < text.size() && hex_value(text[at + 1]) >= 0 &&
                      hex_value(text[at + 2]) >= 0;
    decoded +=
        both ? static_cast<char>(hex_value(text[at + 1]) * 16 + hex_value(text[at + 2])) : text[at];
    if (both) at += 2;
  }
  return decoded;
}

// None if a % is not followed by two hexadecimal digits.
inline std::optional<std::string> percent_decoded(std::string_view text) {
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 3)) {
    if (at + 2 >= text.size() || hex_value(text[at + 1]) < 0 || hex_value(text[at + 2]) < 0)
      return std::nullopt;
  }
  return percent_decoded_where_it_can(text);
}

}  // namespace termgate::text
