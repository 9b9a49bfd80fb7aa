// Operators and functions are resolved as PostgreSQL 15 resolves them: for each pair of types the type of the result, or that there is
// none, as a server told tools/resolution_oracle.py.
#include <catch2/catch.hpp>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "resolution.hpp"

using namespace termgate::dialect;

namespace {

const char* const oracle_types[] = {"bool",   "int2", "int4",  "int8", "float4", "float8", "numeric",   "text",        "varchar",
                                    "bpchar", "name", "bytea", "date", "time",   "timetz", "timestamp", "timestamptz", "interval",
                                    "uuid",   "json", "jsonb", "oid",  "_int4",  "_text",  "unknown"};

Oid oid_of(const std::string& name) {
  for (Oid oid = 16; oid < 4000; ++oid) {
    if (const auto* row = resolution::type_row(oid); row != nullptr && row->name == name) return oid;
  }
  return 705;
}

// As the file writes it; "" where there is none.
std::string resolved(const std::string& name, Oid left, Oid right, bool one) {
  const auto word = [](Oid type) {
    return std::string(type == 705 ? "text" : resolution::type_row(type) == nullptr ? "?" : resolution::type_row(type)->name);
  };
  if (name.ends_with("()")) {
    std::vector<Oid> given;
    if (!one) given.push_back(left);
    given.push_back(right);
    const auto found = resolution::find_function(name.substr(0, name.size() - 2), given, one && right == 705);
    using State = resolution::Function::State;
    return found.state == State::found || found.state == State::cast ? word(found.result) : found.state == State::ambiguous ? "?" : "";
  }
  const auto found = resolution::find_operator(name.starts_with("prefix") ? name.substr(6) : name, left, right, one);
  using State = resolution::Operator::State;
  return found.state == State::found ? word(found.result) : found.state == State::ambiguous ? "?" : "";
}

}  // namespace

TEST_CASE("dialect: operators and functions are resolved as PostgreSQL resolves them", "[dialect]") {
  std::map<std::string, Oid> oids;
  for (const char* type : oracle_types) oids[type] = oid_of(type);
  std::ifstream in(TERMGATE_DIALECT_DATA "/resolution.txt");
  std::string line;
  std::size_t lines = 0;
  std::string wrong;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') continue;
    ++lines;
    std::istringstream words(line);
    std::string name, left, each;
    words >> name >> left;
    std::map<std::string, std::string> expected;
    while (words >> each) expected[each.substr(0, each.find('='))] = each.substr(each.find('=') + 1);
    for (const char* right : oracle_types) {
      const std::string found = resolved(name, left == "-" ? 0 : oids[left], oids[right], left == "-");
      // Both are failures: which one it is depends on types that the front does not have, as ranges.
      if (found == expected[right] || ((found.empty() || found == "?") && (expected[right].empty() || expected[right] == "?"))) continue;
      wrong += name + " " + left + " " + right + ": PostgreSQL [" + expected[right] + "], here [" + found + "]\n";
    }
  }
  CHECK(lines > 300);
  CHECK(wrong == "");
}
