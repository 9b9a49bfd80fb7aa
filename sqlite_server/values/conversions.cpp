// What is put into a column, from whatever it comes: one canonical form a type, with the checks that PostgreSQL makes when it assigns.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "values/decimal.hpp"
#include "values/forms.hpp"
#include "functions/functions.hpp"
#include "values/json.hpp"
#include "values/times.hpp"

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

namespace {

bool is_real(Oid type) { return type == oid::float4 || type == oid::float8; }

// A number's decimal digits, as PostgreSQL's casts to numeric see them: 15 of a double, 6 of a real.
std::string decimal_text(const Stored& value, Oid from) {
  const auto* real = std::get_if<double>(&value);
  if (real == nullptr) return text_of(value);
  if (!is_real(from) || !std::isfinite(*real)) {
    std::string out;
    (void)append_numeric(out, value, Format::text);
    return out;
  }
  char digits[64];
  std::snprintf(digits, sizeof digits, from == oid::float4 ? "%.6g" : "%.15g", *real);
  return digits;
}

Parsed checked_integer(std::int64_t value, Oid type) {
  const std::int64_t most = type == oid::int2   ? std::numeric_limits<std::int16_t>::max()
                            : type == oid::int4 ? std::numeric_limits<std::int32_t>::max()
                                                : std::numeric_limits<std::int64_t>::max();
  if (value > most || value < -most - 1) return SqlError{"22003", std::string(spoken(type)) + " out of range"};
  return Stored(value);
}

// numeric to an integer: halves go away from zero.
Parsed rounded_integer(std::string_view text, Oid type) {
  Decimal number;
  if (read_decimal(text, number) != Reading::fine) return no_such(spoken(type), text);
  round_to(number, 0);
  const Parsed whole = parse_integer(digits_of(number), oid::int8);
  if (std::holds_alternative<SqlError>(whole)) return SqlError{"22003", std::string(spoken(type)) + " out of range"};
  return checked_integer(std::get<std::int64_t>(std::get<Stored>(whole)), type);
}

Parsed as_integer(const Stored& value, Oid type, Oid from) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    if (type == oid::int2 || type == oid::int4 || type == oid::int8) return checked_integer(*number, type);
    return parse_integer(std::to_string(*number), type);
  }
  if (const auto* real = std::get_if<double>(&value)) {
    if (!is_real(from)) return rounded_integer(decimal_text(value, from), type);
    const double rounded = std::nearbyint(*real);
    constexpr double limit = 9'223'372'036'854'775'808.0;
    if (!(rounded >= -limit && rounded < limit)) return SqlError{"22003", std::string(spoken(type)) + " out of range"};
    return checked_integer(static_cast<std::int64_t>(rounded), type);
  }
  if (from == oid::numeric) return rounded_integer(text_of(value), type);
  return parse_integer(text_of(value), type);
}

Parsed as_real(const Stored& value, Oid type) {
  double number = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) number = static_cast<double>(*whole);
  else if (const auto* real = std::get_if<double>(&value)) number = *real;
  else return parse_float(text_of(value), type);
  if (type == oid::float8) return Stored(number);
  const auto narrow = static_cast<float>(number);
  const bool lost = std::isfinite(number) && (std::isinf(narrow) || (narrow == 0 && number != 0));
  if (lost) return SqlError{"22003", narrow == 0 ? "value out of range: underflow" : "value out of range: overflow"};
  return Stored(static_cast<double>(narrow));
}

// numeric(p,s), and what an SQLite file keeps of a number.
Parsed as_numeric(const Stored& value, std::int32_t modifier, Oid from) {
  const std::string text = decimal_text(value, from);
  const Parsed parsed = parse_numeric(text);
  if (std::holds_alternative<SqlError>(parsed)) return parsed;
  Decimal number;
  if (read_decimal(text, number) != Reading::fine) {
    if (modifier >= 4 && lowered(trimmed(text)).find("inf") != std::string::npos) return SqlError{"22003", "numeric field overflow"};
    return SqlError{"0A000", "numeric " + std::string(trimmed(text)) + " is not supported in an SQLite file"};
  }
  if (modifier >= 4) {
    const auto precision = static_cast<std::size_t>((modifier - 4) >> 16 & 0xffff),
               scale = static_cast<std::size_t>((modifier - 4) & 0x7ff);
    round_to(number, scale);
    if (number.whole.size() > precision - std::min(precision, scale)) return SqlError{"22003", "numeric field overflow"};
  }
  Stored out = stored_as(number);
  // The column would make a double of it, and lose digits.
  if (std::holds_alternative<std::string>(out))
    return SqlError{"0A000", "numeric values of more than 15 digits are not supported in an SQLite file: " + digits_of(number)};
  return out;
}

