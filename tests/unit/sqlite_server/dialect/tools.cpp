// The texts that psql 15 and pgbench send of themselves are translated, and SQLite prepares every one of them with the catalogs
// as plain tables; pgbench's also run.
#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <termgate/dialect/translate.hpp>

#include "functions.hpp"

using namespace termgate::dialect;

namespace {

std::string file(const std::string& name) {
  std::ifstream in(TERMGATE_DIALECT_DATA "/" + name);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::vector<std::string> texts(const std::string& name) {
  std::vector<std::string> result(1);
  std::istringstream lines(file(name));
  for (std::string line; std::getline(lines, line);) {
    if (line == "----") result.emplace_back();
    else result.back() += line + "\n";
  }
  return result;
}

struct Catalog {
  sqlite3* held = nullptr;
  Catalog() {
    REQUIRE(sqlite3_open(":memory:", &held) == SQLITE_OK);
    sqlite3_db_config(held, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
    sqlite3_db_config(held, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
    dialect_test::register_functions(held);
    REQUIRE(sqlite3_exec(held, file("catalog.sql").c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  ~Catalog() { sqlite3_close(held); }
  std::string run(const std::string& sql) {
    char* message = nullptr;
    sqlite3_exec(held, sql.c_str(), nullptr, nullptr, &message);
    const std::string result = message == nullptr ? "" : message;
    sqlite3_free(message);
    return result;
  }
};

}  // namespace

TEST_CASE("dialect: every query of psql and of the JDBC driver for the catalog runs", "[dialect]") {
  Catalog catalog;
  auto all = texts("psql15.sql");
  REQUIRE(all.size() > 30);
  const auto jdbc = texts("jdbc42.sql");
  REQUIRE(jdbc.size() > 20);
  all.insert(all.end(), jdbc.begin(), jdbc.end());
  for (const std::string& text : all) {
    CAPTURE(text);
    const auto translated = translate(text);
    if (const auto* problem = std::get_if<SqlError>(&translated)) FAIL_CHECK(problem->message);
    else {
      for (const Translated& each : std::get<0>(translated)) {
        CHECK((each.effect == Effect::read || each.tag == "SET" || each.tag == "SHOW"));
        for (const std::string& sql : each.sql) {
          CAPTURE(sql);
          CHECK(catalog.run(sql) == "");
        }
      }
    }
  }
}

TEST_CASE("dialect: every text of pgbench runs and its own session parts are given back", "[dialect]") {
  Catalog catalog;
  const auto all = texts("pgbench.sql");
  REQUIRE(all.size() > 30);
  std::size_t utilities = 0;
  for (const std::string& text : all) {
    CAPTURE(text);
    const auto translated = translate(text);
    if (const auto* problem = std::get_if<SqlError>(&translated)) FAIL_CHECK(problem->message);
    else {
      for (const Translated& each : std::get<0>(translated)) {
        utilities += each.effect == Effect::utility ? 1 : 0;
        CHECK(each.sql.empty() == (each.effect == Effect::utility));
        for (const std::string& sql : each.sql) {
          CAPTURE(sql);
          CHECK(catalog.run(sql) == "");
        }
      }
    }
  }
  CHECK(utilities == 11);
  CHECK(catalog.run("SELECT 1 / (count(*) = 300) FROM pgbench_accounts") == "");
  CHECK(catalog.run("CREATE TEMP TABLE t AS SELECT raise FROM pgbench_accounts") != "");
}
