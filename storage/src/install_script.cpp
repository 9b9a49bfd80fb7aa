#include <termgate/detail/install_script.hpp>

#include <fmt/format.h>

#include <termgate/detail/schema.hpp>
#include <termgate/text/quote.hpp>
#include <termgate/version.hpp>

#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

int newest(std::span<const sql::Migration> migrations) { return migrations.back().version; }

void append(std::string& script, std::string_view text) {
  script += text;
  if (!text.ends_with('\n')) script += '\n';
}

std::string for_postgresql(const InstallScript& wanted) {
  const auto migrations = sql::postgres_migrations();
  std::string script = fmt::format(
      "-- Layer 1 of Termgate {}, version {}, for PostgreSQL 13 and newer: installs it, or "
      "upgrades an older version.\n"
      "-- Written by `termgate init --print`. Run it as the role that shall own layer 1:\n"
      "--   psql -X -v ON_ERROR_STOP=1 -f FILE\n",
      version(), newest(migrations));
  if (wanted.transaction) script += "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;\n";
  std::string begin(sql::postgres::script_begin);
  replace_all(begin, "@version@", std::to_string(newest(migrations)));
  append(script, begin);
  append(script, sql::postgres::before_install);
  for (const sql::Migration& migration : migrations) {
    append(script, migration.text);
    script += fmt::format(
        "INSERT INTO @schema@.migrations (version, name) VALUES ({}, '{}') ON CONFLICT DO "
        "NOTHING;\n",
        migration.version, migration.name);
  }
  append(script, sql::postgres::after_install);
  script = with_schema(script, wanted.schema);
  const std::string schema = text::quoted(wanted.schema, '"');
  for (const std::string& role : wanted.revokes)
    script += fmt::format("SELECT level, through FROM {}.revoke_level({}::name);\n", schema,
                          text::postgresql_string(role));
  for (const auto& [role, level] : wanted.grants)
    script += fmt::format("SELECT {}.grant_level({}::name, {});\n", schema,
                          text::postgresql_string(role), text::postgresql_string(level));
  if (!wanted.failover.empty())
    script += fmt::format("SELECT {}.set_setting('failover', {});\n", schema,
                          text::postgresql_string(wanted.failover));
  if (wanted.transaction) script += "COMMIT;\n";
  return script;
}

// If a batch fails, the transaction ends, but sqlcmd and SSMS go on with the next batch. So from
// there on nothing is executed.
std::string in_one_transaction(std::string_view batches) {
  std::string script;
  while (!batches.empty()) {
    const auto end = batches.find('\n');
    const auto line = batches.substr(0, end == std::string_view::npos ? end : end + 1);
    batches.remove_prefix(line.size());
    script += line;
    if (line == "GO\n") script += "IF @@TRANCOUNT = 0 SET NOEXEC ON;\nGO\n";
  }
  return script;
}

std::string for_sqlserver(const InstallScript& wanted) {
  const auto migrations = sql::sqlserver_migrations();
  std::string batches;
  const auto batch = [&](std::string_view text) {
    append(batches, text);
    if (!batches.ends_with("\nGO\n")) batches += "GO\n";
  };
  batch(sql::sqlserver::script_begin);
  batch(
      fmt::format("DECLARE @version int = 0;\n"
                  "IF OBJECT_ID(N'@schema@.migrations', N'U') IS NOT NULL EXEC sp_executesql "
                  "N'SELECT @version = ISNULL(MAX(version), 0) FROM "
                  "@schema@.migrations', N'@version int OUTPUT', @version = @version OUTPUT;\n"
                  "IF @version > {0} THROW 50005, 'TG005 a newer version of layer 1 is installed; "
                  "nothing was changed', 1;",
                  newest(migrations)));
  batch(sql::sqlserver::before_install);
  for (const sql::Migration& migration : migrations) {
    batch(migration.text);
    batch(
        fmt::format("INSERT INTO @schema@.migrations (version, name) SELECT {0}, N'{1}' WHERE NOT "
                    "EXISTS (SELECT 1 FROM @schema@.migrations "
                    "WHERE version = {0});",
                    migration.version, migration.name));
  }
  batch(sql::sqlserver::after_install);
  batches = with_schema_tsql(batches, wanted.schema);
  const std::string schema = text::in_brackets(wanted.schema);
  for (const auto& [role, level] : wanted.grants)
    batch(fmt::format("EXEC {}._grant @role = {}, @level = {};", schema, text::tsql_string(role),
                      text::tsql_string(level)));
  if (!wanted.failover.empty())
    batch(fmt::format("EXEC {}.set_setting @name = N'failover', @value = {};", schema,
                      text::tsql_string(wanted.failover)));
  return fmt::format(
             "-- Layer 1 of Termgate {}, version {}, for SQL Server: installs it, or upgrades an "
             "older version.\n"
             "-- Written by `termgate init --print`. Run it as the owner of the database: sqlcmd "
             "-b -I -i FILE\n",
             version(), newest(migrations)) +
         in_one_transaction(batches) + "COMMIT TRANSACTION;\nGO\nSET NOEXEC OFF;\nGO\n";
}

std::string for_sqlite() {
  const auto migrations = sql::sqlite_migrations();
  std::string script = fmt::format(
      "-- Layer 1 of Termgate {}, version {}, for an SQLite file that does not have it: sqlite3 "
      "-bail FILE < SCRIPT\n"
      "-- Written by `termgate init --print`. Whoever writes to protected tables or calls "
      "Termgate's functions loads termgate.so first;\n"
      "-- an older version is upgraded by `SELECT termgate_init();` there, or by `termgate init`.\n"
      "BEGIN IMMEDIATE;\n"
      "CREATE TEMP TABLE termgate_absent (found INTEGER CONSTRAINT \"Termgate is installed here "
      "already, nothing was changed\" CHECK "
      "(found = "
      "0));\n"
      "INSERT INTO temp.termgate_absent SELECT count(*) FROM main.sqlite_schema WHERE name = "
      "'termgate_migrations';\n"
      "DROP TABLE temp.termgate_absent;\n",
      version(), newest(migrations));
  for (const sql::Migration& migration : migrations) {
    append(script, migration.text);
    // Termgate's own rows are inserted before the triggers that protect its tables against others.
    if (&migration != &migrations.front()) continue;
    for (const sql::Migration& one : migrations)
      script += fmt::format(
          "INSERT INTO main.termgate_migrations (version, name, applied_at) VALUES ({}, '{}', "
          "CAST((julianday('now') - 2440587.5) * "
          "86400000 AS INTEGER));\n",
          one.version, one.name);
    script += fmt::format(
        "INSERT INTO main.termgate_audit (at, actor, session_user, client, action, detail) VALUES "
        "(CAST((julianday('now') - 2440587.5) * "
        "86400000 AS INTEGER), 'script', 'script', 'script', 'init', "
        "'{{\"from_version\":0,\"to_version\":{}}}');\n",
        newest(migrations));
  }
  return script + "COMMIT;\n";
}

}  // namespace

std::string install_script(const InstallScript& wanted) {
  if (wanted.kind == "sqlite") return for_sqlite();
  need_schema_name(wanted.schema);
  return wanted.kind == "sqlserver" ? for_sqlserver(wanted) : for_postgresql(wanted);
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
