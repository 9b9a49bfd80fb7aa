// Opens the PostgreSQL driver. Internal; no libpqxx type appears here.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <termgate/detail/driver.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

struct PostgresOptions {
  std::string schema;
  int connections_max;
  std::chrono::milliseconds check_wait;   // how long a call waits for a free connection
  std::chrono::milliseconds answer_wait;  // 0: no limit for an answer
};

// `url` is libpq's URI. Connects on first use.
std::unique_ptr<Driver> open_postgres(std::string url, PostgresOptions options);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
