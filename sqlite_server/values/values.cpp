#include <termgate/sqlite_server/values.hpp>

#include "values/forms.hpp"
#include "functions/functions.hpp"
#include "values/json.hpp"

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

namespace {

enum class Family : std::uint8_t { text, boolean, integer, real, numeric, bytea, time, timetz, interval, uuid, json, jsonb, array, other };

Family family_of(Oid type) noexcept {
  switch (type) {
    case oid::boolean: return Family::boolean;
    case oid::int2:
    case oid::int4:
    case oid::int8:
    case oid::oid: return Family::integer;
    case oid::float4:
    case oid::float8: return Family::real;
    case oid::numeric: return Family::numeric;
    case oid::bytea: return Family::bytea;
    case oid::date:
    case oid::time:
    case oid::timestamp:
    case oid::timestamptz: return Family::time;
    case oid::timetz: return Family::timetz;
    case oid::interval: return Family::interval;
    case oid::uuid: return Family::uuid;
    case oid::json: return Family::json;
    case oid::jsonb: return Family::jsonb;
    case 0:
    case oid::text:
    case oid::varchar:
    case oid::bpchar:
    case oid::name:
    case oid::unknown: return Family::text;
    default: break;
  }
  const dialect::Type* listed = dialect::type_of(type);
  if (listed == nullptr) return element_of(type) != 0 ? Family::array : Family::other;
  return listed->stored == dialect::Stored::integer ? Family::integer : Family::other;
}

// regclass and its kin, whose names only the catalog knows.
bool is_named(Oid type) {
  const dialect::Type* listed = dialect::type_of(type);
  return listed != nullptr && listed->name.starts_with("reg");
}

// The functions of intervals and of JSON throw what they find.
template <class Work>
Parsed caught(const Work& work) {
  try {
    return work();
  } catch (CallError& failed) { return std::move(failed.problem); }
}

SqlError no_binary(Oid type) { return {"0A000", "type " + std::string(spoken(type)) + " has no binary format here"}; }

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view spaces = " \t\n\r\f\v";
  const auto begin = text.find_first_not_of(spaces);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, text.find_last_not_of(spaces) - begin + 1);
}

std::string_view spoken(Oid type) noexcept {
  switch (type) {
    case oid::boolean: return "boolean";
    case oid::int2: return "smallint";
    case oid::int4: return "integer";
    case oid::int8: return "bigint";
    case oid::float4: return "real";
    case oid::float8: return "double precision";
    case oid::time: return "time";
    case oid::timestamp: return "timestamp";
    case oid::timestamptz: return "timestamp with time zone";
    default: break;
  }
  const dialect::Type* known = dialect::type_of(type);
  return known == nullptr ? "unknown" : known->name;
}

bool has_binary(Oid type) noexcept {
  return family_of(type) != Family::other && (family_of(type) != Family::array || has_binary(element_of(type)));
}

std::optional<SqlError> append_value(std::string& out, const Stored& value, Oid type, Format format) {
  switch (family_of(type)) {
    case Family::boolean: return append_bool(out, value, format);
    case Family::integer: return append_integer(out, value, type, format);
    case Family::real: return append_float(out, value, type, format);
    case Family::numeric: return append_numeric(out, value, format);
    case Family::bytea: return append_bytea(out, value, format);
    case Family::time: return append_time_like(out, value, type, format);
    case Family::timetz:
    case Family::interval:
    case Family::array:
      if (format == Format::text) {
        out += text_of(value);
        return std::nullopt;
      }
      if (family_of(type) == Family::array) return append_array_binary(out, text_of(value), element_of(type));
      return family_of(type) == Family::timetz ? append_timetz_binary(out, text_of(value)) : append_interval_binary(out, text_of(value));
    case Family::uuid: return append_uuid(out, value, format);
    case Family::jsonb:
      if (format == Format::binary) out += '\1';  // its version
      out += text_of(value);
      return std::nullopt;
    case Family::other:
      if (format == Format::binary) return no_binary(type);
      [[fallthrough]];
    case Family::json:
    case Family::text: out += text_of(value); return std::nullopt;
  }
  return std::nullopt;
}

std::variant<Stored, SqlError> parse_value(std::string_view bytes, Oid type, Format format) {
  const bool binary = format == Format::binary;
  switch (family_of(type)) {
    case Family::boolean:
      if (!binary) return parse_bool(bytes);
      if (bytes.size() != 1) return wrong_size("boolean", bytes.size(), 1);
      return Stored(std::int64_t{bytes[0] != 0});
    case Family::integer:
      if (binary) return parse_integer_binary(bytes, type);
      if (is_named(type) && trimmed(bytes).find_first_not_of("0123456789") != std::string_view::npos)
        return SqlError{
            "0A000", "a name as a value of type " + std::string(spoken(type)) + " is not supported here: \"" + std::string(bytes) + "\""};
      return parse_integer(bytes, type);
    case Family::real: return binary ? parse_float_binary(bytes, type) : parse_float(bytes, type);
    case Family::numeric: return binary ? parse_numeric_binary(bytes) : parse_numeric(bytes);
    case Family::bytea: return binary ? Parsed(Stored(Blob{std::string(bytes)})) : parse_bytea(bytes);
    case Family::time: return binary ? parse_time_like_binary(bytes, type) : parse_time_like(bytes, type);
    case Family::uuid: return binary ? parse_uuid_binary(bytes) : parse_uuid(bytes);
    case Family::timetz: return binary ? parse_timetz_binary(bytes) : parse_timetz(bytes);
    case Family::interval: return caught([&] { return binary ? parse_interval_binary(bytes) : parse_interval_value(bytes); });
    case Family::array: return binary ? parse_array_binary(bytes, element_of(type)) : parse_array(bytes, element_of(type), -1);
    case Family::json:
      return caught([&] {
        check_json(bytes);
        return Parsed(Stored(std::string(bytes)));
      });
    case Family::jsonb:
      if (binary) {
        if (bytes.empty() || bytes[0] != '\1')
          return SqlError{"XX000",
                          "unsupported jsonb version number " + std::to_string(bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]))};
        bytes.remove_prefix(1);
      }
      return caught([&] { return Parsed(Stored(canonical_jsonb(bytes))); });
    case Family::other: {
      constexpr Oid inet = 869, cidr = 650, macaddr = 829, xml = 142;
      if (binary) return no_binary(type);
      if (type == inet) return parse_inet(bytes);
      if (type == cidr || type == macaddr || type == xml)
        return SqlError{"0A000", "values of type " + std::string(spoken(type)) + " are not supported on SQLite"};
      break;
    }
    case Family::text: break;
  }
  if (auto problem = encoding_problem(bytes)) return *std::move(problem);
  // "char" is one byte; PostgreSQL cuts a longer text without an error.
  constexpr Oid single_byte = 18;
  if (type == single_byte && bytes.size() > 1) {
    if (static_cast<unsigned char>(bytes[0]) >= 0x80 || bytes[0] == '\\')
      return SqlError{"0A000", "values of type \"char\" other than ASCII letters are not supported on SQLite"};
    bytes = bytes.substr(0, 1);
  }
  if (type == oid::name) {
    if (binary && bytes.size() != as_name(bytes).size()) return SqlError{"42622", "identifier too long"};
    bytes = as_name(bytes);
  }
  return Stored(std::string(bytes));
}

}  // namespace termgate::sqlite_server
