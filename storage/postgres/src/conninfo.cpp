// Builds libpq's connection string from the user's URL: adds what is always set and defaults for
// what the user has not set, and refuses URLs whose password libpq would split.
#include "conninfo.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <termgate/error.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

// Where the URL's parameters begin, or npos. libpq's rule: a '?' before the '@' belongs to the
// password.
std::size_t parameters_at(std::string_view url) {
  const auto scheme = url.find("://");
  std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const auto mark = url.find_first_of("@/", start);
  if (mark != std::string_view::npos && url[mark] == '@') start = mark + 1;
  return url.find('?', start);
}

bool names(std::string_view parameters, std::string_view key) {
  while (!parameters.empty()) {
    const auto parameter = parameters.substr(0, parameters.find('&'));
    if (parameter.substr(0, parameter.find('=')) == key) return true;
    parameters.remove_prefix(parameter.size() < parameters.size() ? parameter.size() + 1
                                                                  : parameter.size());
  }
  return false;
}

// Whether libpq would split the password. It takes the first '@' for its end, and finds none after
// a '/': the rest of the password would become a host, a database's name or a parameter, and appear
// in an error.
bool password_is_cut(std::string_view url) {
  const auto scheme = url.find("://");
  const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
  const auto mark = url.find_first_of("@/", start);
  const auto host = mark != std::string_view::npos && url[mark] == '@' ? mark + 1 : start;
  const auto path = std::min(url.find_first_of("/?", host), url.size());
  const auto parameters = std::min(url.find('?', path), url.size());
  const auto colon = url.find(':', start);
  auto at = url.find('@', host);
  if (at < path) return true;
  if (at < parameters) return colon < at;
  // An @ in a parameter's value does not belong to the password.
  for (; at != std::string_view::npos; at = url.find('@', at + 1)) {
    const auto parameter = url.find_last_of("?&", at);
    if (colon < path && url.substr(parameter, at - parameter).find('=') == std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace

ConninfoEnvironment ConninfoEnvironment::of_process() noexcept {
  return {std::getenv("PGCONNECT_TIMEOUT") != nullptr, std::getenv("PGSERVICE") != nullptr};
}

// Throws InvalidInput if an @ is where libpq would misread it. The message does not show the URL: a
// part of a password may be in it.
std::string conninfo_of(std::string_view url, const ConninfoEnvironment& environment) {
  if (password_is_cut(url)) {
    throw InvalidInput(
        "TG005 malformed URL: there is an @ where none belongs. In a user's name or password write "
        "/ as %2F and @ as %40; in a "
        "database's name write @ as %40");
  }
  const auto mark = parameters_at(url);
  const std::string_view given =
      mark == std::string_view::npos ? std::string_view{} : url.substr(mark + 1);
  std::string conninfo(url);
  char separator = mark == std::string_view::npos ? '?' : '&';
  if (mark != std::string_view::npos && (given.empty() || given.back() == '&')) separator = '\0';
  const auto add = [&](std::string_view key, std::string_view value) {
    if (separator != '\0') conninfo += separator;
    conninfo.append(key).append("=").append(value);
    separator = '&';
  };
  // Scopes are UTF-8 everywhere; the application name helps readers of pg_stat_activity.
  add("client_encoding", "UTF8");
  add("fallback_application_name", "termgate");
  // A service file's settings have lower priority than the URL's, so nothing more is added if there
  // is one.
  if (environment.service || names(given, "service")) return conninfo;
  const std::pair<std::string_view, std::string_view> defaults[] = {
      {"connect_timeout", "10"}, {"keepalives_idle", "30"},     {"keepalives_interval", "10"},
      {"keepalives_count", "3"}, {"tcp_user_timeout", "60000"},
  };
  for (const auto& [key, value] : defaults) {
    if (names(given, key) || (key == "connect_timeout" && environment.connect_timeout)) continue;
    add(key, value);
  }
  return conninfo;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
