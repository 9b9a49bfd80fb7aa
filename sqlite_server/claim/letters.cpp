#include "claim/letters.hpp"

#include <charconv>

#include <termgate/term.hpp>

namespace termgate::claim {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

std::optional<std::string> from_base64url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  unsigned waiting = 0;
  for (const char c : text) {
    const auto value = alphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xffff;
    waiting += 6;
    if (waiting < 8) continue;
    waiting -= 8;
    bytes += static_cast<char>(bits >> waiting & 0xff);
  }
  if ((bits & ((1u << waiting) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::string to_base64url(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  unsigned waiting = 0;
  for (const char c : bytes) {
    bits = (bits << 8 | static_cast<unsigned char>(c)) & 0xffff;
    for (waiting += 8; waiting >= 6;) {
      waiting -= 6;
      text += alphabet[bits >> waiting & 63];
    }
  }
  if (waiting > 0) text += alphabet[bits << (6 - waiting) & 63];
  return text;
}

std::optional<std::int64_t> read_term(std::string_view text) {
  std::int64_t term = 0;
  if (text.empty() || text[0] < '1' || text[0] > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), term);
  if (error != std::errc{} || end != text.data() + text.size() || term > Term::max_value)
    return std::nullopt;
  return term;
}

}  // namespace termgate::claim
