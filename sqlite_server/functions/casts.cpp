// x::type, and the reg… types: names of catalog objects as OIDs and back.
#include <cmath>
#include <iterator>
#include <limits>

#include "catalog/data.hpp"
#include "values/forms.hpp"
#include "functions/functions.hpp"

namespace termgate::sqlite_server {
namespace {

namespace oid = dialect::oid;

void answer_parsed(Call& call, std::variant<Stored, SqlError> parsed) {
  if (auto* problem = std::get_if<SqlError>(&parsed)) throw CallError{std::move(*problem)};
  call.answer_stored(std::get<Stored>(parsed));
}

// Halves go to the even neighbour, as a double's do in PostgreSQL.
template <Oid type>
void to_integer(Call& call) {
  std::int64_t value = 0;
  if (call.type(0) == SQLITE_FLOAT) {
    const double rounded = std::nearbyint(call.real(0));
    if (!(rounded >= -9'223'372'036'854'775'808.0 && rounded < 9'223'372'036'854'775'808.0))
      fail("22003", std::string(spoken(type)) + " out of range");
    value = static_cast<std::int64_t>(rounded);
  } else if (call.type(0) == SQLITE_INTEGER) {
    value = call.whole(0);
  } else {
    return answer_parsed(call, parse_value(call.text(0), type, Format::text));
  }
  const std::int64_t most = type == oid::int2   ? std::numeric_limits<std::int16_t>::max()
                            : type == oid::int4 ? std::numeric_limits<std::int32_t>::max()
                                                : std::numeric_limits<std::int64_t>::max();
  if (value > most || value < -most - 1) fail("22003", std::string(spoken(type)) + " out of range");
  call.answer(value);
}

template <Oid type>
void to_float(Call& call) {
  if (call.type(0) == SQLITE_INTEGER || call.type(0) == SQLITE_FLOAT) {
    const double value = call.real(0);
    if (type == oid::float4 && std::isfinite(value) && std::abs(value) > static_cast<double>(std::numeric_limits<float>::max()))
      fail("22003", "value out of range: overflow");
    return call.answer(type == oid::float4 ? static_cast<double>(static_cast<float>(value)) : value);
  }
  answer_parsed(call, parse_value(call.text(0), type, Format::text));
}

void to_bool(Call& call) {
  if (call.type(0) == SQLITE_INTEGER) return call.answer(call.whole(0) != 0);
  answer_parsed(call, parse_value(call.text(0), oid::boolean, Format::text));
}

template <Oid type>
void by_text(Call& call) {
  answer_parsed(call, parse_value(call.text(0), type, Format::text));
}

void to_numeric(Call& call) {
  if (call.type(0) == SQLITE_INTEGER || call.type(0) == SQLITE_FLOAT) return call.answer_value(0);
  answer_parsed(call, parse_value(call.text(0), oid::numeric, Format::text));
}

void to_bytea(Call& call) {
  if (call.type(0) == SQLITE_BLOB) return call.answer_value(0);
  answer_parsed(call, parse_value(call.text(0), oid::bytea, Format::text));
}

void to_date(Call& call) { call.answer(moment_text({parse_moment(call.text(0)).micros, oid::date})); }
void to_time(Call& call) {
  const Moment moment = parse_moment(call.text(0));
  constexpr std::int64_t day_us = 86'400'000'000;
  call.answer(moment_text({moment.type == oid::time ? moment.micros : ((moment.micros % day_us) + day_us) % day_us, oid::time}));
}
template <Oid type>
void to_timestamp_type(Call& call) {
  const Moment moment = parse_moment(call.text(0));
  if (moment.type == oid::time) fail("22007", "invalid input syntax for type " + std::string(spoken(type)) + ": \"" + call.text(0) + "\"");
  call.answer(moment_text({moment.micros, type}));
}

// (value, type's OID, typmod [, the OID of the value's type]); an empty answer is NULL's.
void assign(Call& call) {
  const auto type = static_cast<Oid>(call.whole(1)), from = call.count > 3 ? static_cast<Oid>(call.whole(3)) : Oid{0};
  answer_parsed(call, converted(call.stored(0), {type, static_cast<std::int32_t>(call.whole(2))}, from));
}

// ------------------------------------------------------------------------------------------------ reg…

bool digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos; }

// "a"."B c" and a.b: the parts of a name, unquoted ones in lower case.
std::vector<std::string> path_of(std::string_view text) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      if (quoted && i + 1 < text.size() && text[i + 1] == '"') parts.back() += text[i++];
      else quoted = !quoted;
    } else if (c == '.' && !quoted) {
      parts.emplace_back();
    } else {
      parts.back() += quoted ? c : lower(std::string_view(&c, 1))[0];
    }
  }
  return parts;
}

