// Of single characters, whatever the locale.
#pragma once

#include <algorithm>
#include <string_view>

namespace termgate::statements {

// ASCII letters only: what the server does to a name without quotes, in every encoding that keeps ASCII.
constexpr char lower(char character) noexcept {
  return character >= 'A' && character <= 'Z' ? static_cast<char>(character + 32) : character;
}

constexpr bool has_high_byte(std::string_view text) noexcept {
  return std::any_of(text.begin(), text.end(), [](char character) { return static_cast<unsigned char>(character) >= 0x80; });
}

}  // namespace termgate::statements
