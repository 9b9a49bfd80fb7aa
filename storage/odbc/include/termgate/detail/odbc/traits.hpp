// The differences between databases and between their ODBC drivers, which the rest of this folder
// looks up here.
#pragma once

#include <cstddef>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

// The database, and so the dialect of SQL.
enum class Family { sqlserver, postgresql, sqlite };

// The ODBC driver.
enum class Maker { microsoft, freetds, psqlodbc, sqliteodbc };

constexpr Family family_of(Maker maker) {
  return maker == Maker::psqlodbc     ? Family::postgresql
         : maker == Maker::sqliteodbc ? Family::sqlite
                                      : Family::sqlserver;
}

constexpr std::string_view name_of(Family family) {
  return family == Family::sqlserver    ? "sqlserver"
         : family == Family::postgresql ? "postgresql"
                                        : "sqlite";
}

// The beginning of SQL_DBMS_NAME as the drivers report it.
constexpr std::string_view dbms_name_of(Family family) {
  return family == Family::sqlserver    ? "Microsoft SQL Server"
         : family == Family::postgresql ? "PostgreSQL"
                                        : "SQLite";
}

// Keywords that are added to a connection string that lacks them, as KEY=VALUE;… msodbcsql: a
// silent reconnect would lose the session's locks and its transaction, and MARS ends a transaction
// with its batch, so both are off whatever a data source says. psqlodbc: Protocol 7.4-0 does not
// add savepoints to a transaction, OptionalErrors adds an error's hint, and the others make it send
// values unchanged. SQLite: waits for a busy file.
constexpr std::string_view defaults_of(Maker maker) {
  switch (maker) {
    case Maker::microsoft: return "ConnectRetryCount=0;LongAsMax=yes;MARS_Connection=no";
    case Maker::freetds: return "TDS_Version=7.4;ClientCharset=UTF-8";
    case Maker::psqlodbc:
      return "Protocol=7.4-0;UseServerSidePrepare=1;BoolsAsChar=0;ByteaAsLongVarBinary=1;"
             "LFConversion=0;UseDeclareFetch=0;UpdatableCursors="
             "0;"
             "TrueIsMinus1=0;OptionalErrors=1;TextAsLongVarchar=1;UnknownsAsLongVarchar=1";
    case Maker::sqliteodbc: return "Timeout=5000;BigInt=1";
  }
  return {};
}

// Whether a value in braces may contain a closing brace, which is doubled.
constexpr bool takes_braces_in_values(Maker maker) {
  return maker == Maker::microsoft || maker == Maker::freetds;
}

// The longest value that is sent as an ordinary one; longer values are sent as a long type,
// streamed. SQL Server's limits are 8,000 bytes and 4,000 UTF-16 units.
constexpr std::size_t short_bytes_max = 8000;
constexpr std::size_t short_units_max = 4000;

// libsqliteodbc 0.99 gives each row of an array of bytes the length of the row before it.
constexpr bool takes_arrays_of_bytes(Maker maker) { return maker != Maker::sqliteodbc; }

// A parameter of varbinary(max): msodbcsql takes it as SQL_VARBINARY of size 0, FreeTDS as
// SQL_LONGVARBINARY.
constexpr bool long_is_size_zero(Maker maker) { return maker == Maker::microsoft; }

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
