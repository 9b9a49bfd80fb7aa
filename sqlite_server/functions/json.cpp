// json and jsonb: parts, paths, changes, comparison, and what is built of SQL values. A jsonb is canonical (json.hpp).
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "values/decimal.hpp"
#include "values/forms.hpp"
#include "functions/functions.hpp"
#include "values/json.hpp"

namespace termgate::sqlite_server {
namespace {

namespace oid = dialect::oid;

void answer_part(Call& call, std::optional<std::string_view> part, bool as_text) {
  if (!part) return call.answer_null();
  if (!as_text) return call.answer(trimmed(*part));
  const auto text = json_as_text(*part);
  text ? call.answer(*text) : call.answer_null();
}

// An integer is a place, a text a key, whatever digits it has.
template <bool as_text>
void json_get(Call& call) {
  const std::string json = call.text(0);
  if (call.type(1) == SQLITE_INTEGER) return answer_part(call, json_element(json, call.whole(1)), as_text);
  answer_part(call, json_field(json, call.text(1)), as_text);
}

template <bool as_text>
void json_path(Call& call) {
  const std::string json = call.text(0);
  std::optional<std::string_view> part = json;
  for (const auto& step : array_elements(call.text(1))) {
    if (!step || !part) return call.answer_null();
    part = json_step(*part, *step);
  }
  answer_part(call, part, as_text);
}

void json_type(Call& call) {
  static constexpr const char* names[] = {"null", "string", "number", "boolean", "array", "object"};
  const std::string json = call.text(0);
  check_json(json);
  call.answer(names[static_cast<std::size_t>(json_kind(json))]);
}

void json_length(Call& call) {
  const Json json = parse_jsonb(call.text(0));
  if (json.kind == Json::Kind::object) fail("22023", "cannot get array length of a non-array");
  if (json.kind != Json::Kind::array) fail("22023", "cannot get array length of a scalar");
  call.answer(static_cast<std::int64_t>(json.items.size()));
}

// ------------------------------------------------------------------------------------------------ jsonb's operators

bool container(const Json& value) { return value.kind == Json::Kind::array || value.kind == Json::Kind::object; }

Json sorted(Json object) { return parse_jsonb(jsonb_text(object)); }

void jsonb_concat(Call& call) {
  Json a = parse_jsonb(call.text(0)), b = parse_jsonb(call.text(1));
  if (a.kind == Json::Kind::object && b.kind == Json::Kind::object) {
    for (auto& each : b.fields) a.fields.push_back(std::move(each));
    return call.answer(jsonb_text(sorted(std::move(a))));
  }
  // Objects beside arrays and scalars are elements.
  Json out;
  out.kind = Json::Kind::array;
  for (Json* side : {&a, &b}) {
    if (side->kind == Json::Kind::array) std::move(side->items.begin(), side->items.end(), std::back_inserter(out.items));
    else out.items.push_back(std::move(*side));
  }
  call.answer(jsonb_text(out));
}

void erase_key(Json& json, const std::string& key) {
  std::erase_if(json.fields, [&](const auto& field) { return field.first == key; });
  std::erase_if(json.items, [&](const Json& item) { return item.kind == Json::Kind::string && item.text == key; });
}

void erase_place(Json& json, std::int64_t place) {
  const auto count = static_cast<std::int64_t>(json.items.size());
  if (place < 0) place += count;
  if (place >= 0 && place < count) json.items.erase(json.items.begin() + place);
}

// jsonb - text and jsonb - integer
void jsonb_remove(Call& call) {
  Json json = parse_jsonb(call.text(0));
  if (!container(json)) fail("22023", "cannot delete from scalar");
  if (call.type(1) == SQLITE_INTEGER) {
    if (json.kind == Json::Kind::object) fail("22023", "cannot delete from object using integer index");
    erase_place(json, call.whole(1));
  } else {
    erase_key(json, call.text(1));
  }
  call.answer(jsonb_text(json));
}

void remove_keys(Call& call) {
  Json json = parse_jsonb(call.text(0));
  if (!container(json)) fail("22023", "cannot delete from scalar");
  for (const auto& key : array_elements(call.text(1))) {
    if (key) erase_key(json, *key);
  }
  call.answer(jsonb_text(json));
}

std::optional<std::int64_t> place_of(const std::string& step) {
  char* end = nullptr;
  const long long place = std::strtoll(step.c_str(), &end, 10);
  return step.empty() || *end != '\0' ? std::nullopt : std::optional<std::int64_t>(place);
}

[[noreturn]] void no_place(std::size_t step, const std::string& text) {
  fail("22P02", "path element at position " + std::to_string(step + 1) + " is not an integer: \"" + text + "\"");
}

enum class Change : std::uint8_t { erase, set, insert };
struct PathChange {
  Change what;
  Elements path;
  Json value;
  bool flag = true;  // set: make what is missing; insert: after
};

void change_at(Json& json, const PathChange& change, std::size_t step);

void change_field(Json& json, const PathChange& change, std::size_t step) {
  const std::string& key = *change.path[step];
  const auto found = std::find_if(json.fields.begin(), json.fields.end(), [&](const auto& field) { return field.first == key; });
  if (step + 1 < change.path.size()) {
    if (found != json.fields.end()) change_at(found->second, change, step + 1);
    return;
  }
  if (found == json.fields.end()) {
    if (change.what == Change::insert || (change.what == Change::set && change.flag)) json.fields.push_back({key, change.value});
  } else if (change.what == Change::erase) {
    json.fields.erase(found);
  } else if (change.what == Change::insert) {
    fail("22023", "cannot replace existing key");
  } else {
    found->second = change.value;
  }
}

void change_item(Json& json, const PathChange& change, std::size_t step) {
  const auto given = place_of(*change.path[step]);
  if (!given) no_place(step, *change.path[step]);
  const auto count = static_cast<std::int64_t>(json.items.size());
  const bool before = *given < -count;
  const std::int64_t place = *given < 0 ? *given + count : *given;
  const bool there = !before && place < count;
  if (step + 1 < change.path.size()) {
    if (there) change_at(json.items[static_cast<std::size_t>(place)], change, step + 1);
    return;
  }
  if (change.what == Change::erase) {
    if (there) json.items.erase(json.items.begin() + place);
    return;
  }
  if (there && change.what == Change::set) {
    json.items[static_cast<std::size_t>(place)] = change.value;
    return;
  }
  if (change.what == Change::set && !change.flag) return;
  const std::int64_t at = before ? 0 : !there ? count : place + (change.flag ? 1 : 0);
  json.items.insert(json.items.begin() + at, change.value);
}

void change_at(Json& json, const PathChange& change, std::size_t step) {
  if (!change.path[step]) fail("22004", "path element at position " + std::to_string(step + 1) + " is null");
  if (json.kind == Json::Kind::object) change_field(json, change, step);
  else if (json.kind == Json::Kind::array) change_item(json, change, step);
}

void apply(Call& call, PathChange change) {
  Json json = parse_jsonb(call.text(0));
  if (!container(json))
    fail("22023", std::string(change.what == Change::erase ? "cannot delete path in scalar" : "cannot set path in scalar"));
  if (!change.path.empty()) change_at(json, change, 0);
  call.answer(jsonb_text(sorted(std::move(json))));
}

void remove_path(Call& call) { apply(call, {Change::erase, array_elements(call.text(1)), {}, true}); }
void set_path(Call& call) {
  apply(call, {Change::set, array_elements(call.text(1)), parse_jsonb(call.text(2)), call.count < 4 || call.whole(3) != 0});
}
void insert_path(Call& call) {
  apply(call, {Change::insert, array_elements(call.text(1)), parse_jsonb(call.text(2)), call.count > 3 && call.whole(3) != 0});
}

bool has_key(const Json& json, const std::string& key) {
  if (json.kind == Json::Kind::string) return json.text == key;
  return std::any_of(json.fields.begin(), json.fields.end(), [&](const auto& field) { return field.first == key; }) ||
         std::any_of(json.items.begin(), json.items.end(),
                     [&](const Json& item) { return item.kind == Json::Kind::string && item.text == key; });
}

template <bool all>
void exists_of(Call& call) {
  const Json json = parse_jsonb(call.text(0));
  bool any = false, every = true;
  for (const auto& key : array_elements(call.text(1))) {
    if (!key) continue;
    const bool found = has_key(json, *key);
    any = any || found;
    every = every && found;
  }
  call.answer(all ? every : any);
}

// Equal values have equal keys: numbers without the zeros that only show.
void bare_numbers(Json& json) {
  if (json.kind == Json::Kind::number && json.text.find('.') != std::string::npos) {
    while (json.text.back() == '0') json.text.pop_back();
    if (json.text.back() == '.') json.text.pop_back();
  }
  for (Json& each : json.items) bare_numbers(each);
  for (auto& each : json.fields) bare_numbers(each.second);
}

void equality_key(Call& call) {
  Json json = parse_jsonb(call.text(0));
  bare_numbers(json);
  call.answer(jsonb_text(json));
}

void strip(Json& json) {
  std::erase_if(json.fields, [](const auto& field) { return field.second.kind == Json::Kind::null; });
  for (Json& each : json.items) strip(each);
  for (auto& each : json.fields) strip(each.second);
}

void strip_nulls(Call& call) {
  Json json = parse_jsonb(call.text(0));
  strip(json);
  call.answer(jsonb_text(json));
}

void pretty_value(std::string& out, const Json& json, std::size_t depth) {
  const bool object = json.kind == Json::Kind::object;
  if (!container(json)) {
    out += jsonb_text(json);
    return;
  }
  const std::size_t count = object ? json.fields.size() : json.items.size();
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < count; ++i) {
    out += i > 0 ? ",\n" : "\n";
    out.append((depth + 1) * 4, ' ');
    if (object) out += json_string(json.fields[i].first) + ": ";
    pretty_value(out, object ? json.fields[i].second : json.items[i], depth + 1);
  }
  out += '\n';
  out.append(depth * 4, ' ');
  out += object ? '}' : ']';
}

void pretty(Call& call) {
  std::string out;
  pretty_value(out, parse_jsonb(call.text(0)), 0);
  call.answer(out);
}

// ------------------------------------------------------------------------------------------------ rows

// A JSON list for json_each(), whose elements are texts: of the elements, keys or pairs of a json.
std::string listed(const std::optional<std::string>& text) { return text ? json_string(*text) : "null"; }

template <bool as_text>
void elements_of(Call& call) {
  const std::string json = call.text(0);
  check_json(json);
  const Json::Kind kind = json_kind(json);
  if (kind == Json::Kind::object) fail("22023", "cannot extract elements from an object");
  if (kind != Json::Kind::array) fail("22023", "cannot extract elements from a scalar");
  std::string out = "[";
  for (const std::string_view each : json_elements(json)) {
    const std::string_view part = trimmed(each);
    if (out.size() > 1) out += ',';
    out += as_text ? listed(json_as_text(part)) : json_string(part);
  }
  call.answer(out + "]");
}

// Of a jsonb, which has its keys in order and each once.
template <bool pairs, bool as_text>
void fields_of(Call& call) {
  const Json json = parse_jsonb(call.text(0));
  if (json.kind != Json::Kind::object) {
    const std::string_view name = !pairs ? "jsonb_object_keys" : as_text ? "jsonb_each_text" : "jsonb_each";
    if (pairs) fail("22023", "cannot call " + std::string(name) + " on a non-object");
    fail("22023", "cannot call " + std::string(name) + (json.kind == Json::Kind::array ? " on an array" : " on a scalar"));
  }
  std::string out = "[";
  for (const auto& [key, value] : json.fields) {
    if (out.size() > 1) out += ',';
    if (!pairs) {
      out += json_string(key);
      continue;
    }
    const std::string text = jsonb_text(value);
    out += "[" + json_string(key) + "," + (as_text ? listed(json_as_text(text)) : json_string(text)) + "]";
  }
  call.answer(out + "]");
}

void zip(Call& call) {
  std::vector<std::string> lists;
  std::vector<std::vector<std::string_view>> items;
  std::size_t longest = 0;
  for (int i = 0; i < call.count; ++i) lists.push_back(call.null(i) ? std::string("[]") : call.text(i));
  for (const std::string& each : lists) {
    items.push_back(json_elements(each));
    longest = std::max(longest, items.back().size());
  }
  std::string out = "[";
  for (std::size_t at = 0; at < longest; ++at) {
    out += at > 0 ? ",[" : "[";
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ',';
      out += at < items[i].size() ? items[i][at] : std::string_view("null");
    }
    out += ']';
  }
  call.answer(out + "]");
}

