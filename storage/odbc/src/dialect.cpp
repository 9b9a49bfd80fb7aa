#include "dialect.hpp"

#include <termgate/detail/schema.hpp>
#include <termgate/error.hpp>

#include "statement_text.hpp"

namespace termgate::inline v0::detail::odbc {
namespace {

std::string_view level_of(Isolation isolation) {
  switch (isolation) {
    case Isolation::database_default:
      break;
    case Isolation::read_committed:
      return "READ COMMITTED";
    case Isolation::repeatable_read:
      return "REPEATABLE READ";
    case Isolation::serializable:
      return "SERIALIZABLE";
  }
  return {};
}

const Dialect& postgresql() {
  static const Dialect dialect{
      .family = Family::postgresql,
      .kind = "postgresql",
      .calls = &sql::postgres_calls,
      .migrations = &sql::postgres_migrations,
      .uninstall = sql::postgres::uninstall,
      .on_connect = "SET standard_conforming_strings = on",
      .commit = "COMMIT",
      .roll_back = "ROLLBACK",
      .install_begin = "BEGIN ISOLATION LEVEL READ COMMITTED;"
                       "SET LOCAL search_path = pg_catalog, pg_temp;"
                       "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('termgate migrations', 0))",
      // to_regclass parses its argument as an identifier.
      .is_installed = "SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(@schema_lit@) || '.migrations') IS NOT NULL",
      .version = "SELECT coalesce(max(version), 0) FROM @schema@.migrations",
      .note_migration = "INSERT INTO @schema@.migrations (version, name) VALUES ($1::integer, $2) ON CONFLICT DO NOTHING",
      .grant = "SELECT @schema@._grant($1::name, $2)",
      .error_ends_transaction = false,
  };
  return dialect;
}

}  // namespace

std::string Dialect::begin(const TransactOptions& options) const {
  std::string text = "BEGIN";
  if (const auto level = level_of(options.isolation); !level.empty()) text.append(" ISOLATION LEVEL ").append(level);
  return text + (options.read_only ? " READ ONLY" : " READ WRITE");
}

std::string Dialect::with_schema(std::string_view text, std::string_view schema) const { return detail::with_schema(text, schema); }

std::vector<std::string> Dialect::pieces(std::string_view script) const { return statements_of(script, family); }

const Dialect& dialect_of(Family family) {
  switch (family) {
    case Family::postgresql:
      return postgresql();
    case Family::sqlserver:
      throw InvalidInput("TG005 this build of Termgate has no layer 1 for SQL Server");
    case Family::sqlite:
      break;
  }
  throw InvalidInput("TG005 an SQLite file is opened as sqlite:PATH, not through ODBC: its law runs inside the process");
}

}  // namespace termgate::inline v0::detail::odbc
