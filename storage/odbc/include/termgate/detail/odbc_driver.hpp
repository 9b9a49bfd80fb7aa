// Opens the ODBC driver: SQL Server, or PostgreSQL through its ODBC driver. Internal; no ODBC type appears here.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include <termgate/detail/driver.hpp>

namespace termgate::inline v0::detail {

struct OdbcOptions {
  std::string schema;
  int connections_max;
  std::chrono::milliseconds check_wait;   // how long a call waits for a free connection
  std::chrono::milliseconds answer_wait;  // 0: an answer may take as long as it takes; whole seconds, rounded up
};

// `url`: sqlserver://USER:PASSWORD@HOST:PORT/DB?driver=NAME or odbc:CONNECTION-STRING. Connects on first use. Throws InvalidInput where the
// text is malformed or names a driver whose database Termgate has no layer 1 for; no message holds the text.
std::unique_ptr<Driver> open_odbc(std::string_view url, OdbcOptions options);

}  // namespace termgate::inline v0::detail
