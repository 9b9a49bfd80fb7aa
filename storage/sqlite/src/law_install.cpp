// Layer 1 in a database: numbered migrations, each run once, all in one transaction.
#include "law.hpp"

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>

#include "errors.hpp"
#include "unit.hpp"

namespace termgate::inline v0::sqlite {

namespace stmt = termgate::sql::sqlite_law;

int Law::installed_version() {
  {
    Running read = use(stmt::installed_table);
    if (!read.step()) return 0;
  }
  Running read = use(stmt::installed_version);
  return read.step() ? static_cast<int>(read.integer(0)) : 0;
}

// Two at once do no harm: the version is read under the write lock.
Law::Installed Law::install() {
  Unit unit(*this);
  const int from = installed_version();
  int to = from;
  // Binary N works on the schema of N-1 and N+1 (docs/contract.md, section 9).
  if (const int ours = sql::sqlite_migrations().back().version; from > ours + 1) {
    throw DatabaseError(
        fmt::format("the database has version {} of Termgate's tables and this one knows {}: install a newer termgate", from, ours));
  }
  for (const sql::Migration& migration : sql::sqlite_migrations()) {
    if (migration.version <= from) continue;
    const std::string text(migration.text);
    if (const int code = sqlite3_exec(db_, text.c_str(), nullptr, nullptr, nullptr); code != SQLITE_OK) throw_sqlite(db_, code);
    use(stmt::migration_insert).bind(std::int64_t{migration.version}).bind(migration.name).bind(now()).run();
    to = migration.version;
  }
  if (to != from) audit("init", std::nullopt, fmt::format("from version {} to {}", from, to));
  unit.commit();
  return {from, to};
}

void Law::uninstall() {
  Unit unit(*this);
  if (installed_version() > 0) {
    std::vector<std::string> tables;
    {
      Running read = use(stmt::own_triggers);
      while (read.step()) tables.push_back(read.text(0));
    }
    for (const std::string& trigger : tables) execute("DROP TRIGGER main." + quoted_identifier(trigger));
    tables.clear();
    {
      Running read = use(stmt::own_tables);
      while (read.step()) tables.push_back(read.text(0));
    }
    for (const std::string& table : tables) execute("DROP TABLE main." + quoted_identifier(table));
  }
  fence_changed();
  unit.commit();
}

}  // namespace termgate::inline v0::sqlite