std::optional<std::int64_t> space_of(std::string_view name) {
  for (const std::int64_t space :
       {namespaces::catalog, namespaces::toast, namespaces::user, namespaces::information, namespaces::temporary, namespaces::termgate}) {
    if (space_name(space) == name) return space;
  }
  if (name == "pg_temp") return namespaces::temporary;
  return std::nullopt;
}

std::optional<std::int64_t> relation_oid(CatalogState& state, std::string_view text) {
  auto path = path_of(text);
  // A database's name may be in front.
  if (path.size() == 3 && path[0] == state.database()) path.erase(path.begin());
  if (path.size() > 2) return std::nullopt;
  std::optional<std::int64_t> space;
  if (path.size() == 2) {
    space = space_of(path[0]);
    if (!space) return std::nullopt;
  }
  const std::string& name = path.back();
  for (const SystemRelation& each : system_relations()) {
    if (each.kind != 'f' && each.shown == name && (space ? each.space == *space : each.space == namespaces::catalog)) return each.oid;
  }
  const auto schema = state.schema();
  if (const SchemaRelation* relation = schema->named(name, space);
      relation != nullptr && (space || relation->space != namespaces::termgate))
    return relation->oid;
  for (const SchemaRelation& relation : schema->relations) {
    if (space ? relation.space != *space : relation.space == namespaces::termgate) continue;
    for (const SchemaIndex& index : relation.indexes) {
      if (lower(index.name) == lower(name)) return index.oid;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> type_oid(std::string_view text) {
  std::string name = lower(text);
  while (!name.empty() && name.back() == ' ') name.pop_back();
  if (name.starts_with("pg_catalog.")) name.erase(0, 11);
  if (name.starts_with("\"pg_catalog\".")) name.erase(0, 13);
  bool array = false;
  while (name.ends_with("[]")) {
    name.resize(name.size() - 2);
    array = true;
  }
  if (const auto open = name.find('('); open != std::string::npos) {
    const auto close = name.find(')', open);
    name.erase(open, close == std::string::npos ? std::string::npos : close - open + 1);
  }
  if (name.size() > 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
  const dialect::Type* known = dialect::type_named(name);
  const CatalogType* type = known != nullptr && known->oid != oid::unknown ? catalog_type(known->oid) : catalog_type_named(name);
  if (type == nullptr) return std::nullopt;
  return array ? number_of(type->fields[10]) : type->oid;
}

std::optional<std::int64_t> function_oid(std::string_view text) {
  const auto path = path_of(text.substr(0, text.find('(')));
  for (const std::string_view line : std::span(data::functions, data::functions_count)) {
    const auto fields = fields_of(line);
    if (fields[1] == path.back()) return number_of(fields[0]);
  }
  return std::nullopt;
}

template <class Find>
void reg(Call& call, std::string_view sqlstate, std::string_view what, const Find& find) {
  if (call.type(0) == SQLITE_INTEGER) return call.answer_value(0);
  const std::string text = call.text(0);
  if (digits(text)) return call.answer(number_of(text));
  if (text == "-") return call.answer(std::int64_t{0});
  if (const std::optional<std::int64_t> found = find(text)) return call.answer(*found);
  fail(sqlstate, std::string(what) + " \"" + text + "\" does not exist");
}

void to_regclass_or_fail(Call& call) {
  reg(call, "42P01", "relation", [&](const std::string& text) { return relation_oid(call.state, text); });
}
void to_regtype_or_fail(Call& call) { reg(call, "42704", "type", type_oid); }
void to_regproc(Call& call) { reg(call, "42883", "function", function_oid); }
void to_regoper(Call& call) {
  reg(call, "42883", "operator", [](const std::string&) { return std::optional<std::int64_t>(); });
}
void to_regnamespace(Call& call) {
  reg(call, "3F000", "schema", [](const std::string& text) { return space_of(path_of(text).back()); });
}
void to_regrole(Call& call) {
  reg(call, "42704", "role", [&](const std::string& text) {
    return path_of(text).back() == call.state.session().user() ? std::optional(owner_oid) : std::nullopt;
  });
}
void to_regcollation(Call& call) {
  reg(call, "42704", "collation", [](const std::string& text) -> std::optional<std::int64_t> {
    const std::string name = lower(path_of(text).back());
    if (name == "default") return 100;
    if (name == "c") return 950;
    if (name == "posix") return 951;
    return std::nullopt;
  });
}
void to_regconfig(Call& call) {
  reg(call, "42704", "text search configuration",
      [](const std::string& text) { return text == "simple" ? std::optional<std::int64_t>(3748) : std::nullopt; });
}
void to_regdictionary(Call& call) {
  reg(call, "42704", "text search dictionary",
      [](const std::string& text) { return text == "simple" ? std::optional<std::int64_t>(3765) : std::nullopt; });
}

void reg_to_text(Call& call) {
  const dialect::Type* type = dialect::type_named(call.text(1));
  call.answer(call.type(0) == SQLITE_TEXT ? call.text(0) : call.state.reg_text(call.whole(0), type == nullptr ? 0 : type->oid));
}

void to_regclass_or_null(Call& call) {
  const std::string text = call.text(0);
  const auto found = digits(text) ? std::nullopt : relation_oid(call.state, text);
  found ? call.answer(*found) : call.answer_null();
}
void to_regtype_or_null(Call& call) {
  const auto found = type_oid(call.text(0));
  found ? call.answer(*found) : call.answer_null();
}

void type_of_value(Call& call) {
  switch (call.type(0)) {
    case SQLITE_INTEGER: return call.answer(std::int64_t{oid::int8});
    case SQLITE_FLOAT: return call.answer(std::int64_t{oid::float8});
    case SQLITE_BLOB: return call.answer(std::int64_t{oid::bytea});
    case SQLITE_NULL: return call.answer(std::int64_t{oid::unknown});
    default: return call.answer(std::int64_t{oid::text});
  }
}

void to_char_type(Call& call) {
  const std::string text = call.text(0);
  call.answer(std::string_view(text).substr(0, 1));
}

// clang-format off
constexpr Body cast_bodies[] = {
    {"pg_int2", to_integer<oid::int2>}, {"pg_int4", to_integer<oid::int4>}, {"pg_int8", to_integer<oid::int8>}, {"pg_float4", to_float<oid::float4>}, {"pg_float8", to_float<oid::float8>}, {"pg_numeric", to_numeric},
    {"pg_bool", to_bool}, {"pg_text", [](Call& call) { call.answer(call.text(0)); }}, {"pg_bytea", to_bytea}, {"pg_char", to_char_type}, {"pg_date", to_date}, {"pg_time", to_time}, {"pg_timetz", by_text<oid::timetz>},
    {"pg_timestamp", to_timestamp_type<oid::timestamp>}, {"pg_timestamptz", to_timestamp_type<oid::timestamptz>}, {"pg_interval", by_text<oid::interval>},
    {"pg_uuid", by_text<oid::uuid>}, {"pg_json", by_text<oid::json>}, {"pg_jsonb", by_text<oid::jsonb>}, {"pg_assign", assign},
    {"pg_regclass", to_regclass_or_fail, false, false}, {"pg_regtype", to_regtype_or_fail}, {"pg_regproc", to_regproc}, {"pg_regoper", to_regoper}, {"pg_regnamespace", to_regnamespace},
    {"pg_regrole", to_regrole, false, false}, {"pg_regcollation", to_regcollation}, {"pg_regconfig", to_regconfig}, {"pg_regdictionary", to_regdictionary}, {"pg_regtext", reg_to_text, false, false},
    {"to_regclass", to_regclass_or_null, false, false}, {"to_regtype", to_regtype_or_null}, {"pg_typeof", type_of_value, true},
};
// clang-format on

}  // namespace

std::span<const Body> cast_functions() { return cast_bodies; }

std::string CatalogState::reg_text(std::int64_t value, Oid type) {
  const auto with_space = [](std::int64_t space, std::string_view name) {
    return (space == namespaces::user || space == namespaces::catalog || space == namespaces::temporary ? "" : space_name(space) + ".") +
           quoted_identifier(name);
  };
  if (value == 0) return "-";
  switch (type) {
    case oid::regclass: {
      for (const SystemRelation& each : system_relations()) {
        if (each.oid == value && each.kind != 'f') return with_space(each.space, each.shown);
      }
      const auto now = schema();
      if (const SchemaRelation* relation = now->relation(value)) return with_space(relation->space, relation->name);
      if (const auto index = now->indexes.find(value); index != now->indexes.end()) {
        const SchemaRelation& relation = now->relations[index->second.relation];
        return with_space(relation.space, relation.indexes[index->second.index].name);
      }
      break;
    }
    case 2206:
      if (catalog_type(value) != nullptr) return format_type(value, -1);
      break;
    case 24:
    case 2202:
      for (const std::string_view line : std::span(data::functions, data::functions_count)) {
        const auto fields = fields_of(line);
        if (number_of(fields[0]) == value) return std::string(fields[1]);
      }
      break;
    case 4089:
      if (const std::string name = space_name(value); !name.empty()) return name;
      break;
    case 4096:
      if (value == owner_oid) return quoted_identifier(session().user());
      break;
    case 4191:
      if (value == 100) return "\"default\"";
      if (value == 950 || value == 951) return value == 950 ? "\"C\"" : "\"POSIX\"";
      break;
    case 3734:
    case 3769:
      if (value == 3748 || value == 3765) return "simple";
      break;
    default: break;
  }
  return std::to_string(value);
}

}  // namespace termgate::sqlite_server
