// Builds an ODBC connection string from a URL, and finds the maker of its driver. Every password in
// it is recorded as a secret, to be removed from messages.
#include <termgate/detail/odbc/connection_string.hpp>

#include <odbcinst.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/hex.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {
namespace {

using Attributes = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] void malformed(std::string_view why) {
  throw InvalidInput(fmt::format("TG005 malformed database URL: {}", why));
}

std::string decoded(std::string_view text, std::string_view part) {
  const auto plain = text::percent_decoded(text);
  if (!plain)
    malformed(fmt::format("the {} has a % that is not followed by two hexadecimal digits", part));
  return *plain;
}

const std::string* find(const Attributes& attributes, std::string_view key) {
  for (const auto& [name, value] : attributes) {
    if (text::lower(name) == key) return &value;
  }
  return nullptr;
}

// An entry of odbc.ini or odbcinst.ini; "" if there is none.
std::string ini_entry(const std::string& section, const char* entry, const char* file) {
  std::array<char, 1024> value{};
  const int length = SQLGetPrivateProfileString(section.c_str(), entry, "", value.data(),
                                                static_cast<int>(value.size()), file);
  return length > 0 ? std::string(value.data()) : std::string();
}

std::optional<Maker> maker_in(std::string_view name) {
  const std::string small = text::lower(name);
  const auto has = [&](std::string_view part) { return small.find(part) != std::string::npos; };
  if (has("freetds") || has("tdsodbc")) return Maker::freetds;
  if (has("msodbcsql") || has("sql server")) return Maker::microsoft;
  if (has("psqlodbc") || has("postgres")) return Maker::psqlodbc;
  if (has("sqlite")) return Maker::sqliteodbc;
  return std::nullopt;
}

// Looks first at the driver's library, because its name in the file may be anything.
std::optional<Maker> maker_of(const std::string& driver) {
  const std::string library = ini_entry(driver, "Driver", "odbcinst.ini");
  if (!library.empty()) {
    if (const auto maker = maker_in(library.substr(library.rfind('/') + 1))) return maker;
  }
  return maker_in(driver.substr(driver.find('/') == 0 ? driver.rfind('/') + 1 : 0));
}

// For sqlserver:// without a driver: the first of these that is installed.
std::string installed_sqlserver_driver() {
  for (const char* name :
       {"ODBC Driver 18 for SQL Server", "ODBC Driver 17 for SQL Server", "FreeTDS"}) {
    if (!ini_entry(name, "Driver", "odbcinst.ini").empty()) return name;
  }
  throw InvalidInput(
      "TG005 no ODBC driver for SQL Server is installed (looked for ODBC Driver 18 and 17 for SQL "
      "Server, and FreeTDS): install one, or "
      "name it with ?driver=NAME");
}

ConnectionString built(Attributes attributes, Maker maker) {
  // From the documentation of MARS: a transaction that a batch begins ends with that batch.
  if (const std::string* mars =
          maker == Maker::microsoft ? find(attributes, "mars_connection") : nullptr;
      mars != nullptr && text::lower(*mars) != "no") {
    throw InvalidInput(
        "TG005 MARS_Connection is refused: with MARS a transaction ends with the batch that began "
        "it");
  }
  for (const auto& [key, value] : attributes_of(defaults_of(maker))) {
    if (find(attributes, text::lower(key)) == nullptr) attributes.emplace_back(key, value);
  }
  ConnectionString result{{}, {}, maker};
  for (const auto& [key, value] : attributes) {
    const std::string quoted = quoted_value(key, value, maker);
    result.text += fmt::format("{}={};", key, quoted);
    const std::string name = text::lower(key);
    if (name == "pwd" || name == "password" || name.find("password") != std::string::npos ||
        name.ends_with("pwd")) {
      if (!value.empty()) result.secrets.push_back(value);
      if (quoted != value && !value.empty()) result.secrets.push_back(quoted);
    }
  }
  result.secrets.push_back(result.text);
  std::sort(result.secrets.begin(), result.secrets.end(),
            [](const auto& one, const auto& other) { return one.size() > other.size(); });
  return result;
}

