// The forms of each family of types, by file: values.cpp chooses between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <termgate/sqlite_server/catalog.hpp>
#include <termgate/sqlite_server/values.hpp>

namespace termgate::sqlite_server {

using Parsed = std::variant<Stored, SqlError>;
using MaybeProblem = std::optional<SqlError>;

inline SqlError no_such(std::string_view type, std::string_view text) {
  return {"22P02", "invalid input syntax for type " + std::string(type) + ": \"" + std::string(text) + "\""};
}
inline SqlError wrong_size(std::string_view type) { return {"22P03", "incorrect binary data format for type " + std::string(type)}; }
// Of a type of one size: too few bytes are another error than too many.
inline SqlError wrong_size(std::string_view type, std::size_t bytes, std::size_t wanted) {
  return bytes < wanted ? SqlError{"08P01", "insufficient data left in message"} : wrong_size(type);
}
inline SqlError out_of_range(std::string_view text, std::string_view type) {
  return {"22003", "value \"" + std::string(text) + "\" is out of range for type " + std::string(type)};
}

// What a name keeps of a text: whole letters of its first 63 bytes.
std::string_view as_name(std::string_view text);

// Most significant byte first.
template <class Unsigned>
void append_big(std::string& out, Unsigned value) {
  for (int shift = static_cast<int>(sizeof value) * 8 - 8; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}
template <class Unsigned>
Unsigned read_big(std::string_view bytes) {
  Unsigned value = 0;
  for (const char byte : bytes.substr(0, sizeof value)) value = static_cast<Unsigned>(value << 8 | static_cast<unsigned char>(byte));
  return value;
}

std::string_view trimmed(std::string_view text) noexcept;
// What PostgreSQL calls the type in messages.
std::string_view spoken(Oid type) noexcept;

// numbers.cpp: bool, int2, int4, int8, oid and its kin, float4, float8
Parsed parse_integer(std::string_view text, Oid type);
Parsed parse_integer_binary(std::string_view bytes, Oid type);
MaybeProblem append_integer(std::string& out, const Stored& value, Oid type, Format format);
Parsed parse_bool(std::string_view text);
MaybeProblem append_bool(std::string& out, const Stored& value, Format format);
Parsed parse_float(std::string_view text, Oid type);
Parsed parse_float_binary(std::string_view bytes, Oid type);
MaybeProblem append_float(std::string& out, const Stored& value, Oid type, Format format);
// Shortest digits that read back as the same number, laid out as PostgreSQL does.
std::string float_text(double value, bool single);

// numeric.cpp
Parsed parse_numeric(std::string_view text);
// Its digits as PostgreSQL prints them, with all its zeros.
std::variant<std::string, SqlError> numeric_text(std::string_view text);
std::variant<std::string, SqlError> numeric_text_of_binary(std::string_view bytes);
Parsed parse_numeric_binary(std::string_view bytes);
MaybeProblem append_numeric(std::string& out, const Stored& value, Format format);

// times.cpp: date, time, timestamp, timestamptz
Parsed parse_time_like(std::string_view text, Oid type);
Parsed parse_time_like_binary(std::string_view bytes, Oid type);
MaybeProblem append_time_like(std::string& out, const Stored& value, Oid type, Format format);

// spans.cpp: interval and time with time zone
Parsed parse_interval_value(std::string_view text);
Parsed parse_interval_binary(std::string_view bytes);
MaybeProblem append_interval_binary(std::string& out, std::string_view text);
Parsed parse_timetz(std::string_view text);
Parsed parse_timetz_binary(std::string_view bytes);
MaybeProblem append_timetz_binary(std::string& out, std::string_view text);

// array_values.cpp: elements in one row, level by level; no lengths: an empty array.
struct ArrayValue {
  std::vector<std::size_t> lengths;
  std::vector<std::optional<std::string>> elements;  // nullopt: NULL
};
// 0: not an array's type.
Oid element_of(Oid array) noexcept;
std::variant<ArrayValue, SqlError> read_array(std::string_view text);
std::string array_text(const ArrayValue& array);
Parsed parse_array(std::string_view text, Oid element, std::int32_t modifier);
Parsed parse_array_binary(std::string_view bytes, Oid element);
MaybeProblem append_array_binary(std::string& out, std::string_view text, Oid element);

// bytes.cpp: bytea, uuid, json, jsonb and text
Parsed parse_bytea(std::string_view text);
MaybeProblem append_bytea(std::string& out, const Stored& value, Format format);
Parsed parse_uuid(std::string_view text);
Parsed parse_inet(std::string_view text);
Parsed parse_uuid_binary(std::string_view bytes);
MaybeProblem append_uuid(std::string& out, const Stored& value, Format format);
// meeting.cpp: UTF-8 as PostgreSQL takes it, without NUL.
bool is_valid_text(std::string_view text) noexcept;
// 22021 where it is not, which names the bytes as PostgreSQL does.
MaybeProblem encoding_problem(std::string_view text);
// Any value as text: what SQLite would print, but numbers as PostgreSQL prints them.
std::string text_of(const Stored& value);
// ASCII letters only, whatever the locale.
std::string lowered(std::string_view text);

}  // namespace termgate::sqlite_server
