// storm: a plain connection, like that of a program without Termgate. The naive boundaries use it,
// plain SQL under `protect`, and the faults (frozen and prepared transactions, cut sessions).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace termgate::cli::storm {

struct Table {
  std::vector<std::vector<std::string>> rows;  // NULL is ""
  std::int64_t affected = 0;
};

// A connection. One thread at a time. Values replace `$1` … and are sent as text.
class Sql {
 public:
  virtual ~Sql() = default;
  // Runs one statement. Throws the type that belongs to the error's TG code, Conflict for a
  // serialization failure, a deadlock or a busy file, otherwise DatabaseError; the transaction is
  // then aborted. If the connection is lost, throws OutcomeUnknown for any kind of COMMIT and
  // Unavailable for the rest, and the connection stays lost.
  virtual Table run(const std::string& statement, const std::vector<std::string>& values = {}) = 0;
  // Runs several statements in one text, by the simple protocol; PostgreSQL only, others throw
  // Error. Throws OutcomeUnknown if they end with COMMIT and the connection is lost.
  virtual void run_text(const std::string& text) = 0;
  virtual bool lost() const = 0;
  // Sends ROLLBACK if a transaction is open; never throws.
  virtual void roll_back() noexcept = 0;
};

std::unique_ptr<Sql> connect(const std::string& url);  // throws Unavailable
std::unique_ptr<Sql> connect_postgres(const std::string& url);
std::unique_ptr<Sql> connect_sqlite(const std::string& url);
std::unique_ptr<Sql> connect_odbc(const std::string& url);
// The URL with this application_name in place of its own; an SQLite URL is returned unchanged.
std::string named(const std::string& url, const std::string& application_name);
bool is_sqlite(const std::string& url);
bool is_odbc(const std::string& url);  // true for sqlserver:// too
// The URL with a port of this machine as its server, in plain text. The URL must already have
// parameters, as named() gives it.
std::string through(const std::string& url, int port);

// The kind of database that a URL leads to, and its dialect. The storm's statements are written for
// PostgreSQL; spoken() translates them.
enum class Engine { postgresql, sqlite, sqlserver };
// Throws InvalidInput if the connection string does not tell the kind.
Engine engine_of(const std::string& url);
std::string_view name_of(Engine engine);
std::string spoken(Engine engine, const std::string& statement);
std::string check_statement(Engine engine, const std::string& schema);  // $1 scope, $2 term
bool on_sqlserver(std::string_view fault, bool proxies);
// sessions_of() returns up to `most` other sessions with that application name, chosen at random;
// end_sessions() ends sessions.
std::vector<std::string> sessions_of(Engine engine, Sql& sql, const std::string& application,
                                     int most);
void end_sessions(Engine engine, Sql& sql, const std::vector<std::string>& those);

// The same for ODBC.
Engine engine_of_odbc(const std::string& url);
std::string named_odbc(const std::string& url, const std::string& application_name);
std::string through_odbc(const std::string& url, int port);
// PostgreSQL: sessions of the URL find and create tables in `schema`, a plain name. Call it after
// named_odbc().
std::string placed_odbc(const std::string& url, const std::string& schema);
// A sqlserver:// or odbc: URL with a port of this machine as its server; otherwise as it was
// written.
std::string beside(const std::string& url, int port);
// Host and port of the server. Throws Error if the connection is encrypted or the string has no
// server.
std::pair<std::string, std::string> place_of_odbc(const std::string& url);
// Whether the SQL Server supports REPEATABLE READ and SERIALIZABLE; Babelfish in its default
// configuration does not.
bool has_high_levels(const std::string& url);

}  // namespace termgate::cli::storm