ConnectionString of_sqlserver(std::string_view rest) {
  Attributes attributes;
  const auto question = rest.find('?');
  std::string_view address = rest.substr(0, question);
  std::string driver;
  Attributes further;
  if (question != std::string_view::npos) {
    for (std::string_view left = rest.substr(question + 1); !left.empty();) {
      const std::string_view pair = left.substr(0, left.find('&'));
      left = pair.size() == left.size() ? std::string_view{} : left.substr(pair.size() + 1);
      const auto equals = pair.find('=');
      if (equals == std::string_view::npos || equals == 0)
        malformed("what follows the ? is KEY=VALUE, joined by &");
      const std::string key = decoded(pair.substr(0, equals), "name of a key"),
                        value = decoded(pair.substr(equals + 1), "value of a key");
      if (key.find_first_of("=;{}[]\"'") != std::string::npos ||
          key.find('\0') != std::string::npos)
        malformed("a key has characters that no key has");
      if (text::lower(key) == "driver") driver = value;
      else further.emplace_back(key, value);
    }
  }
  // A password may contain @ and /, so the last @ ends it. A ? in it must be percent-encoded.
  const auto at = address.rfind('@');
  if (at == std::string_view::npos)
    malformed("it is sqlserver://USER:PASSWORD@HOST:PORT/DB?driver=NAME");
  const std::string_view login = address.substr(0, at);
  std::string_view place = address.substr(at + 1);
  const auto colon = login.find(':');
  const std::string user = decoded(login.substr(0, colon), "user");
  if (user.empty()) malformed("the user is missing");
  const auto slash = place.find('/');
  const std::string database = slash == std::string_view::npos
                                   ? std::string()
                                   : decoded(place.substr(slash + 1), "database");
  place = place.substr(0, slash);
  int port = 1433;
  std::string_view host = place;
  const auto bracket = place.starts_with('[') ? place.find(']') : std::string_view::npos;
  if (place.starts_with('[') && bracket == std::string_view::npos)
    malformed("the host has a [ without a ]");
  const auto port_at = place.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (port_at != std::string_view::npos) {
    const std::string_view digits = place.substr(port_at + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || port < 1 ||
        port > 65535)
      malformed("the port is a number from 1 to 65535");
    host = place.substr(0, port_at);
  }
  if (bracket != std::string_view::npos) host = host.substr(1, bracket - 1);
  const std::string server = decoded(host, "host");
  if (server.empty()) malformed("the host is missing");
  if (server.find('\\') != std::string::npos)
    malformed("a named instance needs its port: HOST:PORT");
  if (driver.empty()) driver = installed_sqlserver_driver();
  const auto maker = maker_of(driver);
  if (!maker)
    throw InvalidInput(
        "TG005 the driver is not an ODBC driver for SQL Server that Termgate knows: FreeTDS, or "
        "Microsoft's ODBC Driver 17 or 18");
  if (family_of(*maker) != Family::sqlserver)
    throw InvalidInput(
        "TG005 the driver is not one for SQL Server: use odbc: with a connection string");
  attributes.emplace_back("Driver", driver);
  if (*maker == Maker::microsoft) {
    attributes.emplace_back("Server", fmt::format("tcp:{},{}", server, port));
  } else {
    attributes.emplace_back("Server", server);
    attributes.emplace_back("Port", std::to_string(port));
  }
  if (!database.empty()) attributes.emplace_back("Database", database);
  attributes.emplace_back("UID", user);
  if (colon != std::string_view::npos)
    attributes.emplace_back("PWD", decoded(login.substr(colon + 1), "password"));
  for (auto& each : further) attributes.push_back(std::move(each));
  return built(std::move(attributes), *maker);
}

ConnectionString of_odbc(std::string_view text) {
  Attributes attributes = attributes_of(text);
  if (attributes.empty())
    malformed(
        "odbc: is followed by a connection string, such as Driver={ODBC Driver 18 for SQL "
        "Server};Server=…");
  std::optional<Maker> maker;
  if (const std::string* driver = find(attributes, "driver")) {
    maker = maker_of(*driver);
    if (!maker)
      throw InvalidInput(
          "TG005 the driver of the connection string is not one that Termgate knows: Microsoft's "
          "ODBC Driver 17 or 18, FreeTDS, psqlodbc");
  } else if (const std::string* source = find(attributes, "dsn")) {
    const std::string behind = ini_entry(*source, "Driver", "odbc.ini");
    if (behind.empty())
      throw InvalidInput("TG005 the data source (DSN) of the connection string is not in odbc.ini");
    maker = maker_of(behind);
    if (!maker)
      throw InvalidInput(
          "TG005 the driver of this data source is not one that Termgate knows: Microsoft's ODBC "
          "Driver 17 or 18, FreeTDS, psqlodbc");
  } else {
    malformed("the connection string names neither a Driver nor a DSN");
  }
  return built(std::move(attributes), *maker);
}

}  // namespace

