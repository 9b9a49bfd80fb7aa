// ALTER TABLE as SQLite's manual has it for what its own ALTER cannot do: a new table takes the old one's place, with its indexes and
// triggers, in the transaction of the statement.
#include <string_view>

#include "session/session.hpp"

namespace termgate::sqlite_server {

namespace {

std::string quoted_name(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// Foreign keys are not enforced while the old table goes, or its rows would take others along; names in other tables stay as they are.
class Apart {
 public:
  explicit Apart(sqlite3* db) : db_(db) {
    sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_FKEY, -1, &enforced_);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, -1, &legacy_);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_FKEY, 0, nullptr);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, 1, nullptr);
  }
  ~Apart() {
    sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_FKEY, enforced_, nullptr);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, legacy_, nullptr);
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

 private:
  sqlite3* db_;
  int enforced_ = 1, legacy_ = 0;
};

// One row after the other of a statement of our own, which the guard need not see.
template <class Row>
void each_row(SqlConnection& on, const std::string& sql, const std::vector<std::string>& values, const Row& row) {
  sqlite3_stmt* statement = nullptr;
  if (const int code = sqlite3_prepare_v2(on.handle(), sql.c_str(), -1, &statement, nullptr); code != SQLITE_OK) on.fail(code);
  for (std::size_t i = 0; i < values.size(); ++i)
    sqlite3_bind_text(statement, static_cast<int>(i) + 1, values[i].data(), static_cast<int>(values[i].size()), SQLITE_TRANSIENT);
  int code = SQLITE_DONE;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW) row(statement);
  const int ended = sqlite3_finalize(statement);
  if (code != SQLITE_DONE) on.fail(ended == SQLITE_OK ? code : ended);
}

std::string cell(sqlite3_stmt* statement, int column) {
  const unsigned char* text = sqlite3_column_text(statement, column);
  return text == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(text));
}

// What PostgreSQL says of rows that do not meet what ALTER TABLE asks of them.
[[noreturn]] void violated(PgError fault, const std::string& table) {
  fault.table = table;
  if (fault.sqlstate == "23514")
    fault.message = "check constraint \"" + fault.constraint + "\" of relation \"" + table + "\" is violated by some row";
  if (fault.sqlstate == "23502") fault.message = "column \"" + fault.column + "\" of relation \"" + table + "\" contains null values";
  if (fault.sqlstate == "23505") fault.message = "could not create unique index \"" + fault.constraint + "\"";
  throw PgException(fault);
}

}  // namespace

void Session::check_foreign_keys(SqlConnection& on, const std::string& table) {
  std::string other;
  int key = -1;
  each_row(on, "SELECT parent, fkid FROM pragma_foreign_key_check(?1) LIMIT 1", {table}, [&](sqlite3_stmt* row) {
    other = cell(row, 0);
    key = sqlite3_column_int(row, 1);
  });
  if (key < 0) return;
  const dialect::Relations::Relation* relation = nullptr;
  const auto relations = on.catalog().relations();
  relation = relations->find(table);
  std::vector<std::string> names;
  for (const auto& item : relation == nullptr ? std::vector<dialect::Relations::Relation::Item>() : relation->items) {
    for (const auto& clause : item.clauses) {
      if (clause.kind == 'f') names.push_back(clause.name);
    }
  }
  // SQLite numbers them from the last.
  const std::size_t at = names.size() - static_cast<std::size_t>(key) - 1;
  PgError fault{"23503", {}};
  fault.table = table;
  fault.constraint = at < names.size() ? names[at] : "";
  fault.message = "insert or update on table \"" + table + "\" violates foreign key constraint \"" + fault.constraint + "\"";
  fault.detail = "A row's key is not present in table \"" + other + "\".";
  throw PgException(fault);
}

void Session::rebuild_table(SqlConnection& on, const Plan& plan) {
  const dialect::Rebuild& rebuild = *plan.does.rebuild;
  bool adopted = false;
  try {
    each_row(on, "SELECT 1 FROM main.termgate_adopted WHERE table_name = ?1 COLLATE NOCASE", {rebuild.table},
             [&](sqlite3_stmt*) { adopted = true; });
  } catch (const PgException&) {}  // without layer 1
  if (adopted)
    throw PgException("42501",
                      "permission denied: table \"" + rebuild.table + "\" is adopted; the file's owner runs termgate unadopt first");
  // The guard refuses what the network may not have in such a name; these steps go past it.
  std::string name;
  for (const char c : rebuild.table) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (name.starts_with("termgate_") || name.starts_with("sqlite_"))
    throw PgException("42501", "permission denied for table " + rebuild.table);
  {
    const Apart apart(on.handle());
    std::vector<std::string> around;
    std::optional<std::string> counter;
    each_row(on,
             "SELECT name, sql FROM main.sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE AND type IN ('index', 'trigger') AND sql IS NOT "
             "NULL ORDER BY type, rowid",
             {rebuild.table}, [&](sqlite3_stmt* row) {
               if (std::find(rebuild.lost_indexes.begin(), rebuild.lost_indexes.end(), cell(row, 0)) == rebuild.lost_indexes.end())
                 around.push_back(cell(row, 1));
             });
    bool counters = false;
    each_row(on, "SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_sequence'", {}, [&](sqlite3_stmt*) { counters = true; });
    if (counters)
      each_row(on, "SELECT seq FROM main.sqlite_sequence WHERE name = ?1", {rebuild.table},
               [&](sqlite3_stmt* row) { counter = cell(row, 0); });
    at_work(on, [&] {
      try {
        for (const std::string& sql : plan.does.sql) {
          SqlConnection::Text text = on.prepare(sql);
          while (text.step() == SQLITE_ROW) {}
        }
        const auto own = [&](const std::string& sql) { each_row(on, sql, {}, [](sqlite3_stmt*) {}); };
        own("DROP TABLE main." + quoted_name(rebuild.table));
        own("ALTER TABLE main." + quoted_name(rebuild.made) + " RENAME TO " + quoted_name(rebuild.table));
        if (counter) {
          each_row(on, "DELETE FROM main.sqlite_sequence WHERE name = ?1", {rebuild.table}, [](sqlite3_stmt*) {});
          each_row(
              on,
              "INSERT INTO main.sqlite_sequence (name, seq) SELECT ?1, CAST(?2 AS INTEGER) FROM main.sqlite_schema WHERE name = ?1 AND "
              "sql LIKE '%AUTOINCREMENT%'",
              {rebuild.table, *counter}, [](sqlite3_stmt*) {});
        }
        for (const std::string& sql : around) own(sql);
        for (const std::string& sql : rebuild.after) {
          SqlConnection::Text text = on.prepare(sql);
          while (text.step() == SQLITE_ROW) {}
        }
      } catch (const PgException& failed) { violated(failed.fault(), rebuild.table); }
    });
    if (rebuild.check_foreign) check_foreign_keys(on, rebuild.table);
  }
  on.follow_indexes();
}

}  // namespace termgate::sqlite_server
