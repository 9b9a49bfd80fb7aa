// The differences between databases reached through ODBC, as one table for each: texts and rules.
#include <termgate/detail/odbc/dialect.hpp>

#include <termgate/detail/schema.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/odbc/statement_text.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {
namespace {

std::string_view level_of(Isolation isolation) {
  switch (isolation) {
    case Isolation::database_default: break;
    case Isolation::read_committed: return "READ COMMITTED";
    case Isolation::repeatable_read: return "REPEATABLE READ";
    case Isolation::serializable: return "SERIALIZABLE";
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
      .install_begin =
          "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
          "SET LOCAL search_path = pg_catalog, pg_temp;"
          "SET LOCAL lock_timeout = '10s';"
          "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('termgate "
          "migrations', 0))",
      .before_install = sql::postgres::before_install,
      .after_install = sql::postgres::after_install,
      // to_regclass parses its argument as an identifier.
      .is_installed =
          "SELECT pg_catalog.to_regclass(pg_catalog.quote_ident(@schema_lit@) || '.migrations') IS "
          "NOT NULL",
      .version = "SELECT coalesce(@schema@.schema_version(), 0)",
      .note_migration =
          "INSERT INTO @schema@.migrations (version, name) VALUES ($1::integer, $2) ON CONFLICT DO "
          "NOTHING",
      .grant = "SELECT @schema@.grant_level($1::name, $2)",
      .revoke = "SELECT level, through FROM @schema@.revoke_level($1::name)",
      .error_ends_transaction = false,
  };
  return dialect;
}

// A lock by which the commit text recognises its own transaction.
constexpr const char* transaction_lock =
    "DECLARE @termgate nvarchar(60) = CONCAT(N'termgate transaction ', @@SPID); "
    "EXEC sp_getapplock @Resource = @termgate, @LockMode = N'Shared', @LockOwner = N'Transaction', "
    "@LockTimeout = 1000, @DbPrincipal = "
    "N'public'";

const Dialect& sqlserver() {
  static const std::string install_begin =
      std::string("SET TRANSACTION ISOLATION LEVEL READ COMMITTED\nGO\nBEGIN TRANSACTION\nGO\n") +
      transaction_lock +
      "\nGO\nDECLARE @rc int; EXEC @rc = sp_getapplock @Resource = N'termgate migrations', "
      "@LockMode = N'Exclusive', @LockOwner = "
      "N'Transaction', "
      "@LockTimeout = 60000, @DbPrincipal = N'public'; IF @rc < 0 THROW 50006, 'TG006 another "
      "installer is at work', 1";
  static const Dialect dialect{
      .family = Family::sqlserver,
      .kind = "sqlserver",
      .calls = &sql::sqlserver_calls,
      .migrations = &sql::sqlserver_migrations,
      .uninstall = sql::sqlserver::uninstall,
      // XACT_ABORT: an error ends the whole transaction, so that nothing half done can be
      // committed.
      .on_connect =
          "SET XACT_ABORT ON; SET IMPLICIT_TRANSACTIONS OFF; SET QUOTED_IDENTIFIER ON; SET "
          "ANSI_NULLS ON; SET ANSI_PADDING ON; SET "
          "ANSI_WARNINGS ON; "
          "SET CONCAT_NULL_YIELDS_NULL ON; SET TEXTSIZE 2147483647; SET LOCK_TIMEOUT -1",
      // A procedure may have committed and begun again by itself, which released the check's lock.
      // It released begin()'s lock too, and so the absence of that one shows it.
      .commit =
          "IF @@TRANCOUNT <> 1 THROW 50005, 'TG005 a statement of this transaction began or ended "
          "one', 1; "
          "DECLARE @termgate nvarchar(60) = CONCAT(N'termgate transaction ', @@SPID); "
          "IF APPLOCK_MODE(N'public', @termgate, N'Transaction') = N'NoLock' "
          "THROW 50000, 'a statement of this transaction committed a part of it and began another: "
          "that part is committed, the rest is "
          "rolled back', 1; COMMIT TRANSACTION",
      .roll_back = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION",
      .install_begin = install_begin,
      .before_install = sql::sqlserver::before_install,
      .after_install = sql::sqlserver::after_install,
      .is_installed =
          "SELECT CASE WHEN OBJECT_ID(N'@schema@.migrations', N'U') IS NULL THEN 0 ELSE 1 END",
      .version = "SELECT ISNULL(MAX(version), 0) FROM @schema@.migrations",
      .note_migration =
          "INSERT INTO @schema@.migrations (version, name) SELECT CAST($1 AS int), CAST($2 AS "
          "nvarchar(200)) WHERE NOT EXISTS (SELECT 1 "
          "FROM @schema@.migrations WHERE version = CAST($1 AS int))",
      .grant = "EXEC @schema@._grant @role = $1, @level = $2",
      .revoke = {},
      .error_ends_transaction = true,
  };
  return dialect;
}

}  // namespace

std::string Dialect::begin(const TransactOptions& options) const {
  if (family == Family::sqlserver) {
    // On SQL Server the level outlives a transaction, so each transaction sets it. There is no
    // read-only transaction: see need_query().
    const auto level = level_of(options.isolation);
    // ROWCOUNT and LOCK_TIMEOUT are reset too, because an earlier user of this session may have set
    // them.
    return "SET ROWCOUNT 0; SET LOCK_TIMEOUT -1; SET TRANSACTION ISOLATION LEVEL " +
           std::string(level.empty() ? "READ COMMITTED" : level) + "; BEGIN TRANSACTION; " +
           transaction_lock;
  }
  std::string text = "BEGIN";
  if (const auto level = level_of(options.isolation); !level.empty())
    text.append(" ISOLATION LEVEL ").append(level);
  return text + (options.read_only ? " READ ONLY" : " READ WRITE");
}

std::string Dialect::with_schema(std::string_view text, std::string_view schema) const {
  return family == Family::sqlserver ? with_schema_tsql(text, schema)
                                     : detail::with_schema(text, schema);
}

std::vector<std::string> Dialect::pieces(std::string_view script) const {
  return family == Family::sqlserver ? batches_of(script) : statements_of(script, family);
}

const Dialect& dialect_of(Family family) {
  switch (family) {
    case Family::postgresql: return postgresql();
    case Family::sqlserver: return sqlserver();
    case Family::sqlite: break;
  }
  throw InvalidInput(
      "TG005 an SQLite file is opened as sqlite:PATH, not through ODBC: its layer 1 runs inside "
      "the process");
}

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
