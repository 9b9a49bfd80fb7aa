// Between the wire's UTF-16, least significant byte first, and UTF-8; names without case.
#pragma once

#include <string>
#include <string_view>

namespace termgate::tds {

// A unit that stands alone of its pair, and an odd byte at the end, become U+FFFD.
std::string utf8_of(std::string_view utf16);
// What is not UTF-8 becomes U+FFFD, byte by byte.
std::string utf16_of(std::string_view utf8);
// Whether `utf16` is whole units and every pair is whole.
bool is_utf16(std::string_view utf16) noexcept;

}  // namespace termgate::tds
