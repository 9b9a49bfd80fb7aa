// Chooses the driver by the URL's scheme. A scheme whose driver this build lacks gives another
// error than an unknown one.
#include <termgate/detail/open.hpp>

#include <string>

#include <fmt/format.h>

#include <termgate/error.hpp>
#ifdef TERMGATE_WITH_ODBC
#include <termgate/detail/odbc_driver.hpp>
#endif
#ifdef TERMGATE_WITH_POSTGRES
#include <termgate/detail/postgres_driver.hpp>
#endif
#ifdef TERMGATE_WITH_SQLITE
#include <termgate/detail/sqlite_driver.hpp>
#endif
#ifdef TERMGATE_DRIVERS_ON_DEMAND
#include "driver_library.hpp"
#endif

namespace termgate {
inline namespace v0 {
namespace detail {

std::unique_ptr<Driver> open_driver(std::string_view url, const OpenOptions& options) {
  if (options.connections_max < 1)
    throw InvalidInput(fmt::format("TG005 OpenOptions::connections_max is {}: 1 at least",
                                   options.connections_max));
  const auto colon = url.find(':');
  const std::string_view scheme =
      colon == std::string_view::npos ? std::string_view{} : url.substr(0, colon);
#ifdef TERMGATE_WITH_SQLITE
  if (scheme == "sqlite")
    return open_sqlite(url.substr(colon + 1),
                       SqliteOptions{options.connections_max, options.check_wait});
#endif
#ifdef TERMGATE_WITH_POSTGRES
  if (scheme == "postgresql" || scheme == "postgres") {
    return open_postgres(
        std::string(url),
        PostgresOptions{options.schema, options.connections_max,
                        options.check_wait.value_or(std::chrono::milliseconds(5000)),
                        options.answer_wait});
  }
#endif
#ifdef TERMGATE_WITH_ODBC
  if (scheme == "odbc" || scheme == "sqlserver") {
    return open_odbc(url, OdbcOptions{options.schema, options.connections_max,
                                      options.check_wait.value_or(std::chrono::milliseconds(5000)),
                                      options.answer_wait});
  }
#endif
#ifdef TERMGATE_DRIVERS_ON_DEMAND
  if (scheme == "postgresql" || scheme == "postgres")
    return driver_library("postgresql").open(url, options);
  if (scheme == "odbc" || scheme == "sqlserver") return driver_library("odbc").open(url, options);
#endif
  if (scheme == "sqlite" || scheme == "postgresql" || scheme == "postgres" ||
      scheme == "sqlserver" || scheme == "odbc") {
    throw InvalidInput(
        fmt::format("TG005 this build of Termgate has no driver for {}: databases", scheme));
  }
  throw InvalidInput(
      "TG005 unknown kind of database URL: it starts with sqlite:, postgresql:, sqlserver: or "
      "odbc:, for example sqlite:app.db or "
      "postgresql://user@host/dbname");
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
