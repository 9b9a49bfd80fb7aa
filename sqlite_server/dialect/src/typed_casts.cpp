// Conversions: constants and parameters whose type was open, implicit and explicit casts, lengths.
#include <algorithm>

#include "names.hpp"
#include "shapes.hpp"
#include "typed.hpp"

namespace termgate::dialect {

using resolution::Context;
using resolution::Path;
using resolution::spoken;

namespace {

bool is_number(Oid type) { return is_whole(type) || type == oid::float4 || type == oid::float8 || type == oid::numeric; }
bool is_text(Oid type) { return type == oid::text || type == oid::varchar || type == oid::bpchar || type == oid::name; }
bool is_time(Oid type) {
  return type == oid::date || type == oid::time || type == oid::timetz || type == oid::timestamp || type == oid::timestamptz ||
         type == oid::interval;
}
bool is_reg(Oid type) {
  return type == oid::regclass || type == 2206 || type == 24 || type == 2202 || type == 2203 || type == 2204 || type == 4089 ||
         type == 4096 || type == 4191;
}

[[noreturn]] void no_cast(Oid source, Oid target, Node at) {
  refuse_as("0A000", "the cast of " + spoken(source) + " to " + spoken(target) + " is not translated for SQLite files", at);
}

}  // namespace

std::string Typed::wrapped(const Value& value, Level least) const { return value.level < least ? "(" + value.text + ")" : value.text; }

// A numeric as its text, a real with a real's precision; all others as they are.
std::string Typed::exact(const Value& value) const {
  if (!value.stored) return value.text;
  if (value.type == oid::float4) return "pg_float4(" + value.text + ")";
  // Stored without the blanks at its end, which show where it is more than a column.
  if (value.type == oid::bpchar)
    return value.typmod > 4 ? "pg_pad(" + value.text + ", " + std::to_string(value.typmod - 4) + ")" : value.text;
  if (value.type != oid::numeric) return value.text;
  const int scale = value.typmod >= 4 ? (value.typmod - 4) & 0xffff : -1;
  return scale >= 0 ? "pg_num(" + value.text + ", " + std::to_string(scale) + ")" : "pg_num(" + value.text + ")";
}

// So that SQLite sorts, groups and counts it as PostgreSQL does.
std::string Typed::sortable(const Value& value, bool order) const {
  switch (value.type) {
    case oid::numeric: return exact(value) + " COLLATE pg_numeric";
    case oid::interval: return wrapped(value, collation) + " COLLATE pg_interval";
    case oid::bpchar:
      // Two that are equal may have different blanks at their ends.
      if (!value.stored) refuse("ORDER BY, GROUP BY, DISTINCT or UNION of a reckoned character(n)", value.at);
      return value.text;
    case oid::json:
    case 2249:
      refuse_as("42883",
                std::string("could not identify an ") + (order ? "ordering" : "equality") + " operator for type " + spoken(value.type),
                value.at);
    case oid::jsonb:
      if (order) refuse("ORDER BY of jsonb", value.at);
      return "pg_jsonb_key(" + value.text + ")";
    case oid::timetz: refuse(std::string(order ? "ORDER BY" : "GROUP BY, DISTINCT or UNION") + " of " + spoken(value.type), value.at);
    default: break;
  }
  if (resolution::is_array(value.type) && order) refuse("ORDER BY of " + spoken(value.type), value.at);
  return exact(value);
}

Value Typed::decided(const Value& value) { return value.open() ? coerce(value, oid::text) : value; }

std::int32_t Typed::typmod_of(Node type_name, Oid type) const {
  const Node mods = type_name["typmods"];
  if (!mods) return -1;
  std::vector<std::int64_t> numbers;
  for (const Node each : mods.items()) {
    const Node body = each.as("A_Const");
    if (!body["ival"]) refuse("this type", type_name);
    Translated nothing;
    numbers.push_back(Writer(nothing, sql_).whole(body));
  }
  if (type == oid::varchar || type == oid::bpchar) {
    if (numbers[0] < 1)
      refuse_as("22023", "length for type " + std::string(type == oid::varchar ? "varchar" : "char") + " must be at least 1", type_name);
    return static_cast<std::int32_t>(numbers[0] + 4);
  }
  if (type == oid::numeric) {
    if (numbers[0] < 1 || numbers[0] > 1000)
      refuse_as("22023", "NUMERIC precision " + std::to_string(numbers[0]) + " must be between 1 and 1000", type_name);
    const std::int64_t scale = numbers.size() > 1 ? numbers[1] : 0;
    if (scale < 0 || scale > numbers[0]) refuse("this scale of numeric", type_name);
    return static_cast<std::int32_t>((numbers[0] << 16 | scale) + 4);
  }
  if ((type == oid::timestamp || type == oid::timestamptz || type == oid::time) && numbers[0] >= 0)
    return static_cast<std::int32_t>(std::min<std::int64_t>(numbers[0], 6));
  refuse("the precision of " + spoken(type), type_name);
}

Oid Typed::type_of_name(Node type_name) const {
  if (is_serial(type_name)) refuse_as("42704", "type \"" + last_name(type_name["names"]) + "\" does not exist", type_name);
  Translated nothing;
  const Writer plain(nothing, sql_);
  if (type_name["arrayBounds"]) {
    const Oid array = plain.type_in(type_name).array;
    if (array == 0) refuse("an array of this type", type_name);
    return array;
  }
  return plain.type_in(type_name).oid;
}

Value Typed::coerce(const Value& value, Oid type, Context context) {
  Value result = value;
  result.at = value.at;
  if (value.open() || value.type == oid::unknown) {
    if (type == oid::unknown || type == 2276) type = oid::text;
    result.constant.reset();
    result.null = false;
    result.parameter = 0;
    result.type = type;
    result.typmod = -1;
    if (value.parameter != 0) {
      set_parameter(value.parameter, type, value.at);
      result.stored = type == oid::numeric || type == oid::float4;
    } else if (value.constant) {
      auto converted_text = relations_.constant(*value.constant, type);
      if (auto* problem = std::get_if<SqlError>(&converted_text)) refuse_as(problem->sqlstate, problem->message, value.at);
      result.text = std::get<std::string>(converted_text);
      result.level = result.text.starts_with("-") ? unary : primary;
    }
    return result;
  }
  if (value.type == type) return result;
  const Path path = resolution::cast_path(value.type, type, context);
  if (path.how == Path::How::none) return result;  // the caller says what that means
  return converted(value, type, path, context);
}

Value Typed::converted(const Value& value, Oid type, const Path& path, Context context) {
  Value result;
  if (is_text(type)) {
    // A cast that is no input function: of text types among themselves, and of a boolean by its own function.
    result = as_text(value, type);
  } else if (is_number(value.type) && (is_number(type) || type == oid::boolean || type == oid::oid || is_reg(type))) {
    result = number_cast(value, type);
  } else if (value.type == oid::boolean && type == oid::int4) {
    result = value;
  } else if (is_time(value.type) && is_time(type)) {
    result = time_cast(value, type);
  } else if (is_text(value.type) && (path.how == Path::How::text || type == oid::regclass)) {
    result = from_text(value, type);
  } else if ((value.type == oid::oid || is_reg(value.type)) &&
             (type == oid::oid || is_reg(type) || type == oid::int4 || type == oid::int8)) {
    result = value;
  } else if (value.type == oid::json && type == oid::jsonb) {
    result = {"pg_jsonb(" + value.text + ")", primary, type};
  } else if (value.type == oid::jsonb && type == oid::json) {
    result = value;
  } else if (path.how == Path::How::elements && resolution::type_row(type)->element == oid::text &&
             resolution::type_row(value.type)->element == oid::varchar) {
    result = value;
  } else {
    (void)context;
    no_cast(value.type, type, value.at);
  }
  result.type = type;
  result.typmod = -1;
  result.at = value.at;
  return result;
}

// As an array's text has it: booleans are one letter there.
std::string Typed::element_text(const Value& value) {
  const std::string text = value.type == oid::bpchar ? exact(value) : as_text(value, oid::text).text;
  return value.type == oid::boolean ? "substr(" + text + ", 1, 1)" : text;
}

// The output function of the type.
Value Typed::as_text(const Value& value, Oid type) {
  if (value.open()) return coerce(value, type);
  Value result{value.text, value.level, type};
  result.at = value.at;
  if (is_text(value.type)) {
    if (value.type == oid::bpchar && type != oid::bpchar) result = {"rtrim(" + value.text + ", ' ')", primary, type};
    if (type == oid::name && value.type != oid::name) result = {"pg_name(" + value.text + ")", primary, type};
  } else if (value.type == oid::boolean) {
    result = {"CASE NOT " + wrapped(value, unary) + " WHEN 0 THEN 'true' WHEN 1 THEN 'false' END", primary, type};
  } else if (is_whole(value.type) || value.type == oid::oid) {
    result = {"CAST(" + value.text + " AS TEXT)", primary, type};
  } else if (value.type == oid::numeric) {
    result = {exact(value), value.stored ? primary : value.level, type};
  } else if (value.type == oid::float4 || value.type == oid::float8) {
    result = {std::string(value.type == oid::float4 ? "pg_float4_text(" : "pg_float8_text(") + exact(value) + ")", primary, type};
  } else if (is_reg(value.type)) {
    result = {"pg_regtext(" + value.text + ", " + quoted_text(resolution::type_row(value.type)->name) + ")", primary, type};
  } else if (value.type == oid::bytea) {
    result = {"pg_text(" + value.text + ")", primary, type};
  } else if (!is_time(value.type) && value.type != oid::uuid && value.type != oid::json && value.type != oid::jsonb && value.type != 18 &&
             !resolution::is_array(value.type)) {
    no_cast(value.type, type, value.at);
  }
  result.at = value.at;
  return result;
}

Value Typed::number_cast(const Value& value, Oid type) {
  const auto call = [&](std::string_view function) { return Value{std::string(function) + "(" + exact(value) + ")", primary, type}; };
  if (type == oid::boolean) return {wrapped(value, equality) + " <> 0", equality, type};
  if (type == oid::oid || is_reg(type)) {
    // An OID has no sign.
    if (value.type == oid::int8) no_cast(value.type, type, value.at);
    return {wrapped(value, bits) + " & 4294967295", bits, type};
  }
  if (is_whole(type)) {
    if (is_whole(value.type)) {
      const auto size = [](Oid of) { return of == oid::int2 ? 2 : of == oid::int4 ? 4 : 8; };
      if (size(value.type) <= size(type)) return value;
      return call(type == oid::int2 ? "pg_i2" : "pg_i4");
    }
    const std::string from = value.type == oid::numeric ? "pg_numeric_int" : "pg_float_int";
    return call(from + (type == oid::int2 ? "2" : type == oid::int4 ? "4" : "8"));
  }
  if (type == oid::numeric)
    return call(value.type == oid::float8 ? "pg_float8_numeric" : value.type == oid::float4 ? "pg_float4_numeric" : "pg_num");
  if (type == oid::float8) {
    if (value.type == oid::float4) return {exact(value), primary, type};
    return is_whole(value.type) ? Value{"CAST(" + value.text + " AS REAL)", primary, type} : call("pg_numeric_float8");
  }
  if (is_whole(value.type)) return call("pg_float4");
  return call(value.type == oid::numeric ? "pg_numeric_float4" : "pg_float8_float4");
}

Value Typed::time_cast(const Value& value, Oid type) {
  const auto call = [&](std::string_view function) { return Value{std::string(function) + "(" + value.text + ")", primary, type}; };
  if (type == oid::interval && value.type == oid::time) return call("pg_interval");
  if (type == oid::interval || value.type == oid::interval || value.type == oid::timetz || type == oid::timetz)
    no_cast(value.type, type, value.at);
  if (value.type == oid::time || (type == oid::time && value.type == oid::date)) no_cast(value.type, type, value.at);
  if (type == oid::date) return call("pg_moment_date");
  if (type == oid::time) return call("pg_moment_time");
  if (type == oid::timestamp) return call(value.type == oid::date ? "pg_date_timestamp" : "pg_timestamptz_timestamp");
  return call(value.type == oid::date ? "pg_date_timestamptz" : "pg_timestamp_timestamptz");
}

Value Typed::from_text(const Value& value, Oid type) {
  const Type* known = type_of(type);
  const std::string text = exact(value);
  if (type == oid::numeric) return {"pg_numeric_in(" + text + ")", primary, type};
  if (known == nullptr || known->cast.empty() || type == oid::timetz) no_cast(value.type, type, value.at);
  if (is_text(type)) return {text, value.level, type};
  // By the input function of just this type: others would heed a zone that it ignores.
  if (is_time(type) && type != oid::interval) return {"pg_assign(" + text + ", " + std::to_string(type) + ", -1)", primary, type};
  return {std::string(known->cast) + "(" + text + ")", primary, type};
}

// varchar(n), char(n) and numeric(p, s): a cast cuts what an assignment refuses.
Value Typed::sized(const Value& value, std::int32_t typmod, bool explicitly, Node at) {
  const bool precise = value.type == oid::timestamp || value.type == oid::timestamptz || value.type == oid::time;
  if ((precise ? typmod < 0 : typmod < 4) || (value.typmod == typmod && value.type != oid::numeric)) return value;
  Value result = value;
  result.typmod = typmod;
  result.level = primary;
  result.stored = false;
  if (value.type == oid::numeric) {
    const int precision = (typmod - 4) >> 16, scale = (typmod - 4) & 0xffff;
    if (value.typmod == typmod) return value;
    result.text = "pg_numeric_fit(" + exact(value) + ", " + std::to_string(precision) + ", " + std::to_string(scale) + ")";
    result.stored = false;
  } else if (value.type == oid::varchar || value.type == oid::bpchar) {
    const std::string length = std::to_string(typmod - 4);
    if (explicitly)
      result.text = value.type == oid::bpchar ? "pg_pad(substr(" + exact(value) + ", 1, " + length + "), " + length + ")"
                                              : "substr(" + value.text + ", 1, " + length + ")";
    else
      result.text =
          "pg_fit(" + value.text + ", " + length + ", " + (value.type == oid::varchar ? "'character varying'" : "'character'") + ")";
  } else if (value.type == oid::timestamp || value.type == oid::timestamptz || value.type == oid::time) {
    const std::string type_text = std::to_string(value.type);
    result.text = "pg_assign(" + value.text + ", " + type_text + ", " + std::to_string(typmod) + ", " + type_text + ")";
  } else {
    refuse("the length of " + spoken(value.type), at);
  }
  return result;
}

Value Typed::cast(Node body) {
  const Node type_name = body["typeName"];
  const Oid type = type_of_name(type_name);
  const std::int32_t typmod = typmod_of(type_name, type);
  if (const Node list = body["arg"].as("A_ArrayExpr"); list && resolution::is_array(type))
    return array(list, resolution::type_row(type)->element);
  Value value = expression(body["arg"]);
  if (!value.open() && value.type != type && resolution::cast_path(value.type, type, Context::explicitly).how == Path::How::none) {
    refuse_as("42846", "cannot cast type " + spoken(value.type) + " to " + spoken(type), body);
  }
  const Oid source = value.type;
  value.at = body;
  value = coerce(value, type, Context::explicitly);
  if (value.type != type) no_cast(source, type, body);
  value = sized(value, typmod, true, body);
  if (typmod < 0 && value.typmod >= 0) {
    // The same value, of which no length is known.
    value.text = exact(value);
    if (value.stored) value.level = primary;
    value.stored = false;
    value.typmod = -1;
  }
  return value;
}

// A value on its way into a column.
Value Typed::assigned(const Value& value, const Relations::RelationColumn& column, Node at) {
  if (column.type == 0) refuse("column \"" + column.name + "\", whose type is not known", at);
  if (!value.open() && value.type != column.type &&
      resolution::cast_path(value.type, column.type, Context::assignment).how == Path::How::none) {
    refuse_as("42804",
              "column \"" + column.name + "\" is of type " + spoken(column.type) + " but expression is of type " + spoken(value.type), at);
  }
  Value result = coerce(value, column.type, Context::assignment);
  const bool stays = result.typmod == column.typmod && result.stored && !result.text.starts_with('?');
  result = sized(result, column.typmod, false, at);
  if (result.type == oid::bpchar && !stays && !value.null) result.text = "rtrim(" + result.text + ", ' ')";
  // What an SQLite column of numbers cannot keep to its last digit is refused when it is stored.
  if (result.type == oid::numeric && !stays && !value.null)
    result = {"pg_numeric_store(" + exact(result) + ")", primary, result.type, result.typmod};
  if (result.type == oid::float4 && result.stored) result.text = exact(result);
  return result;
}

}  // namespace termgate::dialect
