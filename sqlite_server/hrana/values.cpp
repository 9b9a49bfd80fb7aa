#include "values.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <variant>

namespace termgate::hrana {

namespace {

constexpr std::string_view base64_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view base64url_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// The six bits of each character; 64: not in the alphabet.
constexpr std::array<std::uint8_t, 256> bits_of(std::string_view alphabet) {
  std::array<std::uint8_t, 256> bits{};
  bits.fill(64);
  for (std::size_t at = 0; at < alphabet.size(); ++at)
    bits[static_cast<unsigned char>(alphabet[at])] = static_cast<std::uint8_t>(at);
  return bits;
}

void append_encoded(std::string& out, std::string_view bytes, std::string_view alphabet) {
  const std::size_t start = out.size();
  out.resize(start + (bytes.size() * 4 + 2) / 3);
  char* to = out.data() + start;
  const auto byte = [&](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at]));
  };
  std::size_t at = 0;
  for (; at + 3 <= bytes.size(); at += 3) {
    const std::uint32_t three = byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2);
    for (int shift = 18; shift >= 0; shift -= 6) *to++ = alphabet[three >> shift & 63];
  }
  if (at == bytes.size()) return;
  const bool two = at + 2 == bytes.size();
  const std::uint32_t rest = byte(at) << 16 | (two ? byte(at + 1) << 8 : 0);
  for (int shift = 18; shift >= (two ? 6 : 12); shift -= 6) *to++ = alphabet[rest >> shift & 63];
}

std::optional<std::string> decoded(std::string_view text,
                                   const std::array<std::uint8_t, 256>& bits) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t held = 0;
  unsigned count = 0;
  for (const char letter : text) {
    const std::uint8_t six = bits[static_cast<unsigned char>(letter)];
    if (six == 64) return std::nullopt;
    held = held << 6 | six;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(held >> count & 255);
    held &= (1U << count) - 1;
  }
  // Leftover bits must be zero, so that each value has one spelling.
  if (held != 0) return std::nullopt;
  return bytes;
}

// How many bytes at `at` are one valid UTF-8 character; 0: none. Overlong forms and surrogates are
// invalid.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t offset) -> unsigned {
    return at + offset < text.size() ? static_cast<unsigned char>(text[at + offset]) : 0U;
  };
  const auto follows = [&](std::size_t offset) { return (byte(offset) & 0xc0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool fits = (first != 0xe0 || byte(1) >= 0xa0) && (first != 0xed || byte(1) < 0xa0);
    return fits && follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool fits = (first != 0xf0 || byte(1) >= 0x90) && (first != 0xf4 || byte(1) < 0x90);
    return fits && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void append_escaped(std::string& out, char letter) {
  constexpr std::string_view hex = "0123456789abcdef";
  switch (letter) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default:
      out += "\\u00";
      out += hex[static_cast<unsigned char>(letter) >> 4];
      out += hex[static_cast<unsigned char>(letter) & 15];
  }
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t whole = 0, at = 0;  // the text between the two is copied unchanged
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\') {
      ++at;
      continue;
    }
    const std::size_t length = byte < 0x80 ? 0 : utf8_length(text, at);
    if (length != 0) {
      at += length;
      continue;
    }
    out.append(text, whole, at - whole);
    if (byte < 0x80) {
      append_escaped(out, text[at]);
    } else {
      out += "\xef\xbf\xbd";
    }
    whole = ++at;
  }
  out.append(text, whole, at - whole);
  out += '"';
}

void append_number(std::string& out, std::int64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_float(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_base64(std::string& out, std::string_view bytes) {
  append_encoded(out, bytes, base64_alphabet);
}

void append_value(std::string& out, const ValueView& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    out += R"({"type":"integer","value":")";
    append_number(out, *integer);
    out += "\"}";
  } else if (const auto* number = std::get_if<double>(&value);
             number != nullptr && std::isfinite(*number)) {
    // JSON has no infinity, so it is sent as NULL: clients in typed languages do not accept null as
    // a float.
    out += R"({"type":"float","value":)";
    append_float(out, *number);
    out += '}';
  } else if (const auto* text = std::get_if<std::string_view>(&value)) {
    out += R"({"type":"text","value":)";
    append_string(out, *text);
    out += '}';
  } else if (const auto* blob = std::get_if<BlobView>(&value)) {
    out += R"({"type":"blob","base64":")";
    append_base64(out, blob->bytes);
    out += "\"}";
  } else {
    out += R"({"type":"null"})";
  }
}

void append_plain_value(std::string& out, const ValueView& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    append_number(out, *integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    append_float(out, *number);
  } else if (const auto* text = std::get_if<std::string_view>(&value)) {
    append_string(out, *text);
  } else if (const auto* blob = std::get_if<BlobView>(&value)) {
    out += R"({"base64":")";
    append_base64(out, blob->bytes);
    out += "\"}";
  } else {
    out += "null";
  }
}

std::optional<std::string> base64_bytes(std::string_view text) {
  static constexpr auto bits = bits_of(base64_alphabet);
  if (text.ends_with('=')) {
    if (text.size() % 4 != 0) return std::nullopt;
    text.remove_suffix(text.ends_with("==") ? 2 : 1);
  }
  return decoded(text, bits);
}

std::string base64url(std::string_view bytes) {
  std::string text;
  append_encoded(text, bytes, base64url_alphabet);
  return text;
}

std::optional<std::string> base64url_bytes(std::string_view text) {
  static constexpr auto bits = bits_of(base64url_alphabet);
  return decoded(text, bits);
}

}  // namespace termgate::hrana
