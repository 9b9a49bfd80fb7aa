// JSON as PostgreSQL reads it (RFC 8259, strictly), and jsonb as it prints and orders it.
//
// jsonb is stored as PostgreSQL prints it: keys in the order of their length, then of their bytes, each once (the last one counts),
// ", " and ": " between. So a part of a stored jsonb is that jsonb's own text, and equal values but for numbers' zeros are equal texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::sqlite_server {

struct Json {
  enum class Kind : std::uint8_t { null, string, number, boolean, array, object } kind = Kind::null;  // in the order of jsonb
  bool truth = false;
  std::string text;  // of a string without its quotes; of a number as numeric prints it
  std::vector<Json> items;
  struct Field;               // no std::pair: Json is not complete in it yet
  std::vector<Field> fields;  // in jsonb's order
};
struct Json::Field {
  std::string first;
  Json second;
};

// 22P02 where it is not JSON, 22P05 where it has a \u0000, 54001 where it nests deeper than 1,000 levels: CallError, all of them.
Json parse_jsonb(std::string_view text);
std::string jsonb_text(const Json& value);
inline std::string canonical_jsonb(std::string_view text) { return jsonb_text(parse_jsonb(text)); }
// Only whether it is JSON.
void check_json(std::string_view text);
// -1, 0, 1 in jsonb's order.
int compare_jsonb(const Json& a, const Json& b);
bool jsonb_contains(const Json& whole, const Json& part);

// The text of a field or an element, where it is. An element's place counts from the end where it is negative.
std::optional<std::string_view> json_field(std::string_view json, std::string_view key);
std::optional<std::string_view> json_element(std::string_view json, std::int64_t place);
// The texts of all elements of an array.
std::vector<std::string_view> json_elements(std::string_view json);
// A step of a path: a field's name, or a place where the value is an array.
std::optional<std::string_view> json_step(std::string_view json, std::string_view step);
// ->>: a string without its quotes; nothing for null.
std::optional<std::string> json_as_text(std::string_view json);
Json::Kind json_kind(std::string_view json);

}  // namespace termgate::sqlite_server