std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::size_t bytes_of_first(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && count-- == 0) break;
  }
  return at;
}

// varchar(n) and char(n). The blanks at a char's end are not stored: they do not count in comparisons, and are shown again by its length.
Parsed as_text(const Stored& value, Oid type, std::int32_t modifier, Oid from) {
  std::string text;
  if (from == oid::boolean) text = std::get_if<std::int64_t>(&value) != nullptr && std::get<std::int64_t>(value) != 0 ? "true" : "false";
  else if (from == 0 || from == oid::unknown) text = text_of(value);
  else if (const auto problem = append_value(text, value, from, Format::text)) return *problem;
  if (text.find('\0') != std::string::npos) return SqlError{"22021", "invalid byte sequence for encoding \"UTF8\": 0x00"};
  if ((type == oid::varchar || type == oid::bpchar) && modifier >= 5) {
    const auto most = static_cast<std::size_t>(modifier - 4);
    if (text.size() > most && length_of(text) > most) {
      const std::size_t kept = bytes_of_first(text, most);
      if (text.find_first_not_of(' ', kept) != std::string::npos) {
        const std::string_view name = type == oid::varchar ? "character varying(" : "character(";
        return SqlError{"22001", "value too long for type " + std::string(name) + std::to_string(most) + ")"};
      }
      text.resize(kept);
    }
  }
  if (type == oid::bpchar) text.resize(text.find_last_not_of(' ') + 1);
  if (type == oid::name) text.resize(as_name(text).size());
  return Stored(std::move(text));
}

// timestamp(p) and kin: microseconds rounded to that many digits, halves away from zero.
std::int64_t rounded_micros(std::int64_t micros, std::int32_t digits) {
  std::int64_t unit = 1;
  for (std::int32_t i = digits; i < 6; ++i) unit *= 10;
  const std::int64_t half = unit / 2;
  return micros >= 0 ? (micros + half) / unit * unit : -((-micros + half) / unit * unit);
}

}  // namespace

std::string_view as_name(std::string_view text) {
  constexpr std::size_t bytes_max = 63;
  if (text.size() <= bytes_max) return text;
  std::size_t kept = bytes_max;
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xC0) == 0x80) --kept;
  return text.substr(0, kept);
}

std::variant<Stored, SqlError> converted(const Stored& value, DeclaredType to, Oid from) {
  if (std::holds_alternative<std::monostate>(value)) return value;
  if (from == oid::unknown) from = 0;
  const Oid type = to.oid;
  switch (type) {
    case oid::int2:
    case oid::int4:
    case oid::int8: return as_integer(value, type, from);
    case oid::float4:
    case oid::float8: return as_real(value, type);
    case oid::numeric: return as_numeric(value, to.typmod, from);
    case oid::boolean:
      if (const auto* number = std::get_if<std::int64_t>(&value)) return Stored(std::int64_t{*number != 0});
      return parse_bool(text_of(value));
    case oid::text:
    case oid::varchar:
    case oid::bpchar:
    case oid::name: return as_text(value, type, to.typmod, from);
    case oid::bytea:
      if (std::holds_alternative<Blob>(value)) return value;
      return parse_bytea(text_of(value));
    case oid::date: return parse_time_like(text_of(value), type);
    case oid::time:
    case oid::timestamp:
    case oid::timestamptz: {
      Parsed parsed = parse_time_like(text_of(value), type);
      std::int64_t micros = 0;
      if (to.typmod < 0 || to.typmod >= 6 || std::holds_alternative<SqlError>(parsed)) return parsed;
      const std::string text = std::get<std::string>(std::get<Stored>(parsed));
      if (text.ends_with("infinity") || read_time_like(text, type, micros)) return parsed;
      return Stored(write_time_like(rounded_micros(micros, to.typmod), type));
    }
    default: break;
  }
  if (const Oid element = element_of(type); element != 0 && !std::holds_alternative<Blob>(value))
    return parse_array(text_of(value), element, to.typmod);
  return parse_value(text_of(value), type, Format::text);
}

}  // namespace termgate::sqlite_server
