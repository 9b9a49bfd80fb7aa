// What a file holds against what its column declares: other programs may store anything anywhere.
#include <cmath>
#include <cstring>
#include <limits>

#include <termgate/sqlite_server/catalog.hpp>

#include "values/forms.hpp"

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

namespace {

using How = Meeting::How;

Meeting none(SqlError problem) { return {How::none, {}, std::move(problem)}; }
Meeting none(std::string_view sqlstate, std::string message) { return none(SqlError{std::string(sqlstate), std::move(message)}); }

// What is stored is compared with what would be.
Meeting by_conversion(const Stored& value, DeclaredType type) {
  auto proper = converted(value, type, 0);
  if (auto* problem = std::get_if<SqlError>(&proper)) return none(std::move(*problem));
  Stored& stored = std::get<Stored>(proper);
  if (stored == value) return {};
  return {How::other_form, std::move(stored), {}};
}

Meeting of_number(double number, DeclaredType type) {
  if (!std::isfinite(number)) return none("22003", "numeric field overflow");
  if (type.typmod < 4) return {};
  const int precision = (type.typmod - 4) >> 16 & 0xffff, scale = (type.typmod - 4) & 0x7ff;
  if (std::abs(number) < std::pow(10.0, precision - scale)) return {};
  return none("22003", "numeric field overflow");
}

Meeting of_text(const std::string& text, DeclaredType type) {
  if (!is_valid_text(text)) return none("22021", "invalid byte sequence for encoding \"UTF8\"");
  if (type.oid == oid::text || (type.typmod < 5 && type.oid != oid::bpchar && type.oid != oid::name)) return {};
  return by_conversion(Stored(text), type);
}

}  // namespace

bool is_valid_text(std::string_view text) noexcept {
  std::size_t at = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  const auto follows = [&](std::size_t place) { return place < text.size() && (bytes[place] & 0xC0) == 0x80; };
  while (at < text.size()) {
    // Eight letters of ASCII at a time, none of which is NUL.
    if (at + 8 <= text.size()) {
      std::uint64_t eight = 0;
      std::memcpy(&eight, bytes + at, 8);
      const std::uint64_t zeros = (eight - 0x0101010101010101u) & ~eight & 0x8080808080808080u;
      if ((eight & 0x8080808080808080u) == 0 && zeros == 0) {
        at += 8;
        continue;
      }
    }
    const unsigned char first = bytes[at];
    if (first == 0) return false;
    if (first < 0x80) {
      ++at;
    } else if (first >= 0xC2 && first <= 0xDF) {
      if (!follows(at + 1)) return false;
      at += 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
      if (!follows(at + 1) || !follows(at + 2)) return false;
      // Neither longer than need be nor half of a surrogate pair.
      if ((first == 0xE0 && bytes[at + 1] < 0xA0) || (first == 0xED && bytes[at + 1] > 0x9F)) return false;
      at += 3;
    } else if (first >= 0xF0 && first <= 0xF4) {
      if (!follows(at + 1) || !follows(at + 2) || !follows(at + 3)) return false;
      if ((first == 0xF0 && bytes[at + 1] < 0x90) || (first == 0xF4 && bytes[at + 1] > 0x8F)) return false;
      at += 4;
    } else {
      return false;
    }
  }
  return true;
}

MaybeProblem encoding_problem(std::string_view text) {
  if (is_valid_text(text)) return std::nullopt;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t size = (first & 0xe0) == 0xc0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : (first & 0xf8) == 0xf0 ? 4 : 1;
    const std::string_view character = text.substr(at, size);
    at += size;
    if (is_valid_text(character)) continue;
    std::string bytes;
    for (const char c : character) {
      const auto byte = static_cast<unsigned char>(c);
      bytes += std::string(" 0x") + "0123456789abcdef"[byte >> 4] + "0123456789abcdef"[byte & 15];
    }
    return SqlError{"22021", "invalid byte sequence for encoding \"UTF8\":" + bytes};
  }
  return std::nullopt;
}

bool reads_other_forms(Oid type) noexcept {
  return type == oid::jsonb || type == oid::interval || type == oid::bpchar || type == oid::float4 || type == oid::name;
}

Meeting meeting_of(const Stored& value, DeclaredType type) {
  if (std::holds_alternative<std::monostate>(value)) return {};
  const auto* whole = std::get_if<std::int64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  const auto* text = std::get_if<std::string>(&value);
  switch (type.oid) {
    case oid::int2:
    case oid::int4:
    case oid::int8:
      if (whole != nullptr) {
        const std::int64_t most = type.oid == oid::int2   ? std::numeric_limits<std::int16_t>::max()
                                  : type.oid == oid::int4 ? std::numeric_limits<std::int32_t>::max()
                                                          : std::numeric_limits<std::int64_t>::max();
        if (*whole <= most && *whole >= -most - 1) return {};
      }
      if (real != nullptr && *real != std::nearbyint(*real)) return none("22P02", "a fraction is no " + std::string(spoken(type.oid)));
      return by_conversion(value, type);
    case oid::boolean:
      if (whole != nullptr && (*whole == 0 || *whole == 1)) return {};
      return by_conversion(value, type);
    case oid::float4:
    case oid::float8:
      if (whole != nullptr || (real != nullptr && type.oid == oid::float8)) return {};
      if (text != nullptr && *text == "NaN") return {};
      return by_conversion(value, type);
    case oid::numeric: {
      if (whole != nullptr) return of_number(static_cast<double>(*whole), type);
      if (real != nullptr) return of_number(*real, type);
      const auto digits = numeric_text(text_of(value));
      if (const auto* problem = std::get_if<SqlError>(&digits)) return none(*problem);
      return {};
    }
    case oid::text:
    case oid::varchar:
    case oid::bpchar:
    case oid::name:
      if (text != nullptr) return of_text(*text, type);
      if (whole != nullptr || real != nullptr) return {};  // of a column without an affinity
      return none("22021", "bytes where the column declares text");
    case oid::bytea:
      if (std::holds_alternative<Blob>(value)) return {};
      return by_conversion(value, type);
    case oid::json:
      if (text == nullptr) return none("22P02", "invalid input syntax for type json");
      return by_conversion(value, type);
    default: break;
  }
  if (text == nullptr &&
      (whole == nullptr || dialect::type_of(type.oid) == nullptr || dialect::type_of(type.oid)->stored != dialect::Stored::integer))
    return none("22P02", "invalid input syntax for type " + std::string(element_of(type.oid) != 0 ? "array" : spoken(type.oid)));
  return by_conversion(value, type);
}

}  // namespace termgate::sqlite_server
