// Converts UTF-8 to UTF-16 and back. On the way to the database everything malformed is an error: a
// scope that was changed would be another scope. On the way back a lone surrogate becomes U+FFFD,
// because it is only shown and never compared.
#include "unicode.hpp"

#include <cstdint>

#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

std::u16string utf16_of(std::string_view text) {
  std::u16string wide;
  wide.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) {
      wide += static_cast<char16_t>(first);
      ++at;
      continue;
    }
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    std::uint32_t code = length == 4 ? first & 0x07 : length == 3 ? first & 0x0F : first & 0x1F;
    bool good = first >= 0xC2 && first <= 0xF4 && length <= text.size() - at;
    for (std::size_t more = 1; good && more < length; ++more) {
      const auto next = static_cast<unsigned char>(text[at + more]);
      good = (next & 0xC0) == 0x80;
      code = (code << 6) | (next & 0x3F);
    }
    const std::uint32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
    if (!good || code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      throw InvalidInput("TG005 malformed text: it is not UTF-8");
    if (code >= 0x10000) {
      wide += static_cast<char16_t>(0xD800 + ((code - 0x10000) >> 10));
      wide += static_cast<char16_t>(0xDC00 + ((code - 0x10000) & 0x3FF));
    } else {
      wide += static_cast<char16_t>(code);
    }
    at += length;
  }
  return wide;
}

std::string utf8_of(std::u16string_view text) {
  std::string narrow;
  narrow.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::uint32_t code = text[at];
    if (code >= 0xD800 && code <= 0xDFFF) {
      const bool pair = code <= 0xDBFF && at + 1 < text.size() && text[at + 1] >= 0xDC00 &&
                        text[at + 1] <= 0xDFFF;
      code = pair ? 0x10000 + ((code - 0xD800) << 10) + (text[++at] - 0xDC00u) : 0xFFFD;
    }
    if (code < 0x80) {
      narrow += static_cast<char>(code);
    } else if (code < 0x800) {
      narrow += static_cast<char>(0xC0 | (code >> 6));
      narrow += static_cast<char>(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      narrow += static_cast<char>(0xE0 | (code >> 12));
      narrow += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      narrow += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      narrow += static_cast<char>(0xF0 | (code >> 18));
      narrow += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
      narrow += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      narrow += static_cast<char>(0x80 | (code & 0x3F));
    }
  }
  return narrow;
}

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
