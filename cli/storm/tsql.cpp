// storm on SQL Server: translates its few statements, which are PostgreSQL's, into T-SQL, and has
// SQL Server's way of listing and ending sessions.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include "storm/sql.hpp"

namespace termgate::cli::storm {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

}  // namespace

std::string spoken(Engine engine, const std::string& statement) {
  if (engine != Engine::sqlserver) return statement;
  if (statement == "BEGIN") return "BEGIN TRANSACTION";
  // XACT_ABORT has already rolled back a failed transaction, so a plain COMMIT would have nothing
  // to commit.
  if (statement == "COMMIT")
    return "IF @@TRANCOUNT <> 1 THROW 50000, 'the transaction had failed and was rolled back', 1; "
           "COMMIT TRANSACTION";
  if (statement.starts_with("SAVEPOINT ")) return "SAVE TRANSACTION " + statement.substr(10);
  if (statement.starts_with("ROLLBACK TO SAVEPOINT "))
    return "ROLLBACK TRANSACTION " + statement.substr(22);
  if (statement.starts_with("SELECT set_config('termgate.scope'"))
    return "EXEC sp_set_session_context @key = N'termgate.scope', @value = $1; EXEC "
           "sp_set_session_context @key = N'termgate.term', @value "
           "= $2";
  std::string text = statement;
  if (text.starts_with("CREATE TABLE ")) {
    replace_all(text, " text PRIMARY KEY", " nvarchar(400) NOT NULL PRIMARY KEY");
    replace_all(text, " text NOT NULL", " nvarchar(400) NOT NULL");
  }
  // After the UPDATE the row is locked by this transaction, so the SELECT reads the new value.
  // OUTPUT would do on SQL Server, but on Babelfish it returns the value from before a wait for the
  // row.
  if (constexpr std::string_view returning = " RETURNING n";
      text.starts_with("UPDATE ") && text.ends_with(returning)) {
    text.resize(text.size() - returning.size());
    text += "; SELECT n FROM " + text.substr(7, text.find(' ', 7) - 7) + " WHERE scope = $1";
  }
  return text;
}

std::string check_statement(Engine engine, const std::string& schema) {
  const bool tsql = engine == Engine::sqlserver;
  std::string quoted;
  for (const char letter : schema)
    quoted += letter == (tsql ? ']' : '"') ? std::string(2, letter) : std::string(1, letter);
  if (tsql)
    return "DECLARE @fence bigint; EXEC [" + quoted +
           "].check_term @scope = $1, @term = $2, @fence = @fence OUTPUT";
  return "SELECT \"" + quoted + "\".check_term($1, CAST($2 AS bigint))";
}

std::vector<std::string> sessions_of(Engine engine, Sql& sql, const std::string& application,
                                     int most) {
  std::vector<std::string> those;
  const std::vector<std::string> values{application, std::to_string(most)};
  const Table found =
      engine == Engine::sqlserver
          ? sql.run(
                "SELECT TOP (CAST($2 AS int)) session_id FROM sys.dm_exec_sessions WHERE "
                "program_name = $1 AND session_id <> @@SPID ORDER BY NEWID()",
                values)
          : sql.run(
                "SELECT pid FROM pg_stat_activity WHERE split_part(application_name, ' ', 1) = $1 "
                "AND pid <> pg_backend_pid() ORDER BY random() LIMIT CAST($2 AS int)",
                values);
  for (const auto& row : found.rows) those.push_back(row.at(0));
  return those;
}

void end_sessions(Engine engine, Sql& sql, const std::vector<std::string>& those) {
  for (const std::string& one : those) {
    try {
      if (engine == Engine::sqlserver) sql.run("KILL " + one);  // takes no variable
      else sql.run("SELECT pg_terminate_backend(CAST($1 AS int))", {one});
    } catch (const DatabaseError&) {
      // The session has already ended.
    }
  }
}

bool on_sqlserver(std::string_view fault, bool proxies) {
  constexpr std::array<std::string_view, 8> those{"stop", "kill",  "cut",       "freeze",
                                                  "lose", "force", "hand-over", "prune"};
  constexpr std::array<std::string_view, 4> of_proxies{"proxy-kill", "proxy-stop", "cut-front",
                                                       "cut-back"};
  return std::find(those.begin(), those.end(), fault) != those.end() ||
         (proxies && std::find(of_proxies.begin(), of_proxies.end(), fault) != of_proxies.end());
}

std::string_view name_of(Engine engine) {
  switch (engine) {
    case Engine::postgresql: return "PostgreSQL";
    case Engine::sqlite: return "SQLite";
    case Engine::sqlserver: return "SQL Server";
  }
  return {};
}

}  // namespace termgate::cli::storm
