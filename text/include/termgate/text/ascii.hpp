// ASCII characters, whatever the locale. Bytes from 0x80 on do not count as letters and are not
// changed.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace termgate::text {

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_letter_or_digit(char c) noexcept { return is_letter(c) || is_digit(c); }
constexpr bool is_high(char c) noexcept { return static_cast<unsigned char>(c) >= 0x80; }
constexpr bool has_high(std::string_view text) noexcept {
  return std::any_of(text.begin(), text.end(), is_high);
}

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = lower(c);
  return small;
}

inline std::string upper(std::string_view text) {
  std::string large(text);
  for (char& c : large) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return large;
}

// Whether two texts are equal, ignoring the case of ASCII letters.
constexpr bool same(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char one, char other) { return lower(one) == lower(other); });
}

constexpr bool begins(std::string_view text, std::string_view with) noexcept {
  return text.size() >= with.size() && same(text.substr(0, with.size()), with);
}

}  // namespace termgate::text
