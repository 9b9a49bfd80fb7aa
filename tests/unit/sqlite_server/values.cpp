// Values in text and binary, against what a real PostgreSQL 15 made of the same inputs (sqlite_server/values.txt; tools/value_oracle.py).
#include <catch2/catch.hpp>

#include <fstream>
#include <string>
#include <vector>

#include <termgate/sqlite_server/catalog.hpp>
#include <termgate/sqlite_server/values.hpp>

using namespace termgate::sqlite_server;
namespace oid = termgate::dialect::oid;

namespace {

struct Case {
  std::string type, input, text, binary, sqlstate;
};

std::string from_hex(const std::string& hex) {
  std::string out;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) out += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  return out;
}

std::vector<Case> cases(bool assignments) {
  std::ifstream file(TERMGATE_SQLITE_SERVER_DATA "/values.txt");
  std::vector<Case> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.starts_with("into ") != assignments) continue;
    std::vector<std::string> fields;
    for (std::size_t at = 0; at != std::string::npos;) {
      const auto tab = line.find('\t', at);
      fields.push_back(line.substr(at, tab == std::string::npos ? tab : tab - at));
      at = tab == std::string::npos ? tab : tab + 1;
    }
    Case one{fields.at(0), fields.at(1), fields.at(2), "", ""};
    if (one.text.starts_with('!')) one.sqlstate = one.text.substr(1);
    else if (!assignments) one.binary = from_hex(fields.at(3));
    all.push_back(one);
  }
  return all;
}

// numeric keeps its value and not its trailing zeros; what fits no double keeps both.
bool same_number(const std::string& a, const std::string& b) {
  const auto bare = [](std::string text) {
    if (text.find('.') != std::string::npos) {
      while (text.back() == '0') text.pop_back();
      if (text.back() == '.') text.pop_back();
    }
    return text;
  };
  return bare(a) == bare(b);
}

Oid type_called(std::string name) {
  const bool array = name.ends_with("[]");
  if (array) name.resize(name.size() - 2);
  const auto* type = termgate::dialect::type_named(name == "char" ? "bpchar" : name);
  return array ? type->array : type->oid;
}

// numeric(5,2), varchar(2)[], timestamp(0)
DeclaredType column_called(std::string name) {
  const auto open = name.find('('), close = name.find(')');
  if (open == std::string::npos) return {type_called(name), -1};
  const std::string numbers = name.substr(open + 1, close - open - 1);
  const Oid type = type_called(name.erase(open, close - open + 1));
  const auto comma = numbers.find(',');
  const int first = std::stoi(numbers);
  if (type == oid::timestamp || type == oid::timestamptz || type == oid::time) return {type, first};
  const bool number = type == oid::numeric || type == 1231;
  return {type, 4 + (number ? first << 16 | (comma == std::string::npos ? 0 : std::stoi(numbers.substr(comma + 1))) : first)};
}

}  // namespace

TEST_CASE("values: what a column holds of what is assigned to it is what PostgreSQL makes of it", "[proxy][sqlite_server]") {
  const auto all = cases(true);
  REQUIRE(all.size() > 100);
  std::size_t refused = 0;
  for (const Case& one : all) {
    CAPTURE(one.type, one.input, one.text);
    const auto from = one.type.find(" from ");
    const DeclaredType column = column_called(one.type.substr(5, from - 5));
    const std::string source = one.type.substr(from + 6);
    const Oid source_type = source == "unknown" ? 0 : type_called(source);
    const auto read =
        source_type == 0 ? std::variant<Stored, SqlError>(Stored(one.input)) : parse_value(one.input, source_type, Format::text);
    REQUIRE(std::holds_alternative<Stored>(read));
    const auto parsed = converted(std::get<Stored>(read), column, source_type);
    if (const auto* problem = std::get_if<SqlError>(&parsed)) {
      if (problem->sqlstate == "0A000") ++refused;
      else CHECK(problem->sqlstate == one.sqlstate);
      continue;
    }
    CHECK(one.sqlstate == "");
    std::string text;
    CHECK_FALSE(append_value(text, std::get<Stored>(parsed), column.oid, Format::text));
    // Zeros and blanks at the end are the column's to show; a boolean's text is a word where it is cast.
    if (column.oid == oid::numeric || column.oid == 1231) CHECK(same_number(text, one.text));
    else if (column.oid == oid::bpchar) CHECK(text == one.text.substr(0, one.text.find_last_not_of(' ') + 1));
    else if (column.oid == oid::boolean) CHECK(text == one.text.substr(0, 1));
    else CHECK(text == one.text);
    // What is stored is assigned again without a change.
    const auto again = converted(std::get<Stored>(parsed), column, column.oid);
    REQUIRE(std::holds_alternative<Stored>(again));
    CHECK(std::get<Stored>(again) == std::get<Stored>(parsed));
  }
  // numeric's NaN, and more digits than a double has.
  CHECK(refused <= 4);
}