Attributes attributes_of(std::string_view text) {
  Attributes attributes;
  const auto skip_blanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  };
  for (skip_blanks(); !text.empty(); skip_blanks()) {
    if (text.front() == ';') {
      text.remove_prefix(1);
      continue;
    }
    const auto equals = text.find('=');
    const auto semicolon = text.find(';');
    if (equals == std::string_view::npos || semicolon < equals)
      malformed("a part of the connection string has no =");
    std::string_view key = text.substr(0, equals);
    key = key.substr(0, key.find_last_not_of(" \t\r\n") + 1);
    if (key.empty()) malformed("a part of the connection string has no key before its =");
    if (key.find_first_of("{}[]\"'") != std::string_view::npos ||
        key.find('\0') != std::string_view::npos)
      malformed("a key of the connection string has characters that no key has");
    text.remove_prefix(equals + 1);
    std::string value;
    skip_blanks();
    if (text.starts_with('{')) {
      std::size_t at = 1;
      for (;; ++at) {
        if (at >= text.size())
          malformed(fmt::format("the value of {} has a brace that does not end", key));
        if (text[at] == '}' && at + 1 < text.size() && text[at + 1] == '}') ++at;
        else if (text[at] == '}') break;
        value += text[at];
      }
      text.remove_prefix(at + 1);
      skip_blanks();
      if (!text.empty() && text.front() != ';')
        malformed(fmt::format(
            "there is text after the closing brace of {}; a }} in a value is written twice", key));
    } else {
      const auto end = std::min(text.find(';'), text.size());
      std::string_view plain = text.substr(0, end);
      plain = plain.substr(0, plain.find_last_not_of(" \t\r\n") + 1);
      value = plain;
      text.remove_prefix(end);
    }
    // ODBC implementations use the first of two values of a key, but two are more likely a mistake.
    if (find(attributes, text::lower(key)) != nullptr)
      malformed(fmt::format("the connection string has {} twice", key));
    attributes.emplace_back(key, std::move(value));
  }
  return attributes;
}

std::string quoted_value(std::string_view key, std::string_view value, Maker maker) {
  if (value.find('\0') != std::string_view::npos)
    malformed(fmt::format("the value of {} has a NUL", key));
  const bool plain = value.find_first_of("[]{}(),;?*=!@ \t\r\n") == std::string_view::npos;
  if (plain) return std::string(value);
  const bool needs = value.find_first_of(";{}") != std::string_view::npos || value.front() == ' ' ||
                     value.back() == ' ' || takes_braces_in_values(maker) ||
                     text::lower(key) == "driver";
  if (!needs) return std::string(value);
  if (value.find('}') != std::string_view::npos && !takes_braces_in_values(maker))
    malformed(fmt::format("the value of {} has a }}, which this ODBC driver cannot take", key));
  std::string quoted = "{";
  for (const char c : value) {
    quoted += c;
    if (c == '}') quoted += c;
  }
  return quoted + "}";
}

ConnectionString connection_string_of(std::string_view url) {
  constexpr std::string_view sqlserver = "sqlserver://", odbc = "odbc:";
  if (url.starts_with(sqlserver)) return of_sqlserver(url.substr(sqlserver.size()));
  if (url.starts_with(odbc)) return of_odbc(url.substr(odbc.size()));
  malformed("it starts with sqlserver:// or odbc:");
}

std::string redacted(std::string message, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    for (auto at = message.find(secret); at != std::string::npos;) {
      const auto end = at + secret.size();
      // A password of up to three characters is hidden where it is a word of its own, and not
      // inside other words.
      const bool word = (at == 0 || !text::is_letter_or_digit(message[at - 1])) &&
                        (end >= message.size() || !text::is_letter_or_digit(message[end]));
      if (secret.size() >= 4 || word) message.replace(at, secret.size(), "***");
      at = message.find(secret, at + 3);
    }
  }
  return message;
}

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