// ------------------------------------------------------------------------------------------------ built of SQL values

Oid type_argument(Call& call, int i) {
  const std::string name = call.text(i);
  const bool array = name.starts_with('_');
  const dialect::Type* type = dialect::type_named(array ? std::string_view(name).substr(1) : std::string_view(name));
  if (type == nullptr) fail("42704", "type \"" + name + "\" does not exist");
  return array ? type->array : type->oid;
}

std::string json_of(const Stored& value, Oid type);

std::string json_of_array(const ArrayValue& array, Oid element, std::size_t depth, std::size_t& at) {
  std::string out = "[";
  for (std::size_t i = 0; !array.lengths.empty() && i < array.lengths[depth]; ++i) {
    if (i > 0) out += ',';
    if (depth + 1 < array.lengths.size()) {
      out += json_of_array(array, element, depth + 1, at);
      continue;
    }
    const auto& text = array.elements[at++];
    if (!text) {
      out += "null";
      continue;
    }
    const auto parsed = parse_value(*text, element, Format::text);
    if (const auto* problem = std::get_if<SqlError>(&parsed)) throw CallError{*problem};
    out += json_of(std::get<Stored>(parsed), element);
  }
  return out + "]";
}

std::string json_of(const Stored& value, Oid type) {
  if (std::holds_alternative<std::monostate>(value)) return "null";
  if (const Oid element = element_of(type); element != 0) {
    auto read = read_array(text_of(value));
    if (auto* problem = std::get_if<SqlError>(&read)) throw CallError{std::move(*problem)};
    std::size_t at = 0;
    return json_of_array(std::get<ArrayValue>(read), element, 0, at);
  }
  std::string text;
  if (const auto problem = append_value(text, value, type, Format::text)) throw CallError{*problem};
  switch (type) {
    case oid::boolean: return text == "t" ? "true" : "false";
    case oid::int2:
    case oid::int4:
    case oid::int8: return text;
    case oid::float4:
    case oid::float8:
    case oid::numeric: return text.find_first_of("Nn") == std::string::npos ? text : json_string(text);
    case oid::json:
    case oid::jsonb: return text;
    case oid::timestamp:
    case oid::timestamptz:
      if (const auto space = text.find(' '); space != std::string::npos) text[space] = 'T';
      if (type == oid::timestamptz && text.ends_with("+00")) text += ":00";
      return json_string(text);
    default: return json_string(text);
  }
}

