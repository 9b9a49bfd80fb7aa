// The check for programs that have an ODBC connection of their own. Nothing of the connection's
// settings is changed: what matters is set on the statement, which is freed at the end.
#include <termgate/sqlserver_check.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <sqlext.h>
#include <fmt/format.h>

#include <termgate/detail/schema.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/odbc/connection.hpp>
#include <termgate/detail/odbc/dialect.hpp>
#include "unicode.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlserver {
namespace {

using namespace detail::odbc;

constexpr std::string_view no_transaction =
    "TG005 no transaction is open on this connection, and a check in autocommit guards nothing: "
    "BEGIN TRANSACTION, or SQL_ATTR_AUTOCOMMIT "
    "off";

// Throws the error of a call that failed on the borrowed connection.
[[noreturn]] void fail(SQLSMALLINT type, SQLHANDLE handle, SQLHDBC connection) {
  auto found = diagnostics_of(type, handle);
  SQLUINTEGER dead = SQL_CD_FALSE;
  const bool gone = SQL_SUCCEEDED(SQLGetConnectAttrW(connection, SQL_ATTR_CONNECTION_DEAD, &dead,
                                                     SQL_IS_UINTEGER, nullptr)) &&
                    dead == SQL_CD_TRUE;
  throw OdbcError(std::move(found), gone);
}

// Which layer 1 the connection leads to, by the database's name as the driver reports it.
Family family_behind(SQLHDBC connection) {
  std::array<SQLWCHAR, 128> name{};
  SQLSMALLINT bytes = 0;
  const auto code = SQLGetInfoW(connection, SQL_DBMS_NAME, name.data(),
                                static_cast<SQLSMALLINT>(sizeof name), &bytes);
  if (code == SQL_INVALID_HANDLE) throw InvalidInput("TG005 this is not an ODBC connection");
  if (!SQL_SUCCEEDED(code)) fail(SQL_HANDLE_DBC, connection, connection);
  std::string dbms;
  for (std::size_t at = 0;
       at < std::min(name.size() - 1, static_cast<std::size_t>(bytes) / sizeof(SQLWCHAR)); ++at)
    dbms += name[at] < 128 ? static_cast<char>(name[at]) : '?';
  for (const Family family : {Family::sqlserver, Family::postgresql}) {
    if (dbms.starts_with(dbms_name_of(family))) return family;
  }
  throw InvalidInput(
      fmt::format("TG005 this ODBC connection leads to {}: the check is for SQL Server, and for "
                  "PostgreSQL through odbc-postgresql",
                  dbms.empty() ? "a database without a name" : dbms));
}

bool in_autocommit(SQLHDBC connection) {
  SQLUINTEGER mode = SQL_AUTOCOMMIT_ON;
  return !SQL_SUCCEEDED(SQLGetConnectAttrW(connection, SQL_ATTR_AUTOCOMMIT, &mode, SQL_IS_UINTEGER,
                                           nullptr)) ||
         mode == SQL_AUTOCOMMIT_ON;
}

// Runs the check with its two parameters and returns its number; none for NULL. It reads all
// results, because an error may follow the row.
std::optional<std::int64_t> run(SQLHDBC connection, const Marked& text, const Scope& scope,
                                Term term) {
  const Handle own(SQL_HANDLE_STMT, connection);
  const SQLHSTMT statement = own.get();
  const auto need = [&](SQLRETURN code) {
    if (!SQL_SUCCEEDED(code)) fail(SQL_HANDLE_STMT, statement, connection);
  };
  const auto set = [&](SQLINTEGER attribute, std::uintptr_t value) {
    SQLSetStmtAttrW(statement, attribute, reinterpret_cast<SQLPOINTER>(value), SQL_IS_UINTEGER);
  };
  // Overrides the connection's defaults: no escape sequences, a synchronous call, and no limit on
  // rows.
  set(SQL_ATTR_NOSCAN, SQL_NOSCAN_ON);
  set(SQL_ATTR_ASYNC_ENABLE, SQL_ASYNC_ENABLE_OFF);
  set(SQL_ATTR_MAX_ROWS, 0);

  std::u16string sql = utf16_of(text.text), name = utf16_of(scope.name());
  SQLBIGINT number = term.value();
  SQLLEN name_bytes = static_cast<SQLLEN>(name.size() * sizeof(char16_t)),
         number_bytes = sizeof number;
  need(SQLPrepareW(statement, reinterpret_cast<SQLWCHAR*>(sql.data()),
                   static_cast<SQLINTEGER>(sql.size())));
  for (std::size_t place = 0; place < text.order.size(); ++place) {
    const auto at = static_cast<SQLUSMALLINT>(place + 1);
    need(text.order[place] == 0
             ? SQLBindParameter(statement, at, SQL_PARAM_INPUT, SQL_C_WCHAR, SQL_WVARCHAR,
                                name.size(), 0, name.data(), name_bytes, &name_bytes)
             : SQLBindParameter(statement, at, SQL_PARAM_INPUT, SQL_C_SBIGINT, SQL_BIGINT, 19, 0,
                                &number, number_bytes, &number_bytes));
  }
  SQLRETURN code = SQLExecute(statement);
  std::optional<std::int64_t> fence;
  for (int results = 0; code != SQL_NO_DATA && results < 100; ++results) {
    need(code);
    SQLSMALLINT columns = 0;
    need(SQLNumResultCols(statement, &columns));
    while (columns > 0) {
      code = SQLFetch(statement);
      if (code == SQL_NO_DATA) break;
      need(code);
      SQLBIGINT value = 0;
      SQLLEN indicator = SQL_NULL_DATA;
      need(SQLGetData(statement, 1, SQL_C_SBIGINT, &value, sizeof value, &indicator));
      if (indicator != SQL_NULL_DATA) fence = value;
    }
    code = SQLMoreResults(statement);
  }
  return fence;
}

}  // namespace

Term check(SQLHDBC connection, const Scope& scope, Term term, std::string_view schema) {
  if (connection == SQL_NULL_HDBC) throw InvalidInput("TG005 this is not an ODBC connection");
  detail::need_schema_name(schema);
  Family family = Family::sqlserver;
  try {
    family = family_behind(connection);
    // With autocommit off, odbc-postgresql begins a transaction by itself before the first
    // statement. It does not report one that was begun by a BEGIN.
    if (family == Family::postgresql && in_autocommit(connection))
      throw InvalidInput(std::string(no_transaction));
    const Dialect& dialect = dialect_of(family);
    const std::string_view text = family == Family::sqlserver
                                      ? sql::sqlserver::check_in_transaction
                                      : dialect.calls()[sql::Call::check_term];
    const auto fence =
        run(connection, marked(dialect.with_schema(text, schema), 2, family), scope, term);
    if (!fence) throw InvalidInput(std::string(no_transaction));
    return Term(*fence);
  } catch (const OdbcError& failure) { throw_for(failure, Phase::before_commit, family); }
}

}  // namespace sqlserver
}  // namespace v0
}  // namespace termgate
