// Installs layer 1: numbered migrations, all in one transaction. All their statements can run again
// and keep what is there, so another init also repairs: it recreates whatever is missing of this
// version.
#include <termgate/detail/sqlite/tables.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>
#include "common.hpp"
#include "json.hpp"
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {

namespace stmt = termgate::sql::sqlite_statements;

// 0: this database has no layer 1.
int Core::installed_version() {
  {
    Running read = use(stmt::installed_table);
    if (!read.step()) return 0;
  }
  Running read = use(stmt::installed_version);
  return read.step() ? static_cast<int>(read.integer(0)) : 0;
}

namespace {

// A database as the migrations create it, for comparison.
class Model {
 public:
  Model() {
    int code =
        sqlite3_open_v2(":memory:", &db_,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    for (const sql::Migration& migration : sql::sqlite_migrations()) {
      const std::string text(migration.text);
      if (code == SQLITE_OK) code = sqlite3_exec(db_, text.c_str(), nullptr, nullptr, nullptr);
    }
    if (code == SQLITE_OK) return;
    sqlite3_close(db_);
    throw_sqlite(nullptr, code);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() { sqlite3_close(db_); }
  sqlite3* handle() const noexcept { return db_; }

 private:
  sqlite3* db_ = nullptr;
};

}  // namespace

std::vector<Setup::Part> Setup::missing_parts() {
  std::vector<Part> missing;
  bool settings = true, incarnation = true, here = true;
  const Model model;
  {
    const Statement parts(model.handle(), stmt::own_parts);
    Running wanted(parts.get());
    while (wanted.step()) {
      const std::string type = wanted.text(0), name = wanted.text(1);
      Running found = core_.use(stmt::part_find);
      const bool there = found.bind(type).bind(name).step();
      // A table or an index may have been altered since it was created; a trigger must still have
      // its original text.
      if (there && (type != "trigger" || found.text(0) == wanted.text(2))) continue;
      missing.push_back({name, type == "table"});
      settings = settings && name != "termgate_settings";
      incarnation = incarnation && name != "termgate_incarnation";
      here = here && name != "termgate_here";
    }
  }
  if (settings) {
    const Statement names(model.handle(), stmt::settings_show);
    Running wanted(names.get());
    while (wanted.step()) {
      if (!core_.setting(wanted.text(0)))
        missing.push_back({"the setting " + wanted.text(0), false});
    }
  }
  if (incarnation && !core_.use(stmt::incarnation_read).step())
    missing.push_back({"the row of termgate_incarnation", false});
  if (here && !core_.use(stmt::here_read).step())
    missing.push_back({"the row of termgate_here", false});
  return missing;
}

// Columns that an earlier version named differently (0004), or lacked (0009).
void Setup::alter_columns() {
  const auto has = [&](std::string_view table, std::string_view column) {
    const Statement columns(core_.connection(),
                            "SELECT 1 FROM main.pragma_table_info(?1) WHERE name = ?2");
    Running read(columns.get());
    return read.bind(table).bind(column).step();
  };
  for (const char* table : {"termgate_fences", "termgate_incarnation"}) {
    if (has(table, "in_doubt"))
      core_.execute(fmt::format("ALTER TABLE main.{} RENAME COLUMN in_doubt TO untrusted", table));
  }
  if (has("termgate_job_runs", "run_id") && !has("termgate_job_runs", "request"))
    core_.execute(
        "ALTER TABLE main.termgate_job_runs ADD COLUMN request TEXT CHECK (request IN ('run', "
        "'dry-run', 'resume'))");
}

// Two concurrent calls are harmless: the version is read under the write lock.
Setup::Installed Setup::install() {
  Core::Unit unit(core_);
  const int from = core_.installed_version();
  int to = from;
  // Binary N works on the schema of N-1 and N+1 (docs/contract.md, section 9).
  const int ours = sql::sqlite_migrations().back().version;
  if (from > ours + 1) {
    throw DatabaseError(
        fmt::format("the database has version {} of Termgate's tables and this one knows {}: "
                    "install a newer termgate",
                    from, ours));
  }
  // Parts that existed and were lost. A database that never had layer 1 has none.
  std::vector<Part> missing;
  bool known = false;
  {
    Running tables = core_.use(stmt::own_tables);
    known = tables.step();
  }
  std::vector<std::string> outdated;
  if (known && from < ours) alter_columns();
  if (known && from <= ours) missing = missing_parts();
  if (from == ours && missing.empty()) outdated = tables_.outdated_triggers(false);
  if (from == ours && missing.empty() && outdated.empty()) {
    unit.commit();
    return {from, to};
  }
  for (const sql::Migration& migration : sql::sqlite_migrations()) {
    if (from > ours) break;
    const std::string text(migration.text);
    if (const int code = sqlite3_exec(core_.connection(), text.c_str(), nullptr, nullptr, nullptr);
        code != SQLITE_OK)
      throw_sqlite(core_.connection(), code);
    if (migration.version <= from) continue;
    core_.use(stmt::migration_insert)
        .bind(std::int64_t{migration.version})
        .bind(migration.name)
        .bind(core_.now())
        .run();
    to = migration.version;
  }
  // Losing the fences loses their terms, and losing the incarnation loses what was untrusted. The
  // terms in the rows are used as for any fence without a row, but nobody knows whether they are
  // complete (F3).
  const bool forgotten = std::any_of(missing.begin(), missing.end(), [](const Part& part) {
    return part.name == "termgate_fences" || part.name == "termgate_incarnation" ||
           part.name == "the row of termgate_incarnation";
  });
  if (forgotten) {
    core_.use(stmt::incarnation_set_untrusted).bind(std::int64_t{1}).run();
    fences_.changed();
    core_.audit("declare_untrusted", std::nullopt,
                R"({"reason":"the fences, or what was said of them, had to be made anew"})");
  }
  // Triggers of an earlier version pass less than this version's guard expects.
  if (from <= ours) outdated = tables_.outdated_triggers(true);
  if (to != from)
    core_.audit("init", std::nullopt,
                fmt::format(R"({{"from_version":{},"to_version":{}}})", from, to));
  if (from == ours) {
    std::string names;
    for (const Part& part : missing) names += (names.empty() ? "" : ", ") + part.name;
    for (const std::string& table : outdated)
      names += (names.empty() ? "" : ", ") + ("the triggers of table " + table);
    core_.audit("init", std::nullopt, Json('{').key("made_anew").value(names).close());
  }
  unit.commit();
  return {from, to};
}

void Setup::uninstall(const std::string& actor, const std::string& reason) {
  require_text(actor, "actor");
  require_text(reason, "reason");
  if (sqlite3_get_autocommit(core_.connection()) == 0)
    throw InvalidInput(
        "TG005 termgate_uninstall takes away every fence: run it outside a transaction");
  uninstall();
}

void Setup::uninstall() {
  Core::Unit unit(core_);
  if (core_.installed_version() > 0) {
    std::vector<std::string> tables;
    {
      Running read = core_.use(stmt::own_triggers);
      while (read.step()) tables.push_back(read.text(0));
    }
    for (const std::string& trigger : tables)
      core_.execute("DROP TRIGGER main." + quoted_identifier(trigger));
    tables.clear();
    {
      Running read = core_.use(stmt::own_tables);
      while (read.step()) tables.push_back(read.text(0));
    }
    for (const std::string& table : tables)
      core_.execute("DROP TABLE main." + quoted_identifier(table));
  }
  fences_.changed();
  unit.commit();
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
