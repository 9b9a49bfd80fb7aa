// bytea in hex and in escapes, uuid in its spellings, and any value as text.
#include "values/forms.hpp"

#include <arpa/inet.h>

#include <cctype>
#include <charconv>

namespace termgate::sqlite_server {
namespace {

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

void append_hex(std::string& out, std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  for (const char byte : bytes) {
    out += digits[static_cast<unsigned char>(byte) >> 4];
    out += digits[static_cast<unsigned char>(byte) & 15];
  }
}

bool space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

Parsed parse_bytea(std::string_view text) {
  Blob blob;
  if (text.starts_with("\\x")) {
    text.remove_prefix(2);
    for (std::size_t at = 0; at < text.size();) {
      // White space is allowed between bytes, not within one.
      if (space(text[at])) {
        ++at;
        continue;
      }
      const int high = hex_digit(text[at]);
      if (high < 0) return SqlError{"22023", "invalid hexadecimal digit: \"" + std::string(1, text[at]) + "\""};
      if (at + 1 >= text.size()) return SqlError{"22023", "invalid hexadecimal data: odd number of digits"};
      const int low = hex_digit(text[at + 1]);
      if (low < 0) return SqlError{"22023", "invalid hexadecimal digit: \"" + std::string(1, text[at + 1]) + "\""};
      blob.bytes += static_cast<char>(high << 4 | low);
      at += 2;
    }
    return Stored(std::move(blob));
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      blob.bytes += text[at];
      continue;
    }
    if (text.substr(at + 1, 1) == "\\") {
      blob.bytes += '\\';
      ++at;
      continue;
    }
    const std::string_view octal = text.substr(at + 1, 3);
    const auto digit = [](char c, char top) { return c >= '0' && c <= top; };
    if (octal.size() != 3 || !digit(octal[0], '3') || !digit(octal[1], '7') || !digit(octal[2], '7'))
      return SqlError{"22P02", "invalid input syntax for type bytea"};
    blob.bytes += static_cast<char>((octal[0] - '0') << 6 | (octal[1] - '0') << 3 | (octal[2] - '0'));
    at += 3;
  }
  return Stored(std::move(blob));
}

MaybeProblem append_bytea(std::string& out, const Stored& value, Format format) {
  const Blob* blob = std::get_if<Blob>(&value);
  const std::string bytes = blob != nullptr ? blob->bytes : text_of(value);
  if (format == Format::binary) {
    out += bytes;
  } else {
    out += "\\x";
    append_hex(out, bytes);
  }
  return std::nullopt;
}

// Four numbers or IPv6, with or without the bits of a network after it; shown as PostgreSQL shows it.
Parsed parse_inet(std::string_view text) {
  const std::string whole(trimmed(text));
  const auto slash = whole.find('/');
  const std::string address = whole.substr(0, slash);
  const bool six = address.find(':') != std::string::npos;
  const int most = six ? 128 : 32;
  unsigned char bytes[16];
  char shown[INET6_ADDRSTRLEN];
  if (inet_pton(six ? AF_INET6 : AF_INET, address.c_str(), bytes) != 1 ||
      inet_ntop(six ? AF_INET6 : AF_INET, bytes, shown, sizeof shown) == nullptr)
    return no_such("inet", text);
  if (slash == std::string::npos) return Stored(std::string(shown));
  int bits = -1;
  const auto [end, problem] = std::from_chars(whole.data() + slash + 1, whole.data() + whole.size(), bits);
  if (problem != std::errc() || end != whole.data() + whole.size() || bits < 0 || bits > most) return no_such("inet", text);
  return Stored(bits == most ? std::string(shown) : std::string(shown) + "/" + std::to_string(bits));
}

// 32 digits, hyphens after any four of them, braces around it all.
Parsed parse_uuid(std::string_view text) {
  std::string_view body = text;
  if (body.starts_with('{')) {
    if (!body.ends_with('}')) return no_such("uuid", text);
    body = body.substr(1, body.size() - 2);
  }
  std::string digits;
  for (std::size_t at = 0; at < body.size(); ++at) {
    if (body[at] == '-' && !digits.empty() && digits.size() % 4 == 0 && digits.size() < 32 && body[at - 1] != '-') continue;
    if (hex_digit(body[at]) < 0) return no_such("uuid", text);
    digits += static_cast<char>(std::tolower(static_cast<unsigned char>(body[at])));
  }
  if (digits.size() != 32) return no_such("uuid", text);
  for (const std::size_t at : {20u, 16u, 12u, 8u}) digits.insert(at, 1, '-');
  return Stored(std::move(digits));
}

Parsed parse_uuid_binary(std::string_view bytes) {
  if (bytes.size() != 16) return wrong_size("uuid", bytes.size(), 16);
  std::string digits;
  append_hex(digits, bytes);
  return parse_uuid(digits);
}

MaybeProblem append_uuid(std::string& out, const Stored& value, Format format) {
  std::string text;
  if (const Blob* blob = std::get_if<Blob>(&value); blob != nullptr && blob->bytes.size() == 16) append_hex(text, blob->bytes);
  else text = text_of(value);
  const Parsed parsed = parse_uuid(text);
  const Stored* stored = std::get_if<Stored>(&parsed);
  if (format == Format::text) {
    out += stored != nullptr ? std::get<std::string>(*stored) : text;
    return std::nullopt;
  }
  if (stored == nullptr) return std::get<SqlError>(parsed);
  int high = -1;
  for (const char c : std::get<std::string>(*stored)) {
    if (c == '-') continue;
    if (high < 0) {
      high = hex_digit(c);
    } else {
      out += static_cast<char>(high << 4 | hex_digit(c));
      high = -1;
    }
  }
  return std::nullopt;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return out;
}

std::string text_of(const Stored& value) {
  struct Text {
    std::string operator()(std::monostate) const { return {}; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return float_text(number, false); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const Blob& blob) const {
      std::string text = "\\x";
      append_hex(text, blob.bytes);
      return text;
    }
  };
  return std::visit(Text(), value);
}

}  // namespace termgate::sqlite_server
