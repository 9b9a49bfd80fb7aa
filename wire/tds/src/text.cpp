// Neither direction fails: malformed input becomes U+FFFD. If that would matter, callers check
// is_utf16() first.
#include <termgate/tds/text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytes.hpp"

namespace termgate::tds {
namespace {

constexpr std::uint32_t replacement = 0xFFFD;

bool is_high(std::uint32_t unit) noexcept { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(std::uint32_t unit) noexcept { return unit >= 0xDC00 && unit < 0xE000; }

void append_utf8(std::string& out, std::uint32_t point) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  const auto rest = [&](unsigned shift) { byte(0x80 | (point >> shift & 63)); };
  if (point < 0x80) {
    byte(point);
  } else if (point < 0x800) {
    byte(0xC0 | point >> 6);
    rest(0);
  } else if (point < 0x10000) {
    byte(0xE0 | point >> 12);
    rest(6);
    rest(0);
  } else {
    byte(0xF0 | point >> 18);
    rest(12);
    rest(6);
    rest(0);
  }
}

// Returns the character at `at`, and moves `at` to the next.
std::uint32_t take_utf8(std::string_view text, std::size_t& at) noexcept {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const std::size_t more = first >= 0xF0 && first < 0xF5 ? 3
                           : first >= 0xE0               ? 2
                           : first >= 0xC2               ? 1
                                                         : 0;
  if (more == 0 || first >= 0xF5 || text.size() - at < more) return replacement;
  std::uint32_t point = first & (0x3Fu >> more);
  for (std::size_t i = 0; i < more; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0) != 0x80) return replacement;
    point = point << 6 | (next & 0x3F);
  }
  const std::uint32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
  if (point < least || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return replacement;
  at += more;
  return point;
}

}  // namespace

std::string utf8_of(std::string_view utf16) {
  std::string text;
  text.reserve(utf16.size() / 2);
  for (std::size_t at = 0; at + 1 < utf16.size(); at += 2) {
    auto point = static_cast<std::uint32_t>(read_little(utf16.data() + at, 2));
    if (is_high(point) || is_low(point)) {
      const auto low = is_high(point) && at + 3 < utf16.size()
                           ? static_cast<std::uint32_t>(read_little(utf16.data() + at + 2, 2))
                           : 0;
      if (is_low(low)) {
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        at += 2;
      } else {
        point = replacement;
      }
    }
    append_utf8(text, point);
  }
  if (utf16.size() % 2 != 0) append_utf8(text, replacement);
  return text;
}

std::string utf16_of(std::string_view utf8) {
  std::string text;
  text.reserve(2 * utf8.size());
  for (std::size_t at = 0; at < utf8.size();) {
    const std::uint32_t point = take_utf8(utf8, at);
    if (point < 0x10000) {
      append_little(text, point, 2);
    } else {
      append_little(text, 0xD800 + ((point - 0x10000) >> 10), 2);
      append_little(text, 0xDC00 + ((point - 0x10000) & 0x3FF), 2);
    }
  }
  return text;
}

bool is_utf16(std::string_view utf16) noexcept {
  if (utf16.size() % 2 != 0) return false;
  for (std::size_t at = 0; at < utf16.size(); at += 2) {
    const auto unit = static_cast<std::uint32_t>(read_little(utf16.data() + at, 2));
    if (is_low(unit)) return false;
    if (!is_high(unit)) continue;
    at += 2;
    if (at >= utf16.size() ||
        !is_low(static_cast<std::uint32_t>(read_little(utf16.data() + at, 2))))
      return false;
  }
  return true;
}

}  // namespace termgate::tds
