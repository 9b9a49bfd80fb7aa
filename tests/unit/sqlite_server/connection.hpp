// A connection as a session has it: translates, runs, prints values by their types.
#pragma once

#include <catch2/catch.hpp>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <termgate/dialect/translate.hpp>
#include <termgate/sqlite_server/catalog.hpp>

namespace sqlite_server_test {

using termgate::sqlite_server::append_value;
using termgate::sqlite_server::Catalog;
using termgate::sqlite_server::Format;
using termgate::sqlite_server::install_catalog;
using termgate::sqlite_server::Stored;
using termgate::sqlite_server::type_of_declaration;
namespace dialect = termgate::dialect;

inline std::string file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

struct Answer {
  std::vector<std::string> rows;  // the columns' names first
  std::string sqlstate, message, sql;
};

struct Connection {
  sqlite3* held = nullptr;
  Catalog* catalog = nullptr;
  bool open = false;  // everything is allowed

  explicit Connection(const std::string& path = ":memory:") {
    REQUIRE(sqlite3_open(path.c_str(), &held) == SQLITE_OK);
    sqlite3_db_config(held, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
    sqlite3_db_config(held, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
    catalog = &install_catalog(held, "postgres");
    // As strict as a session's: no pragma and no sqlite_schema, but for the catalog.
    sqlite3_set_authorizer(
        held,
        [](void* self, int action, const char* first, const char*, const char*, const char*) {
          auto& connection = *static_cast<Connection*>(self);
          if (connection.catalog->reading() || connection.open) return SQLITE_OK;
          const std::string name = first == nullptr ? "" : first;
          if (action == SQLITE_PRAGMA || (action == SQLITE_READ && (name.starts_with("sqlite_") || name.starts_with("pragma_"))))
            return SQLITE_DENY;
          return SQLITE_OK;
        },
        this);
  }
  ~Connection() {
    catalog->let_go();
    CHECK(sqlite3_close(held) == SQLITE_OK);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::string shown(sqlite3_stmt* statement, int column, dialect::Oid type) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
    if (bytes == nullptr) return "\\N";
    if (type == 0) {
      const char* declared = sqlite3_column_decltype(statement, column);
      type = declared == nullptr ? 0 : type_of_declaration(declared).oid;
    }
    Stored stored(std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, column))));
    if (sqlite3_column_type(statement, column) == SQLITE_INTEGER) stored = Stored(std::int64_t{sqlite3_column_int64(statement, column)});
    if (sqlite3_column_type(statement, column) == SQLITE_FLOAT) stored = Stored(sqlite3_column_double(statement, column));
    const dialect::Type* known = dialect::type_of(type);
    if (known != nullptr && known->name.starts_with("reg") && sqlite3_column_type(statement, column) == SQLITE_INTEGER)
      return catalog->reg_text(sqlite3_column_int64(statement, column), type);
    std::string out;
    CHECK_FALSE(append_value(out, stored, type, Format::text));
    std::string line;
    for (const char c : out) line += c == '\n' ? "\\n" : std::string(1, c);
    return line;
  }

  Answer run(const std::string& text) {
    Answer answer;
    const auto translated = dialect::translate(text);
    if (const auto* problem = std::get_if<dialect::SqlError>(&translated)) return {{}, problem->sqlstate, problem->message, {}};
    for (const auto& each : std::get<0>(translated)) {
      for (const std::string& sql : each.sql) {
        answer.rows.clear();
        answer.sql = sql;
        sqlite3_stmt* statement = nullptr;
        int code = sqlite3_prepare_v2(held, sql.c_str(), -1, &statement, nullptr);
        if (code == SQLITE_OK && each.returns_rows) {
          std::string names;
          for (int i = 0; i < sqlite3_column_count(statement); ++i)
            names += (i > 0 ? "|" : "") + std::string(sqlite3_column_name(statement, i));
          answer.rows.push_back(names);
        }
        while (code == SQLITE_OK || code == SQLITE_ROW) {
          code = sqlite3_step(statement);
          if (code != SQLITE_ROW) break;
          const bool star = std::any_of(each.columns.begin(), each.columns.end(), [](const auto& column) { return column.star; });
          std::string row;
          for (int i = 0; i < sqlite3_column_count(statement); ++i) {
            const auto place = static_cast<std::size_t>(i);
            row += (i > 0 ? "|" : "") + shown(statement, i, star || place >= each.columns.size() ? 0 : each.columns[place].type);
          }
          answer.rows.push_back(row);
        }
        if (code != SQLITE_DONE) {
          answer.rows.clear();
          answer.message = sqlite3_errmsg(held);
          const auto problem = catalog->problem();
          answer.sqlstate = problem ? problem->sqlstate : "XX000";
          if (problem) answer.message = problem->message;
          sqlite3_finalize(statement);
          return answer;
        }
        sqlite3_finalize(statement);
      }
    }
    return answer;
  }

  // The one value of a query.
  std::string value(const std::string& text) {
    const Answer answer = run(text);
    if (!answer.sqlstate.empty()) return "! " + answer.sqlstate + " " + answer.message;
    return answer.rows.size() == 2 ? answer.rows[1] : std::to_string(answer.rows.size()) + " lines";
  }
};

}  // namespace sqlite_server_test
