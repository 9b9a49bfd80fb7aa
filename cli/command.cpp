#include "command.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "secrets.hpp"

namespace termgate::cli {
namespace {

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> Arguments::maybe(const char* name) const {
  if (values_.count(name) == 0) return std::nullopt;
  return values_[name].as<std::string>();
}

std::string Arguments::text(const char* name) const {
  if (auto value = maybe(name)) return *value;
  throw UsageError(fmt::format("--{} is missing", name));
}

std::string Arguments::text_or(const char* name, std::string fallback) const {
  return maybe(name).value_or(std::move(fallback));
}

std::vector<std::string> Arguments::list(const char* name) const {
  if (values_.count(name) == 0) return {};
  return values_[name].as<std::vector<std::string>>();
}

std::int64_t Arguments::integer(const char* name, std::int64_t low, std::int64_t high) const {
  const std::string given = text(name);
  const auto value = parse_integer(given);
  if (!value || *value < low || *value > high)
    throw UsageError(
        fmt::format("--{} {}: must be a whole number from {} to {}", name, given, low, high));
  return *value;
}

std::int64_t Arguments::integer_or(const char* name, std::int64_t fallback, std::int64_t low,
                                   std::int64_t high) const {
  return maybe(name) ? integer(name, low, high) : fallback;
}

std::chrono::milliseconds Arguments::duration_or(const char* name,
                                                 std::chrono::milliseconds fallback) const {
  return maybe_duration(name).value_or(fallback);
}

std::optional<std::chrono::milliseconds> Arguments::maybe_duration(const char* name) const {
  const auto given = maybe(name);
  if (!given) return std::nullopt;
  return parse_duration(*given);
}

Term Arguments::term(const char* name) const {
  const std::string given = text(name);
  const auto value = parse_integer(given);
  if (!value)
    throw InvalidInput(
        fmt::format("TG005 malformed term \"{}\": a term is an integer from 1 to 2^62", given));
  return Term(*value);
}

std::string Arguments::written(const char* name) const {
  if (!has(name)) return {};
  const auto& value = values_[name].value();
  if (const auto* flag = boost::any_cast<bool>(&value)) return *flag ? "on" : "";
  if (const auto* all = boost::any_cast<std::vector<std::string>>(&value))
    return fmt::format("{}", fmt::join(*all, "\n"));
  return values_[name].as<std::string>();
}

std::string url_in_file(std::string_view option, const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw UsageError(
        fmt::format("--{} {}: cannot be read: {}", option, path, std::strerror(errno)));
  std::string url;
  errno = 0;
  if (!std::getline(file, url) && errno != 0)
    throw UsageError(
        fmt::format("--{} {}: cannot be read: {}", option, path, std::strerror(errno)));
  if (url.empty())
    throw UsageError(fmt::format("--{} {}: nothing in its first line", option, path));
  know_secrets_of(url);
  return url;
}

std::string place_of(std::string_view given) {
  if (given.starts_with("odbc:")) return "odbc";
  // Hide the password first: it may contain characters that end a host name.
  const std::string shown = without_passwords(std::string(given), {std::string(given)});
  std::string_view url = shown;
  url = url.substr(0, url.find('?'));
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos)
    return url.starts_with("sqlite:") ? std::string(url.substr(7)) : std::string("local");
  url = url.substr(scheme + 3);
  if (const auto at = url.rfind('@'); at != std::string_view::npos) url = url.substr(at + 1);
  return url.empty() ? "local" : std::string(url);
}

std::string Arguments::database_url() const {
  if (auto url = maybe("db")) return *url;
  if (auto path = maybe("db-file")) { return url_in_file("db-file", *path); }
  if (const char* url = std::getenv("TERMGATE_DB"); url != nullptr && *url != '\0') return url;
  throw UsageError(
      "which database? Give --db URL (sqlite:app.db, postgresql://user@host/dbname, sqlserver://…, "
      "odbc:…), --db-file FILE or TERMGATE_DB");
}

Database Arguments::open() const {
  OpenOptions options;
  options.schema = text_or("schema", options.schema);
  return Database::open(database_url(), options);
}

std::chrono::milliseconds parse_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t ms;
  };
  // "ms" comes before "m" and "s", so that the longest matching suffix is the unit.
  for (const Unit& unit : {Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000}, Unit{"h", 3'600'000},
                           Unit{"d", 86'400'000}}) {
    if (!text.ends_with(unit.name)) continue;
    const auto number = parse_integer(text.substr(0, text.size() - unit.name.size()));
    if (number && *number >= 0 && *number <= std::int64_t{100} * 366 * 86'400'000 / unit.ms)
      return std::chrono::milliseconds(*number * unit.ms);
    break;
  }
  throw UsageError(fmt::format("\"{}\" is not a duration: write 500ms, 10s, 5m, 2h or 1d", text));
}

std::string default_actor() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  for (const char* name : {"SUDO_USER", "USER", "LOGNAME"}) {
    if (const char* user = std::getenv(name); user != nullptr && *user != '\0')
      return fmt::format("{}@{}", user, host.data());
  }
  // cron and services set neither SUDO_USER nor USER.
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> names{};
  if (getpwuid_r(getuid(), &entry, names.data(), names.size(), &found) == 0 && found != nullptr)
    return fmt::format("{}@{}", found->pw_name, host.data());
  return fmt::format("uid{}@{}", getuid(), host.data());
}

}  // namespace termgate::cli
