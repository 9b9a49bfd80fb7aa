#include "claim/letters.hpp"

#include <charconv>

#include <termgate/term.hpp>

namespace termgate::claim {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::optional<unsigned> hexadecimal(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

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
  if (error != std::errc{} || end != text.data() + text.size() || term > Term::max_value) return std::nullopt;
  return term;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      plain += text[at];
      continue;
    }
    if (text.size() - at < 3) return std::nullopt;
    const auto high = hexadecimal(text[at + 1]), low = hexadecimal(text[at + 2]);
    if (!high || !low) return std::nullopt;
    plain += static_cast<char>(*high << 4 | *low);
    at += 2;
  }
  return plain;
}

}  // namespace termgate::claim
