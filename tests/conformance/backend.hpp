// The backend that the suite runs against, named by TERMGATE_CONFORMANCE.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

namespace conformance {

// A database of this process's own with layer 1 installed; the same one each time. On SQLite in
// memory a second call of open() shares nothing, so tests use shared() unless they need a database
// to themselves.
termgate::Database& shared();

// A fresh, empty database. Lives until the process ends.
std::string fresh_url();

std::string backend_name();
bool is_postgresql();
bool is_managed();  // PostgreSQL as a service offers it: no superuser, no pg_signal_backend, no
                    // pg_control_system()
bool is_sqlserver();
bool survives_reopening();  // false for a database in memory

// Installs layer 1 in the database at `url`, which `db` has open. On a managed PostgreSQL its owner
// does that, and `db`, a plain role, gets level operate.
termgate::Operator::Installed install(termgate::Database& db, const std::string& url);

// The same database for the owner of layer 1; elsewhere than on a managed PostgreSQL there is one
// role only.
std::string owner_url(const std::string& url);

// The name of one of the roles of a managed PostgreSQL: "admin", "owner" (of layer 1), "app"; and
// its URL of the database at `url`.
std::string managed_role(const std::string& what);
std::string url_as(const std::string& url, const std::string& what);

// A scope or stream name that no other test uses.
std::string unique(const std::string& what);

// What most cases begin with.
struct Fresh {
  termgate::Database& db = shared();
  const termgate::Scope scope{unique("scope")};
  const termgate::Stream stream{unique("stream")};
};

// Layer 1's own table, as this backend names it.
std::string own_table(const std::string& name);

// A statement of the tests in this backend's words: T-SQL has other names for text columns and for
// savepoints.
std::string in_dialect(std::string statement);

// The same as one role of a managed PostgreSQL.
void run_as(const std::string& url, const std::string& what, const std::string& statement);

// Runs a statement past Termgate, as the owner of layer 1 with a client of their own would. Not for
// a database in memory.
void run_outside(const std::string& url, const std::string& statement);

// Before an uninstall that has to go through: where the server loads the guard, uninstall names its
// extension and changes nothing.
void drop_guard(const std::string& url);

// Whether the token is requested within `time`.
bool requested_within(const std::stop_token& token, std::chrono::milliseconds time);

// A session of somebody with a client of their own, in a fresh database with layer 1 (SQLite: with
// its functions). One thread.
class Outside {
 public:
  Outside();
  ~Outside();
  // The first row's values, NULL as ""; none: no row. Throws std::runtime_error with what the
  // database said.
  std::vector<std::string> run(const std::string& statement);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace conformance