template <bool binary>
void to_json(Call& call) {
  const std::string text = json_of(call.stored(0), type_argument(call, 1));
  call.answer(binary ? canonical_jsonb(text) : text);
}

template <bool binary>
void build_array(Call& call) {
  std::string out = "[";
  for (int i = 0; i < call.count; ++i) out += (i > 0 ? ", " : "") + (call.null(i) ? std::string("null") : call.text(i));
  out += "]";
  call.answer(binary ? canonical_jsonb(out) : out);
}

template <bool binary>
void build_object(Call& call) {
  if (call.count % 2 != 0) fail("22023", "argument list must have even number of elements");
  std::string out = "{";
  for (int i = 0; i < call.count; i += 2) {
    if (call.null(i)) fail("22023", "argument " + std::to_string(i + 1) + (binary ? ": key must not be null" : " cannot be null"));
    out += (i > 0 ? ", " : "") + json_string(call.text(i)) + " : " + (call.null(i + 1) ? std::string("null") : call.text(i + 1));
  }
  out += "}";
  call.answer(binary ? canonical_jsonb(out) : out);
}

// clang-format off
constexpr Body json_bodies[] = {
    {"pg_json_get", json_get<false>}, {"pg_json_get_text", json_get<true>}, {"pg_json_path", json_path<false>},
    {"pg_json_path_text", json_path<true>}, {"pg_json_typeof", json_type}, {"pg_json_array_length", json_length},
    {"pg_jsonb_concat", jsonb_concat}, {"pg_jsonb_delete", jsonb_remove}, {"pg_jsonb_delete_keys", remove_keys}, {"pg_jsonb_delete_path", remove_path},
    {"pg_jsonb_contains", [](Call& call) { call.answer(jsonb_contains(parse_jsonb(call.text(0)), parse_jsonb(call.text(1)))); }},
    {"pg_jsonb_exists", [](Call& call) { call.answer(has_key(parse_jsonb(call.text(0)), call.text(1))); }},
    {"pg_jsonb_exists_any", exists_of<false>}, {"pg_jsonb_exists_all", exists_of<true>},
    {"pg_jsonb_compare", [](Call& call) { call.answer(std::int64_t{compare_jsonb(parse_jsonb(call.text(0)), parse_jsonb(call.text(1)))}); }},
    {"pg_jsonb_key", equality_key}, {"pg_zip", zip, true},
    {"pg_json_elements", elements_of<false>}, {"pg_json_element_texts", elements_of<true>}, {"pg_json_keys", fields_of<false, false>},
    {"pg_json_pairs", fields_of<true, false>}, {"pg_json_text_pairs", fields_of<true, true>},
    {"jsonb_set", set_path}, {"jsonb_insert", insert_path}, {"jsonb_strip_nulls", strip_nulls},
    {"jsonb_pretty", pretty}, {"pg_to_json", to_json<false>, true}, {"pg_to_jsonb", to_json<true>, true},
    {"pg_json_build_array", build_array<false>, true}, {"pg_jsonb_build_array", build_array<true>, true},
    {"pg_json_build_object", build_object<false>, true}, {"pg_jsonb_build_object", build_object<true>, true},
};
// clang-format on

}  // namespace

std::span<const Body> json_functions() { return json_bodies; }

std::string JsonList::text(bool object, bool binary) const {
  const std::string out = object ? "{ " + list_ + " }" : "[" + list_ + "]";
  return binary ? canonical_jsonb(out) : out;
}

void JsonList::put(std::string_view json) {
  if (!list_.empty()) list_ += ", ";
  list_ += json;
}

void JsonList::put(std::string_view key, std::string_view json) {
  if (!list_.empty()) list_ += ", ";
  list_ += json_string(key) + " : ";
  list_ += json;
}

}  // namespace termgate::sqlite_server
