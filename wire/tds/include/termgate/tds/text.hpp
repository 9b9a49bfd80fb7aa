// Converts between the protocol's UTF-16 (little-endian) and UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace termgate::tds {

// An unpaired surrogate, and an odd byte at the end, become U+FFFD.
std::string utf8_of(std::string_view utf16);
// Each byte that is not valid UTF-8 becomes U+FFFD.
std::string utf16_of(std::string_view utf8);
// Whether `utf16` has an even number of bytes and no unpaired surrogate.
bool is_utf16(std::string_view utf16) noexcept;

}  // namespace termgate::tds
