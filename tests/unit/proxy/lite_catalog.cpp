// The catalog over a real SQLite schema: what psql, drivers and tools ask is answered as a PostgreSQL 15 answered it for the same
// schema (lite/catalog.txt; tests/support/catalog_oracle.py).
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <termgate/dialect/types.hpp>
#include <termgate/lite/catalog.hpp>

#include "lite_connection.hpp"

using namespace termgate::lite;
namespace dialect = termgate::dialect;
using lite_test::Answer;
using lite_test::Connection;
using lite_test::file;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

struct Case {
  std::string name, sql, sqlstate;
  std::vector<std::string> rows;
  bool names_only = false;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  std::istringstream lines(file(TERMGATE_LITE_DATA "/catalog.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("-- ")) {
      all.emplace_back();
      all.back().names_only = line.starts_with("-- ~ ");
      all.back().name = line.substr(all.back().names_only ? 5 : 3);
    } else if (all.empty()) {
      continue;
    } else if (line.starts_with("= ") || line == "=") {
      all.back().rows.push_back(line.size() < 2 ? "" : line.substr(2));
    } else if (line.starts_with("! ")) {
      all.back().sqlstate = line.substr(2);
    } else if (!line.empty()) {
      all.back().sql += line + "\n";
    }
  }
  return all;
}

}  // namespace

TEST_CASE("catalog: what psql and drivers and tools ask is answered as PostgreSQL answered it", "[proxy][lite]") {
  const auto all = cases();
  REQUIRE(all.size() > 40);
  Connection connection;
  connection.open = true;  // CREATE writes sqlite_schema by itself
  const Answer setup = connection.run(file(TERMGATE_LITE_DATA "/catalog_setup.sql"));
  REQUIRE(setup.message == "");
  connection.open = false;
  std::map<std::string, std::string> oids;
  const Answer list = connection.run("SELECT relname, oid FROM pg_class WHERE oid >= 16384");
  CAPTURE(list.message, list.sql);
  for (std::size_t i = 1; i < list.rows.size(); ++i) oids[list.rows[i].substr(0, list.rows[i].find('|'))] = list.rows[i].substr(list.rows[i].find('|') + 1);
  REQUIRE(oids.size() == 12);
  for (const Case& each : all) {
    DYNAMIC_SECTION(each.name) {
      std::string sql = each.sql;
      for (const auto& [name, oid] : oids) sql = replaced(sql, "{" + name + "}", oid);
      Answer answer = connection.run(sql);
      CAPTURE(sql, answer.sql, answer.message);
      CHECK(answer.sqlstate == each.sqlstate);
      if (each.names_only) {
        answer.rows.resize(std::min<std::size_t>(answer.rows.size(), 1));
        CHECK(answer.rows == each.rows);
        continue;
      }
      for (std::string& row : answer.rows) {
        row = "|" + row + "|";
        for (const auto& [name, oid] : oids) row = replaced(row, "|" + oid + "|", "|{" + name + "}|");
        row = row.substr(1, row.size() - 2);
      }
      CHECK(answer.rows == each.rows);
    }
  }
}
