// The backend that the suite runs against, named by TERMGATE_CONFORMANCE.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <termgate/database.hpp>

namespace conformance {

// A database of this process's own with layer 1 installed; the same one each time. On SQLite in memory a
// second call of open() shares nothing, so tests use shared() unless they need a database to themselves.
termgate::Database& shared();

// A fresh, empty database. Lives until the process ends.
std::string fresh_url();

std::string backend_name();
bool is_postgresql();
bool is_sqlserver();
bool survives_reopening();  // false for a database in memory

// A scope or stream name that no other test uses.
std::string unique(const std::string& what);

// Layer 1's own table, as this backend names it.
std::string own_table(const std::string& name);

// A statement of the tests in this backend's words: T-SQL has other names for text columns and for savepoints.
std::string in_dialect(std::string statement);

// Runs a statement past Termgate, as somebody with a client of their own would. Not for a database in memory.
void run_outside(const std::string& url, const std::string& statement);

// A session of somebody with a client of their own, in a fresh database with layer 1 (SQLite: with its functions). One thread.
class Outside {
 public:
  Outside();
  ~Outside();
  // The first row's values, NULL as ""; none: no row. Throws std::runtime_error with what the database said.
  std::vector<std::string> run(const std::string& statement);

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace conformance
