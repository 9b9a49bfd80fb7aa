// Opens the ODBC driver: SQL Server, or PostgreSQL through its ODBC driver. Internal; no ODBC type
// appears here.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include <termgate/detail/driver.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

struct OdbcOptions {
  std::string schema;
  int connections_max;
  std::chrono::milliseconds check_wait;   // how long a call waits for a free connection
  std::chrono::milliseconds answer_wait;  // rounded up to whole seconds; 0: no limit for an answer
};

// `url`: sqlserver://USER:PASSWORD@HOST:PORT/DB?driver=NAME or odbc:CONNECTION-STRING. Connects at
// first use. Throws InvalidInput if the text is malformed, or if Termgate has no layer 1 for the
// driver's database; no message contains the text.
std::unique_ptr<Driver> open_odbc(std::string_view url, OdbcOptions options);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
