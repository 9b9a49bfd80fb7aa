// What went wrong, as PostgreSQL would report it; and SQLite's words turned into that.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

namespace termgate::sqlite_server {

struct PgError {
  std::string sqlstate;
  std::string message;
  std::string detail = {};
  std::string hint = {};
  std::string table = {};
  std::string column = {};
  std::string constraint = {};
  std::size_t position = 0;  // characters from 1; 0: none
  bool fatal = false;        // the session ends with it
  bool file_moved = false;   // the file is not the one any more that was opened
};

class PgException : public std::exception {
 public:
  explicit PgException(PgError fault) : fault_(std::move(fault)) {}
  PgException(std::string_view sqlstate, std::string_view message) : fault_{std::string(sqlstate), std::string(message)} {}
  const char* what() const noexcept override { return fault_.message.c_str(); }
  const PgError& fault() const noexcept { return fault_; }

 private:
  PgError fault_;
};

// SQLite's extended result code and its message. Pure. A message that begins with a code of Termgate's is that.
//   UNIQUE, NOT NULL, CHECK, FOREIGN KEY   23505 23502 23514 23503, with table, column or constraint where SQLite names them
//   no such table, column, function …      42P01 42703 42883
//   BUSY_SNAPSHOT                          40001
//   BUSY, LOCKED                           TG006
//   INTERRUPT                              57014
//   READONLY                               25006
//   READONLY_DBMOVED                       57P01, fatal
//   AUTH                                   42501
//   FULL, IOERR, CORRUPT                   53100 58030 XX001
PgError error_of(int extended_code, std::string_view message);
// What storage/sqlite throws, by type, and everything else that is thrown.
PgError error_of(const std::exception& error);

}  // namespace termgate::sqlite_server
