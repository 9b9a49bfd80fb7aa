// Each case of dialect/oracle.txt, translated and run on a real SQLite, answers what PostgreSQL 15 answered: the columns' names and
// the rows. How the file is made: tools/dialect_oracle.py.
#include <catch2/catch.hpp>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <termgate/dialect/translate.hpp>
#include <termgate/dialect/types.hpp>

#include "functions.hpp"

using namespace termgate::dialect;

namespace {

struct Case {
  std::string name;
  std::string sql;
  std::vector<std::string> answer;  // names, then rows
  std::string sqlstate;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  std::ifstream file(TERMGATE_DIALECT_DATA "/oracle.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("-- ")) result.push_back({line.substr(3), {}, {}, {}});
    else if (result.empty() || line.empty()) continue;
    else if (line.starts_with("= ")) result.back().answer.push_back(line.substr(2));
    else if (line == "=") result.back().answer.emplace_back();
    else if (line.starts_with("! ")) result.back().sqlstate = line.substr(2);
    else result.back().sql += line + "\n";
  }
  return result;
}

struct Database {
  sqlite3* held = nullptr;
  Database() {
    REQUIRE(sqlite3_open(":memory:", &held) == SQLITE_OK);
    // "x" is a name, never a string.
    sqlite3_db_config(held, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
    sqlite3_db_config(held, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
    dialect_test::register_functions(held);
  }
  ~Database() { sqlite3_close(held); }
};

std::string shown(sqlite3_stmt* statement, int column, Oid type) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL: return "\\N";
    case SQLITE_FLOAT: {
      std::ostringstream out;
      out.precision(15);
      out << sqlite3_column_double(statement, column);
      return out.str();
    }
    default: {
      std::string text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
      const char* declared = sqlite3_column_decltype(statement, column);
      if (type == 0 && declared != nullptr) type = oid_of_declared(declared);
      if (type == oid::boolean) return text == "1" ? "t" : text == "0" ? "f" : text;
      return text;
    }
  }
}

// The last statement's names and rows; an error's message.
std::variant<std::vector<std::string>, std::string> run(Database& database, const std::vector<Translated>& statements) {
  std::vector<std::string> answer;
  for (const Translated& translated : statements) {
    answer.clear();
    for (const std::string& sql : translated.sql) {
      INFO(sql);
      sqlite3_stmt* raw = nullptr;
      const char* tail = nullptr;
      if (sqlite3_prepare_v2(database.held, sql.c_str(), -1, &raw, &tail) != SQLITE_OK) return std::string(sqlite3_errmsg(database.held));
      const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
      CHECK(std::string(tail).empty());
      const int count = sqlite3_column_count(raw);
      std::string names;
      for (int i = 0; i < count; ++i) names += (i > 0 ? "|" : "") + std::string(sqlite3_column_name(raw, i));
      if (count > 0) answer.push_back(names);
      int step = SQLITE_OK;
      while ((step = sqlite3_step(raw)) == SQLITE_ROW) {
        std::string row;
        const bool star =
            std::any_of(translated.columns.begin(), translated.columns.end(), [](const Column& column) { return column.star; });
        for (int i = 0; i < count; ++i) {
          const Oid type =
              !star && static_cast<std::size_t>(i) < translated.columns.size() ? translated.columns[static_cast<std::size_t>(i)].type : 0;
          row += (i > 0 ? "|" : "") + shown(raw, i, type);
        }
        answer.push_back(row);
      }
      if (step != SQLITE_DONE) return std::string(sqlite3_errmsg(database.held));
    }
  }
  return answer;
}

}  // namespace

TEST_CASE("dialect: what is translated answers on SQLite what PostgreSQL answered", "[dialect]") {
  const std::vector<Case> all = cases();
  REQUIRE(all.size() > 80);
  const auto setup = translate(all[0].sql);
  REQUIRE(std::holds_alternative<std::vector<Translated>>(setup));
  for (std::size_t i = 1; i < all.size(); ++i) {
    const Case& each = all[i];
    DYNAMIC_SECTION(each.name) {
      CAPTURE(each.sql);
      Database database;
      const auto prepared = run(database, std::get<0>(setup));
      REQUIRE((prepared.index() == 0 || std::get<1>(prepared).empty()));
      const auto translated = translate(each.sql);
      if (const auto* problem = std::get_if<SqlError>(&translated)) {
        CAPTURE(problem->message);
        CHECK(problem->sqlstate == each.sqlstate);
        continue;
      }
      for (const Translated& statement : std::get<0>(translated)) {
        for (const std::string& sql : statement.sql) UNSCOPED_INFO(sql);
      }
      const auto answer = run(database, std::get<0>(translated));
      if (const auto* error = std::get_if<std::string>(&answer)) {
        CAPTURE(*error);
        CHECK_FALSE(each.sqlstate.empty());
      } else {
        CHECK(each.sqlstate.empty());
        CHECK(std::get<0>(answer) == each.answer);
      }
    }
  }
}
