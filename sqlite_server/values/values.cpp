#include <termgate/sqlite_server/values.hpp>

#include "values/forms.hpp"

namespace termgate::sqlite_server {

namespace oid = dialect::oid;

namespace {

enum class Family : std::uint8_t { text, boolean, integer, real, numeric, bytea, time, uuid, jsonb, other };

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
    case oid::uuid: return Family::uuid;
    case oid::jsonb: return Family::jsonb;
    case 0:
    case oid::text:
    case oid::varchar:
    case oid::bpchar:
    case oid::name:
    case oid::unknown:
    case oid::json: return Family::text;
    default: break;
  }
  const dialect::Type* known = dialect::type_of(type);
  return known != nullptr && known->stored == dialect::Stored::integer ? Family::integer : Family::other;
}

ValueProblem no_binary(Oid type) { return {"0A000", "type " + std::string(spoken(type)) + " has no binary format here"}; }

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

bool has_binary(Oid type) noexcept { return family_of(type) != Family::other; }

std::optional<ValueProblem> append_value(std::string& out, const Stored& value, Oid type, Format format) {
  switch (family_of(type)) {
    case Family::boolean: return append_bool(out, value, format);
    case Family::integer: return append_integer(out, value, type, format);
    case Family::real: return append_float(out, value, type, format);
    case Family::numeric: return append_numeric(out, value, format);
    case Family::bytea: return append_bytea(out, value, format);
    case Family::time: return append_time_like(out, value, type, format);
    case Family::uuid: return append_uuid(out, value, format);
    case Family::jsonb:
      if (format == Format::binary) out += '\1';  // its version
      out += text_of(value);
      return std::nullopt;
    case Family::other:
      if (format == Format::binary) return no_binary(type);
      [[fallthrough]];
    case Family::text: out += text_of(value); return std::nullopt;
  }
  return std::nullopt;
}

std::variant<Stored, ValueProblem> parse_value(std::string_view bytes, Oid type, Format format) {
  const bool binary = format == Format::binary;
  switch (family_of(type)) {
    case Family::boolean:
      if (!binary) return parse_bool(bytes);
      if (bytes.size() != 1) return wrong_size("boolean");
      return Stored(std::int64_t{bytes[0] != 0});
    case Family::integer: return binary ? parse_integer_binary(bytes, type) : parse_integer(bytes, type);
    case Family::real: return binary ? parse_float_binary(bytes, type) : parse_float(bytes, type);
    case Family::numeric: return binary ? parse_numeric_binary(bytes) : parse_numeric(bytes);
    case Family::bytea: return binary ? Parsed(Stored(Blob{std::string(bytes)})) : parse_bytea(bytes);
    case Family::time: return binary ? parse_time_like_binary(bytes, type) : parse_time_like(bytes, type);
    case Family::uuid: return binary ? parse_uuid_binary(bytes) : parse_uuid(bytes);
    case Family::jsonb:
      if (binary) {
        if (bytes.empty() || bytes[0] != '\1') return ValueProblem{"XX000", "unsupported jsonb version number " + std::to_string(bytes.empty() ? 0 : static_cast<unsigned char>(bytes[0]))};
        bytes.remove_prefix(1);
      }
      return Stored(std::string(bytes));
    case Family::other:
      if (binary) return no_binary(type);
      break;
    case Family::text: break;
  }
  if (bytes.find('\0') != std::string_view::npos) return ValueProblem{"22021", "invalid byte sequence for encoding \"UTF8\": 0x00"};
  return Stored(std::string(bytes));
}

}  // namespace termgate::sqlite_server
