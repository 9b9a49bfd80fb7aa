// storm: a plain connection, as a program without Termgate has one: for the naive boundaries, for plain SQL under `protect`, and for the
// faults (frozen and prepared transactions, cut sessions).
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

// One thread at a time. Values are `$1` … and go as text.
class Sql {
 public:
  virtual ~Sql() = default;
  // One statement. Throws Conflict, StaleTerm and the other TG types by what the database said, DatabaseError for the rest: the transaction
  // is aborted. A connection that was lost is OutcomeUnknown where the statement was a COMMIT of any kind, and else Unavailable; it stays
  // lost.
  virtual Table run(const std::string& statement, const std::vector<std::string>& values = {}) = 0;
  // Statements in one text, by the simple protocol; PostgreSQL only. Where they end with COMMIT and the connection was lost,
  // OutcomeUnknown.
  virtual void run_text(const std::string& text) = 0;
  virtual bool lost() const = 0;
  // ROLLBACK, if there is anything to roll back; never throws.
  virtual void roll_back() noexcept = 0;
};

std::unique_ptr<Sql> connect(const std::string& url);  // throws Unavailable
std::unique_ptr<Sql> connect_postgres(const std::string& url);
std::unique_ptr<Sql> connect_sqlite(const std::string& url);
std::unique_ptr<Sql> connect_odbc(const std::string& url);
// The URL with this application_name, whatever it said before; an SQLite URL as it is.
std::string named(const std::string& url, const std::string& application_name);
bool is_sqlite(const std::string& url);
bool is_odbc(const std::string& url);  // sqlserver:// too
// The URL by way of a port of this machine, in plain text. The URL has parameters already (named()).
std::string through(const std::string& url, int port);

// What is behind a URL, and how it is spoken to. The storm's statements are PostgreSQL's.
enum class Engine { postgresql, sqlite, sqlserver };
Engine engine_of(const std::string& url);  // throws InvalidInput for a connection string that says nothing of it
std::string_view name_of(Engine engine);
std::string spoken(Engine engine, const std::string& statement);
std::string check_statement(Engine engine, const std::string& schema);  // $1 scope, $2 term
bool on_sqlserver(std::string_view fault, bool proxies);
// Other sessions of that name, `most` of them, in no order; and their end.
std::vector<std::string> sessions_of(Engine engine, Sql& sql, const std::string& application, int most);
void end_sessions(Engine engine, Sql& sql, const std::vector<std::string>& those);

// Through ODBC.
Engine engine_of_odbc(const std::string& url);
std::string named_odbc(const std::string& url, const std::string& application_name);
std::string through_odbc(const std::string& url, int port);
// PostgreSQL: its sessions find and make tables in `schema`, a plain name. After named_odbc().
std::string placed_odbc(const std::string& url, const std::string& schema);
// A sqlserver:// or odbc: URL as it was written, by way of a port of this machine.
std::string beside(const std::string& url, int port);
// Host and port. Throws Error where the connection is encrypted, or the string does not say.
std::pair<std::string, std::string> place_of_odbc(const std::string& url);
// Whether a SQL Server takes REPEATABLE READ and SERIALIZABLE; Babelfish, as it comes, does not.
bool has_high_levels(const std::string& url);

}  // namespace termgate::cli::storm
