// PostgreSQL's types by name and OID, and what SQLite stores for each. Declared types stay in a table's text, so that the same
// table tells a column's OID from what SQLite calls its declared type.
#pragma once

#include <span>
#include <string_view>

#include <termgate/dialect/translate.hpp>

namespace termgate::dialect {

namespace oid {
inline constexpr Oid boolean = 16, bytea = 17, name = 19, int8 = 20, int2 = 21, int4 = 23, text = 25, oid = 26, json = 114, float4 = 700,
                     float8 = 701, unknown = 705, bpchar = 1042, varchar = 1043, date = 1082, time = 1083, timestamp = 1114,
                     timestamptz = 1184, interval = 1186, timetz = 1266, numeric = 1700, regclass = 2205, uuid = 2950, jsonb = 3802,
                     record = 2249, text_array = 1009;
}

enum class Stored : std::uint8_t { integer, real, numeric, text, blob };

struct Type {
  std::string_view name;      // as pg_type has it
  std::string_view declared;  // as a CREATE TABLE here says it, chosen so that SQLite's affinity is `stored`
  Oid oid;
  Oid array;  // of its array type
  Stored stored;
  std::string_view cast;  // the function that makes such a value of any other (functions.hpp); empty: CAST
};

std::span<const Type> types() noexcept;
// By pg_type's name or one of the SQL spellings (integer, bigint, double precision, character varying, bool, serial …), lower case,
// without what is in parentheses; nullptr: not known.
const Type* type_named(std::string_view name) noexcept;
const Type* type_of(Oid oid) noexcept;
// The OID for SQLite's declared type of a column: any case, with or without (10,2), [] for arrays; SQLite's own words (INTEGER is
// int8, as it holds 64 bits; int4 only where `int4`, `int` or `serial` was written) included. What is none of these
// has the OID of its affinity, and text where that is NUMERIC or nothing was declared.
Oid oid_of_declared(std::string_view declared) noexcept;

}  // namespace termgate::dialect
