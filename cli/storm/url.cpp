// storm: edits URLs.
#include <fmt/format.h>

#include "storm/sql.hpp"

namespace termgate::cli::storm {

bool is_sqlite(const std::string& url) { return url.starts_with("sqlite:"); }

std::string through(const std::string& url, int port) {
#ifdef TERMGATE_WITH_ODBC
  if (is_odbc(url)) return through_odbc(url, port);
#endif
  // If a parameter occurs twice, libpq uses the last one.
  return url +
         fmt::format(
             "&host=127.0.0.1&hostaddr=127.0.0.1&port={}&sslmode=disable&gssencmode=disable", port);
}

std::string named(const std::string& url, const std::string& application_name) {
  if (is_sqlite(url)) return url;
#ifdef TERMGATE_WITH_ODBC
  if (is_odbc(url)) return named_odbc(url, application_name);
#endif
  // A '?' before the '@' belongs to the password. If a parameter occurs twice, libpq uses the last
  // one.
  const auto at = url.find('@');
  const bool has = url.find('?', at == std::string::npos ? 0 : at) != std::string::npos;
  return url + (has ? "&" : "?") + "application_name=" + application_name;
}

}  // namespace termgate::cli::storm
