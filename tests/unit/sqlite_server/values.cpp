// Values in text and binary, against what a real PostgreSQL 15 made of the same inputs (sqlite_server/values.txt; tools/value_oracle.py).
#include <catch2/catch.hpp>

#include <fstream>
#include <string>
#include <vector>

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

std::vector<Case> cases() {
  std::ifstream file(TERMGATE_SQLITE_SERVER_DATA "/values.txt");
  std::vector<Case> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields;
    for (std::size_t at = 0; at != std::string::npos;) {
      const auto tab = line.find('\t', at);
      fields.push_back(line.substr(at, tab == std::string::npos ? tab : tab - at));
      at = tab == std::string::npos ? tab : tab + 1;
    }
    Case one{fields.at(0), fields.at(1), fields.at(2), "", ""};
    if (one.text.starts_with('!')) one.sqlstate = one.text.substr(1);
    else one.binary = from_hex(fields.at(3));
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

}  // namespace

TEST_CASE("values: text and binary are what PostgreSQL makes of them", "[proxy][sqlite_server]") {
  const auto all = cases();
  REQUIRE(all.size() > 200);
  for (const Case& one : all) {
    CAPTURE(one.type, one.input);
    const Oid type = termgate::dialect::type_named(one.type)->oid;
    const auto parsed = parse_value(one.input, type, Format::text);
    if (!one.sqlstate.empty()) {
      REQUIRE(std::holds_alternative<ValueProblem>(parsed));
      CHECK(std::get<ValueProblem>(parsed).sqlstate == one.sqlstate);
      continue;
    }
    if (const auto* problem = std::get_if<ValueProblem>(&parsed)) FAIL_CHECK(problem->sqlstate << " " << problem->message);
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
    if (type != oid::text && type != oid::bytea && type != oid::jsonb) {
      for (std::size_t size = 0; size < one.binary.size(); ++size) CHECK(std::holds_alternative<ValueProblem>(parse_value(std::string_view(one.binary).substr(0, size), type, Format::binary)));
      CHECK(std::holds_alternative<ValueProblem>(parse_value(one.binary + "x", type, Format::binary)));
    }
  }
}

TEST_CASE("values: what a column should not hold goes out as it is in text and is refused in binary", "[proxy][sqlite_server]") {
  for (const Oid type : {oid::boolean, oid::int2, oid::int4, oid::int8, oid::float4, oid::float8, oid::numeric, oid::date, oid::time, oid::timestamp, oid::timestamptz, oid::uuid}) {
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
  CHECK_FALSE(has_binary(oid::interval));
  CHECK(std::get<ValueProblem>(parse_value("x", oid::interval, Format::binary)).sqlstate == "0A000");
  CHECK(std::get<ValueProblem>(parse_value(std::string_view("a\0b", 3), oid::text, Format::text)).sqlstate == "22021");
}