TEST_CASE("values: text and binary are what PostgreSQL makes of them", "[proxy][sqlite_server]") {
  const auto all = cases(false);
  std::size_t refused = 0;
  REQUIRE(all.size() > 200);
  for (const Case& one : all) {
    CAPTURE(one.type, one.input);
    const Oid type = type_called(one.type);
    const auto parsed = parse_value(one.input, type, Format::text);
    if (!one.sqlstate.empty()) {
      REQUIRE(std::holds_alternative<SqlError>(parsed));
      if (std::get<SqlError>(parsed).sqlstate != "0A000") CHECK(std::get<SqlError>(parsed).sqlstate == one.sqlstate);
      continue;
    }
    if (const auto* problem = std::get_if<SqlError>(&parsed)) {
      if (problem->sqlstate == "0A000") ++refused;
      else FAIL_CHECK(problem->sqlstate << " " << problem->message);
    }
    if (!std::holds_alternative<Stored>(parsed)) continue;
    const Stored& stored = std::get<Stored>(parsed);
    std::string text, binary;
    CHECK_FALSE(append_value(text, stored, type, Format::text));
    CHECK_FALSE(append_value(binary, stored, type, Format::binary));
    if (type == oid::numeric) {
      CHECK(same_number(text, one.text));
    } else {
      CHECK(text == one.text);
      CHECK(binary == one.binary);
    }
    // What comes in binary is stored as the same.
    const auto again = parse_value(one.binary, type, Format::binary);
    REQUIRE(std::holds_alternative<Stored>(again));
    std::string same;
    CHECK_FALSE(append_value(same, std::get<Stored>(again), type, Format::text));
    if (type == oid::numeric) CHECK(same_number(same, one.text));
    else CHECK(same == one.text);
    // A binary of another length is never taken.
    if (type != oid::text && type != oid::bytea && type != oid::jsonb && type != oid::json) {
      for (std::size_t size = 0; size < one.binary.size(); ++size)
        CHECK(std::holds_alternative<SqlError>(parse_value(std::string_view(one.binary).substr(0, size), type, Format::binary)));
      CHECK(std::holds_alternative<SqlError>(parse_value(one.binary + "x", type, Format::binary)));
    }
  }
  // Years that no text of a date would sort by.
  CHECK(refused < 20);
}

TEST_CASE("values: what a column should not hold goes out as it is in text and is refused in binary", "[proxy][sqlite_server]") {
  for (const Oid type : {oid::boolean, oid::int2, oid::int4, oid::int8, oid::float4, oid::float8, oid::numeric, oid::date, oid::time,
                         oid::timestamp, oid::timestamptz, oid::uuid}) {
    CAPTURE(type);
    std::string out;
    CHECK_FALSE(append_value(out, Stored(std::string("no such")), type, Format::text));
    CHECK(out == "no such");
    CHECK(append_value(out, Stored(std::string("no such")), type, Format::binary));
  }
  std::string out;
  CHECK_FALSE(append_value(out, Stored(3.0), oid::int4, Format::text));
  CHECK(out == "3");
  const auto wide = append_value(out, Stored(std::int64_t{1} << 40), oid::int4, Format::binary);
  REQUIRE(wide);
  CHECK(wide->sqlstate == "22003");
  out.clear();
  CHECK_FALSE(append_value(out, Stored(Blob{"\x01\xff"}), oid::text, Format::text));
  CHECK(out == "\\x01ff");
  CHECK(has_binary(oid::numeric));
  CHECK(has_binary(oid::interval));
  constexpr Oid inet = 869;
  CHECK_FALSE(has_binary(inet));
  CHECK(std::get<SqlError>(parse_value("x", inet, Format::binary)).sqlstate == "0A000");
  CHECK(std::get<SqlError>(parse_value(std::string_view("a\0b", 3), oid::text, Format::text)).sqlstate == "22021");
}
