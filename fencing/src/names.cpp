// The checks behind Term, SequenceNo, Scope, Stream and WriteId (docs/contract.md, section 1).
#include <fcntl.h>
#include <sys/random.h>

#include <array>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/scope.hpp>
#include <termgate/term.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/utf8.hpp>
#include <termgate/write_id.hpp>

namespace termgate {
inline namespace v0 {
namespace {

std::string checked_name(std::string name, const char* what) {
  if (const char* problem = name_problem(name)) {
    throw InvalidInput(fmt::format("TG005 malformed {}: {}", what, problem));
  }
  return name;
}

}  // namespace

Term::Term(std::int64_t value) : value_(value) {
  if (value < 1 || value > max_value) {
    throw InvalidInput(
        fmt::format("TG005 malformed term {}: a term is an integer from 1 to 2^62", value));
  }
}

SequenceNo::SequenceNo(std::int64_t value) : value_(value) {
  if (value < 0)
    throw InvalidInput(fmt::format("TG005 malformed sequence number {}: it is 0 or above", value));
}

// nullptr: the name is valid. A database compares scopes byte by byte, so nothing is normalised
// here.
const char* name_problem(std::string_view text) noexcept {
  if (text.empty()) return "it is empty";
  if (text.size() > Scope::bytes_max) return "it is longer than 800 bytes";
  std::size_t code_points = 0;
  for (std::size_t at = 0; at < text.size(); ++code_points) {
    if (text[at] == '\0') return "it contains a NUL";
    const std::size_t bytes = termgate::text::utf8_sequence(text, at);
    if (bytes == 0) return "it is not valid UTF-8";
    at += bytes;
  }
  if (code_points > Scope::code_points_max) return "it is longer than 200 code points";
  return nullptr;
}

Scope::Scope(std::string name) : name_(checked_name(std::move(name), "scope")) {}
Stream::Stream(std::string name) : name_(checked_name(std::move(name), "stream")) {}

WriteId::WriteId(std::string_view uuid) : text_(uuid) {
  bool good = uuid.size() == 36;
  for (std::size_t at = 0; good && at < uuid.size(); ++at) {
    const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
    char& character = text_[at];
    // Write ids are compared as text, so they have one spelling, in lower case.
    character = text::lower(character);
    const bool hex = text::is_digit(character) || (character >= 'a' && character <= 'f');
    good = dash ? character == '-' : hex;
  }
  if (!good)
    throw InvalidInput(
        "TG005 malformed write id: must be a UUID such as 6f1f6a0e-3b1c-4f0e-9a51-0a1b2c3d4e5f");
}

WriteId WriteId::random() {
  std::array<unsigned char, 16> raw{};
  if (getentropy(raw.data(), raw.size()) != 0)
    throw Error("the system gives no random bytes for a write id");
  // Version 4 and variant 10 (RFC 9562, section 5.4).
  raw[6] = static_cast<unsigned char>((raw[6] & 0x0F) | 0x40);
  raw[8] = static_cast<unsigned char>((raw[8] & 0x3F) | 0x80);
  std::string text;
  for (std::size_t at = 0; at < raw.size(); ++at) {
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += fmt::format("{:02x}", raw[at]);
  }
  return WriteId(text);
}

}  // namespace v0
}  // namespace termgate
