// A value on its way between PostgreSQL's wire and an SQLite file: what a client sends or reads as int4, timestamptz or numeric,
// in text or binary, and what SQLite stores for it. docs of the formats: PostgreSQL's own, "Data Types" and the *send/*recv functions.
//
//   PostgreSQL          stored as
//   bool                integer 0, 1
//   int2 int4 int8 oid  integer, the reg… types too
//   float4 float8       real; NaN as the text 'NaN', which SQLite has no number for
//   numeric             integer or real where that is the same number in 15 digits, else its text
//   char(n)             text without the blanks at its end, which do not count
//   bytea               blob
//   date timestamp      text in ISO form, up to 6 digits of a second, no zeros at its end; years 1 to 9999, so that text sorts as time does
//   time                text in ISO form
//   timestamptz         as timestamp, in UTC, with +00 after it
//   timetz interval     text as PostgreSQL prints it
//   uuid                text in lower case with hyphens
//   json                text as given, if it is JSON
//   jsonb               text as PostgreSQL prints it: keys sorted, each once
//   arrays              text as PostgreSQL prints it, each element in its type's form; lower bounds are 1
//   anything else       text
//
// A file may hold anything in any column: what is not a value of the column's type is refused with 22P02 in binary, and given as it
// is in text. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <termgate/dialect/sql_error.hpp>
#include <termgate/dialect/types.hpp>

namespace termgate::sqlite_server {

using dialect::Oid;

enum class Format : std::uint8_t { text, binary };

struct Blob {
  std::string bytes;
  bool operator==(const Blob&) const = default;
};

// As SQLite holds it; monostate is NULL.
using Stored = std::variant<std::monostate, std::int64_t, double, std::string, Blob>;

// Of values: 22P02 (no such value), 22003 and 22008 (out of range), 22P03 (binary of the wrong size), 0A000 (a type that has no
// binary form here).
using dialect::SqlError;

// Appends what a DataRow has after the length. Not for NULL.
[[nodiscard]] std::optional<SqlError> append_value(std::string& out, const Stored& value, Oid type, Format format);

// What a Bind, a text of COPY or a cast brings. `type` 0 and unknown are text.
[[nodiscard]] std::variant<Stored, SqlError> parse_value(std::string_view bytes, Oid type, Format format);

// Whether append_value and parse_value know a binary form.
bool has_binary(Oid type) noexcept;

}  // namespace termgate::sqlite_server
