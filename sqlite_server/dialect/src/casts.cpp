// x::type. A constant is converted here, and refused as PostgreSQL would refuse it; a parameter takes the type; what is of that
// type already stays; the rest goes through the type's function, which a session supplies and which fails as PostgreSQL does.
#include <algorithm>
#include <cstdint>

#include "names.hpp"
#include "resolution.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\n\r\f\v");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n\r\f\v") - begin + 1));
}

bool is_whole_number(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_number(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  std::size_t at = 0, digits = 0;
  const auto run = [&] {
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at, ++digits;
  };
  run();
  if (at < text.size() && text[at] == '.') ++at, run();
  if (digits == 0) return false;
  if (at < text.size() && (text[at] | 0x20) == 'e') {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    digits = 0;
    run();
    if (digits == 0) return false;
  }
  return at == text.size();
}

// 64 bits; false where it does not fit.
bool read_whole(std::string_view text, std::int64_t& out) {
  const bool minus = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  std::uint64_t value = 0;
  for (const char c : text) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (value > (UINT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  if (value > static_cast<std::uint64_t>(INT64_MAX) + (minus ? 1 : 0)) return false;
  out = minus ? static_cast<std::int64_t>(0 - value) : static_cast<std::int64_t>(value);
  return true;
}

// -1: none.
int read_bool(std::string_view text) {
  const std::string word = lowered(trimmed(text));
  if (word.empty()) return -1;
  const auto begins = [&](std::string_view whole, std::size_t least) { return word.size() >= least && whole.starts_with(word); };
  if (begins("true", 1) || begins("yes", 1) || word == "on" || word == "1") return 1;
  if (begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0") return 0;
  return -1;
}

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1; }

// bytea's two ways of writing; false: neither.
bool read_bytes(std::string_view text, std::string& out) {
  static constexpr char digits[] = "0123456789abcdef";
  const auto put = [&](unsigned byte) { (out += digits[byte >> 4]) += digits[byte & 15]; };
  if (text.starts_with("\\x")) {
    for (std::size_t i = 2; i < text.size(); ++i) {
      if (text[i] == ' ') continue;
      if (i + 1 >= text.size() || hex_digit(text[i]) < 0 || hex_digit(text[i + 1]) < 0) return false;
      put(static_cast<unsigned>(hex_digit(text[i]) * 16 + hex_digit(text[i + 1])));
      ++i;
    }
    return true;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      put(static_cast<unsigned char>(text[i]));
    } else if (i + 1 < text.size() && text[i + 1] == '\\') {
      put('\\');
      ++i;
    } else {
      const std::string_view octal = text.substr(i + 1, 3);
      if (octal.size() < 3 || octal[0] < '0' || octal[0] > '3' || octal[1] < '0' || octal[1] > '7' || octal[2] < '0' || octal[2] > '7')
        return false;
      put(static_cast<unsigned>((octal[0] - '0') * 64 + (octal[1] - '0') * 8 + octal[2] - '0'));
      i += 3;
    }
  }
  return true;
}

}  // namespace

const Type& Writer::type_in(Node type_name) const {
  const std::vector<std::string> names = strings(type_name["names"]);
  if (names.size() > 1 && names[0] != "pg_catalog" && names[0] != "public")
    refuse_as("3F000", "schema \"" + names[0] + "\" does not exist", type_name);
  const Type* type = names.empty() ? nullptr : type_named(names.back());
  // Words that files made elsewhere declare; to a client there are PostgreSQL's types only.
  static constexpr std::string_view of_files[] = {"double",    "clob",  "blob",     "datetime",         "tinyint",
                                                  "mediumint", "nchar", "nvarchar", "varying character"};
  if (type != nullptr && std::find(std::begin(of_files), std::end(of_files), names.back()) != std::end(of_files)) type = nullptr;
  // One that PostgreSQL has and that is not kept here.
  if (type == nullptr && !names.empty() && resolution::type_row_named(names.back()) != nullptr)
    refuse("the type " + names.back(), type_name);
  if (type == nullptr) refuse_as("42704", "type \"" + (names.empty() ? std::string() : names.back()) + "\" does not exist", type_name);
  return *type;
}

Oid Writer::type_of_name(Node type_name) const {
  const Type& type = type_in(type_name);
  return type_name["arrayBounds"] ? type.array : type.oid;
}

Sql Writer::constant_as(const Type& type, Node constant_node, Node type_name, Node at) {
  const std::string text(constant_node["sval"].text("sval"));
  const auto invalid = [&]() {
    refuse_as("22P02",
              "invalid input syntax for type " +
                  std::string(type.name == "int4"     ? "integer"
                              : type.name == "int8"   ? "bigint"
                              : type.name == "int2"   ? "smallint"
                              : type.name == "bool"   ? "boolean"
                              : type.name == "float8" ? "double precision"
                                                      : type.name) +
                  ": \"" + text + "\"",
              at);
  };
  switch (type.oid) {
    case oid::int2:
    case oid::int4:
    case oid::int8: {
      const std::string number = trimmed(text);
      if (!is_whole_number(number)) invalid();
      std::int64_t value = 0;
      const bool fits = read_whole(number, value) &&
                        (type.oid == oid::int8 ||
                         (type.oid == oid::int4 ? value == static_cast<std::int32_t>(value) : value == static_cast<std::int16_t>(value)));
      if (!fits)
        refuse_as("22003",
                  "value \"" + text + "\" is out of range for type " +
                      std::string(type.oid == oid::int8   ? "bigint"
                                  : type.oid == oid::int4 ? "integer"
                                                          : "smallint"),
                  at);
      // The smallest has no positive counterpart to put a minus before.
      if (value == INT64_MIN) return {"(-9223372036854775807 - 1)", primary, type.oid};
      return {std::to_string(value), value < 0 ? unary : primary, type.oid};
    }
    case oid::float4:
    case oid::float8:
    case oid::numeric: {
      const std::string number = trimmed(text);
      if (!is_number(number)) break;  // NaN and Infinity are for the function
      std::string written = number[0] == '+' ? number.substr(1) : number;
      if (type.oid != oid::numeric && written.find_first_of(".eE") == std::string::npos) written += ".0";
      if (type_name["typmods"]) break;
      return {written, written[0] == '-' ? unary : primary, type.oid};
    }
    case oid::boolean: {
      const int value = read_bool(text);
      if (value < 0) invalid();
      return {value == 1 ? "1" : "0", primary, oid::boolean};
    }
    case oid::bytea: {
      std::string hex;
      if (!read_bytes(text, hex)) refuse_as("22P02", "invalid input syntax for type bytea", at);
      return {"x'" + hex + "'", primary, oid::bytea};
    }
    case oid::text:
    case oid::name: return {quoted_text(text), primary, type.oid};
    case oid::oid:
      if (is_whole_number(trimmed(text))) return {trimmed(text), primary, oid::oid};
      break;
    case oid::json: return {quoted_text(text), primary, type.oid};
    case oid::interval:
      // In its own words in the schema, where other programs read it.
      if (stored_) return {quoted_text(text), primary, oid::interval};
      break;
    default: break;
  }
  Sql value{quoted_text(text), primary, oid::unknown};
  if (type.oid == oid::varchar || type.oid == oid::bpchar)
    return type_name["typmods"] ? Sql{"substr(" + value.text + ", 1, " + list_of(type_name["typmods"]) + ")", primary, type.oid}
                                : Sql{value.text, primary, type.oid};
  return supplied(type.cast, value.text, type.oid);
}

Sql Writer::cast(Node body) {
  const Node type_name = body["typeName"];
  const Node arg = body["arg"];
  const Type& type = type_in(type_name);
  if (type_name["arrayBounds"]) {
    // Arrays are their text; elements take their type where they are compared.
    if (arg.is("ParamRef")) return parameter(arg.body(), type.array);
    Sql value = expression(arg);
    value.type = type.array;
    return value;
  }
  if (arg.is("ParamRef")) {
    Sql value = parameter(arg.body(), type.oid);
    if (value.type == type.oid && type.stored != Stored::blob && !type_name["typmods"])
      return type.stored == Stored::integer && type.cast.starts_with("pg_reg") ? supplied(type.cast, value.text, type.oid) : value;
  }
  if (const Node constant_node = arg.as("A_Const"); constant_node && constant_node["sval"])
    return constant_as(type, constant_node, type_name, body["location"] ? body : arg.body());
  if (arg.as("A_Const").flag("isnull")) return {"NULL", primary, type.oid};
  Sql value = expression(arg);
  const bool same = value.type == type.oid;
  switch (type.oid) {
    case oid::varchar:
    case oid::bpchar:
      if (type_name["typmods"])
        return {"substr(" +
                    (value.type == oid::text      ? value.text
                     : value.type == oid::boolean ? boolean_text(value)
                                                  : supplied("pg_text", value.text, oid::text).text) +
                    ", 1, " + list_of(type_name["typmods"]) + ")",
                primary, type.oid};
      [[fallthrough]];
    case oid::text:
    case oid::name:
      if (value.type == oid::boolean) return {boolean_text(value), primary, type.oid};
      if (value.type == oid::int2 || value.type == oid::int4 || value.type == oid::int8)
        return {"CAST(" + value.text + " AS TEXT)", primary, type.oid};
      if (value.type >= oid::regclass && value.type <= 2211)
        return supplied("pg_regtext", value.text + ", " + quoted_text(type_of(value.type)->name), type.oid);
      if (value.type == oid::text || value.type == oid::varchar || value.type == oid::name || value.type == oid::unknown)
        return {value.text, value.level, type.oid};
      return supplied("pg_text", value.text, type.oid);
    case oid::int2:
    case oid::int4:
    case oid::int8:
      if (same || value.type == oid::boolean || (value.type == oid::int2) || (value.type == oid::int4 && type.oid == oid::int8) ||
          value.type == oid::oid)
        return {value.text, value.level, type.oid};
      if (value.type == oid::numeric) return {"CAST(round(" + value.text + ") AS INTEGER)", primary, type.oid};
      break;
    case oid::numeric:
      if (type_name["typmods"])
        return {"round(" + supplied(type.cast, value.text, type.oid).text + ", " +
                    (type_name["typmods"].size() > 1 ? expression(type_name["typmods"].at(1)).text : "0") + ")",
                primary, type.oid};
      if (value.type == oid::int2 || value.type == oid::int4 || value.type == oid::int8 || same) return {value.text, value.level, type.oid};
      break;
    case oid::float4:
    case oid::float8:
      if (value.type == oid::int2 || value.type == oid::int4 || value.type == oid::int8 || value.type == oid::numeric)
        return {"CAST(" + value.text + " AS REAL)", primary, type.oid};
      break;
    default: break;
  }
  if (same) return value;
  if (type.cast.starts_with("pg_reg") && value.type == 0 && arg.is("ColumnRef")) {
    // An OID of the catalog: it stays a number, and its text is asked for by pg_regtext.
    return {value.text, value.level, type.oid};
  }
  return supplied(type.cast, value.text, type.oid);
}

}  // namespace termgate::dialect
