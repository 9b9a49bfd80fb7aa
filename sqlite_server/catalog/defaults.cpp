// Whether a column's default passes its own CHECKs. The text comes from a file that others may have written, so it runs where nothing but
// SQLite's own functions can be called, and for a short time.
#include <sqlite3.h>

#include <algorithm>
#include <memory>

#include "catalog/schema.hpp"

namespace termgate::sqlite_server {
namespace {

constexpr int default_bytes_max = 1 << 20, instructions_max = 1'000'000;

bool refuses_its_default(const std::string& table) {
  sqlite3* opened = nullptr;
  if (sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    sqlite3_close(opened);
    return false;
  }
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> held(opened, sqlite3_close);
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, default_bytes_max);
  sqlite3_limit(opened, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_progress_handler(
      opened, instructions_max, [](void*) { return 1; }, nullptr);
  const auto run = [&](const std::string& sql) {
    // One statement, whatever the text holds besides.
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(opened, sql.data(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK) return false;
    sqlite3_step(statement);
    return sqlite3_finalize(statement) == SQLITE_OK;
  };
  return run(table) && !run("INSERT INTO t DEFAULT VALUES") && sqlite3_extended_errcode(opened) == SQLITE_CONSTRAINT_CHECK;
}

}  // namespace

std::optional<std::string> check_against_default(std::string_view create_table, const ColumnWithDefault& column,
                                                 const std::vector<std::string>& columns) {
  for (const Definition::Check& check : definition_of(create_table).checks) {
    bool own = false, others = false;
    for (const std::string& name : names_mentioned(check.expression)) {
      const std::string small = lower(name);
      if (small == lower(column.name)) own = true;
      else others |= std::any_of(columns.begin(), columns.end(), [&](const std::string& each) { return lower(each) == small; });
    }
    if (!own || others) continue;
    const std::string table = "CREATE TABLE t (" + quoted_identifier(column.name) + " " + column.declared + " DEFAULT (" +
                              column.default_text + ") CHECK (" + check.expression + "))";
    if (refuses_its_default(table)) return check.name.empty() ? check.expression : check.name;
  }
  return std::nullopt;
}

}  // namespace termgate::sqlite_server
