#include <termgate/net/options.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include <termgate/tds/text.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/hex.hpp>

namespace termgate::net {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string percent_decoded(std::string_view text) {
  auto plain = text::percent_decoded(text);
  if (!plain || plain->find('\0') != std::string::npos)
    throw std::invalid_argument("--backend: a % in it is not followed by two hexadecimal digits");
  return *std::move(plain);
}

std::uint16_t port_of(std::string_view text) {
  unsigned value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value == 0 || value > 65535)
    throw std::invalid_argument("--backend: a port is a number from 1 to 65535");
  return static_cast<std::uint16_t>(value);
}

SslMode ssl_mode_of(std::string_view text) {
  if (text == "disable") return SslMode::disable;
  if (text == "prefer") return SslMode::prefer;
  if (text == "require") return SslMode::require;
  if (text == "verify-ca") return SslMode::verify_ca;
  if (text == "verify-full") return SslMode::verify_full;
  throw std::invalid_argument(fmt::format(
      "--backend: sslmode={} must be one of disable, prefer, require, verify-ca, verify-full",
      text));
}

// The same name as libpq's.
constexpr std::string_view oldest_tls = "ssl_min_protocol_version";
TlsVersion oldest_tls_of(std::string_view text) {
  if (const auto version = http::tls_version_of(text)) return *version;
  throw std::invalid_argument(fmt::format(
      "--backend: {}={} must be one of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3", oldest_tls, text));
}

constexpr std::string_view sqlserver_scheme = "sqlserver://";

// USER:PASSWORD@HOST:PORT/DB?…. After the ?, only what concerns the TLS of relayed connections is
// parsed; the rest is for the driver.
Backend parse_sqlserver(std::string_view rest) {
  constexpr std::uint16_t default_port = 1433;
  Backend backend;
  backend.protocol = Backend::Protocol::tds;
  const auto question = rest.find('?');
  const std::string_view parameters =
      question == std::string_view::npos ? std::string_view{} : rest.substr(question + 1);
  rest = rest.substr(0, question);
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos || slash + 1 == rest.size()) {
    throw std::invalid_argument(
        "--backend: sqlserver://user:password@host:port/DATABASE: which database holds layer 1?");
  }
  backend.database = percent_decoded(rest.substr(slash + 1));
  std::string_view address = rest.substr(0, slash);
  if (const auto at = address.rfind('@'); at != std::string_view::npos)
    address.remove_prefix(at + 1);
  Backend::Host host;
  host.port = default_port;
  std::string_view port;
  if (address.starts_with('[')) {
    const auto close = address.find(']');
    if (close == std::string_view::npos)
      throw std::invalid_argument("--backend: a [ without its ]");
    if (close + 1 < address.size() && address[close + 1] != ':')
      throw std::invalid_argument("--backend: after ] comes :PORT");
    if (close + 1 < address.size()) port = address.substr(close + 2);
    address = address.substr(1, close - 1);
  } else if (const auto colon = address.find(':'); colon != std::string_view::npos) {
    port = address.substr(colon + 1);
    address = address.substr(0, colon);
  }
  if (address.find('\\') != std::string_view::npos ||
      address.find("%5C") != std::string_view::npos) {
    throw std::invalid_argument(
        "--backend: a named instance needs its port: sqlserver://user:password@host:port/database");
  }
  if (!port.empty()) host.port = port_of(port);
  host.name = host.address = address.empty() ? "localhost" : percent_decoded(address);
  backend.hosts.push_back(std::move(host));
  std::optional<SslMode> chosen;
  for (const std::string_view parameter :
       parameters.empty() ? std::vector<std::string_view>{} : split(parameters, '&')) {
    const auto equals = parameter.find('=');
    const std::string value =
        equals == std::string_view::npos ? "" : percent_decoded(parameter.substr(equals + 1));
    const std::string name = percent_decoded(parameter.substr(0, equals));
    if (name == "sslmode") backend.ssl_mode = *(chosen = ssl_mode_of(value));
    if (name == "sslrootcert") backend.ssl_root_certificate = value;
    if (name == oldest_tls) backend.ssl_oldest = oldest_tls_of(value);
    // Written as the drivers write it, because the driver of the proxy's own connection uses it
    // too.
    if (text::same(name, "encrypt")) backend.tds_strict = text::same(value, "strict");
  }
  if (backend.tds_strict) {
    if (chosen.value_or(SslMode::verify_full) < SslMode::verify_ca)
      throw std::invalid_argument(
          "--backend: Encrypt=strict verifies the server's certificate: sslmode=verify-full "
          "(default) or verify-ca");
    backend.ssl_mode = chosen.value_or(SslMode::verify_full);
    if (backend.ssl_root_certificate.empty()) backend.ssl_root_certificate = "system";
  }
  if ((backend.ssl_mode == SslMode::verify_ca || backend.ssl_mode == SslMode::verify_full) &&
      backend.ssl_root_certificate.empty())
    throw std::invalid_argument(
        "--backend: sslmode=verify-… needs sslrootcert=FILE, or sslrootcert=system");
  return backend;
}

}  // namespace

std::string own_url(std::string_view url) {
  const auto question = url.find('?');
  if (!url.starts_with(sqlserver_scheme) || question == std::string_view::npos)
    return std::string(url);
  std::string kept;
  for (const std::string_view parameter : split(url.substr(question + 1), '&')) {
    const std::string name = percent_decoded(parameter.substr(0, parameter.find('=')));
    if (name == "sslmode" || name == "sslrootcert" || name == oldest_tls) continue;
    kept += kept.empty() ? '?' : '&';
    kept += parameter;
  }
  return std::string(url.substr(0, question)) + kept;
}

namespace {

// Options in the URL, or in libpq's environment, that libpq would apply to the proxy's own
// connection only. Clients would then reach another server, or the same one under weaker rules.
struct OwnOnly {
  const char* name;
  const char* variable;
  std::string_view harmless;  // values without effect, each between blanks
};
constexpr std::array<OwnOnly, 11> own_only{
    {{"service", "PGSERVICE", ""},
     {"servicefile", nullptr, ""},
     {"requirepeer", "PGREQUIREPEER", ""},
     {"requiressl", "PGREQUIRESSL", " 0 "},
     {"require_auth", "PGREQUIREAUTH", ""},
     {"channel_binding", "PGCHANNELBINDING", " disable prefer "},
     {"gssencmode", "PGGSSENCMODE", " disable prefer "},
     {"sslcrl", "PGSSLCRL", ""},
     {"sslcrldir", "PGSSLCRLDIR", ""},
     {"sslnegotiation", "PGSSLNEGOTIATION", " postgres "},
     {"ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", ""}}};

void refuse_what_clients_would_miss(const std::map<std::string, std::string>& given) {
  for (const OwnOnly& one : own_only) {
    const auto found = given.find(one.name);
    const char* environment = one.variable != nullptr ? std::getenv(one.variable) : nullptr;
    const std::string value = found != given.end()     ? found->second
                              : environment != nullptr ? environment
                                                       : "";
    if (value.empty() || one.harmless.find(" " + value + " ") != std::string_view::npos) continue;
    const std::string what =
        found != given.end() ? std::string(one.name) : std::string(one.variable);
    throw std::invalid_argument(
        fmt::format("--backend: {}={} would hold for the proxy's own connection and not for its "
                    "clients'; leave it out, and write host, port and "
                    "sslmode into the URL",
                    what, value));
  }
}

}  // namespace

// Long: one URL, read from its beginning to its end.
Backend parse_backend(std::string_view url) {
  if (url.starts_with(sqlserver_scheme))
    return parse_sqlserver(url.substr(sqlserver_scheme.size()));
  Backend backend;
  for (std::string_view scheme : {"postgresql://", "postgres://"}) {
    if (!url.starts_with(scheme)) continue;
    std::string_view rest = url.substr(scheme.size());
    const auto question = rest.find('?');
    const std::string_view parameters =
        question == std::string_view::npos ? std::string_view{} : rest.substr(question + 1);
    rest = rest.substr(0, question);
    std::string_view authority = rest.substr(0, rest.find('/'));
    if (const auto at = authority.rfind('@'); at != std::string_view::npos)
      authority.remove_prefix(at + 1);

    std::vector<std::string> names;
    std::vector<std::string> ports;
    if (!authority.empty()) {
      for (std::string_view part : split(authority, ',')) {
        std::string_view port;
        if (part.starts_with('[')) {
          const auto close = part.find(']');
          if (close == std::string_view::npos)
            throw std::invalid_argument("--backend: a [ without its ]");
          if (close + 1 < part.size() && part[close + 1] != ':')
            throw std::invalid_argument("--backend: after ] comes :PORT");
          port = close + 1 < part.size() ? part.substr(close + 2) : std::string_view{};
          part = part.substr(1, close - 1);
        } else if (const auto colon = part.find(':'); colon != std::string_view::npos) {
          port = part.substr(colon + 1);
          if (port.find(':') != std::string_view::npos)
            throw std::invalid_argument("--backend: put an IPv6 address in brackets, [::1]:5432");
          part = part.substr(0, colon);
        }
        names.push_back(percent_decoded(part));
        ports.emplace_back(port);
      }
    }
    std::vector<std::string> addresses;
    std::map<std::string, std::string> given;
    for (std::string_view parameter :
         parameters.empty() ? std::vector<std::string_view>{} : split(parameters, '&')) {
      const auto equals = parameter.find('=');
      given[percent_decoded(parameter.substr(0, equals))] =
          equals == std::string_view::npos ? "" : percent_decoded(parameter.substr(equals + 1));
    }
    refuse_what_clients_would_miss(given);
    // As in libpq, the environment supplies what the URL leaves out.
    const auto of = [&](const char* name, const char* variable) -> std::optional<std::string> {
      const auto found = given.find(name);
      if (found != given.end()) return found->second;
      const char* value = std::getenv(variable);
      return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
    };
    const auto list = [](const std::string& value) {
      std::vector<std::string> all;
      for (std::string_view part : split(value, ',')) all.emplace_back(part);
      return all;
    };
    if (given.contains("host") || names.empty()) {
      if (const auto value = of("host", "PGHOST")) names = list(*value);
    }
    if (const auto value = of("hostaddr", "PGHOSTADDR")) addresses = list(*value);
    const bool no_port = std::all_of(ports.begin(), ports.end(),
                                     [](const std::string& port) { return port.empty(); });
    if (given.contains("port") || no_port) {
      if (const auto value = of("port", "PGPORT")) ports = list(*value);
    }
    if (const auto value = of("sslmode", "PGSSLMODE")) backend.ssl_mode = ssl_mode_of(*value);
    backend.ssl_root_certificate = of("sslrootcert", "PGSSLROOTCERT").value_or("");
    backend.ssl_certificate = of("sslcert", "PGSSLCERT").value_or("");
    backend.ssl_key = of("sslkey", "PGSSLKEY").value_or("");
    if (const auto value = of(oldest_tls.data(), "PGSSLMINPROTOCOLVERSION"))
      backend.ssl_oldest = oldest_tls_of(*value);
    backend.ssl_sni = of("sslsni", "PGSSLSNI").value_or("1") != "0";
    backend.follows =
        of("target_session_attrs", "PGTARGETSESSIONATTRS").value_or("any") != "any" ||
        of("load_balance_hosts", "PGLOADBALANCEHOSTS").value_or("disable") != "disable";
    const auto without_name = [](const std::string& name) { return name.empty(); };
    if (addresses.empty() &&
        (names.empty() || std::any_of(names.begin(), names.end(), without_name)))
      throw std::invalid_argument(
          "--backend: which host? postgresql://user@HOST:PORT/dbname, ?host=/run/postgresql, or "
          "PGHOST");
    const std::size_t count = std::max<std::size_t>(1, std::max(names.size(), addresses.size()));
    if ((!names.empty() && names.size() != count) ||
        (!addresses.empty() && addresses.size() != count) ||
        (ports.size() > 1 && ports.size() != count))
      throw std::invalid_argument(
          "--backend: give as many addresses as hosts, and as many ports or one");
    for (std::size_t i = 0; i < count; ++i) {
      Backend::Host host;
      host.name = i < names.size() ? names[i] : "";
      const std::string port = ports.empty() ? "" : ports.size() == 1 ? ports[0] : ports[i];
      if (!port.empty()) host.port = port_of(port);
      host.address = i < addresses.size() ? addresses[i] : host.name;
      if (host.address.starts_with('/')) {
        host.path = fmt::format("{}/.s.PGSQL.{}", host.address, host.port);
        if (!Endpoint::unix_socket(host.path))
          throw std::invalid_argument("--backend: the socket's path has more than 107 bytes");
      }
      backend.hosts.push_back(std::move(host));
    }
    if ((backend.ssl_mode == SslMode::verify_ca || backend.ssl_mode == SslMode::verify_full) &&
        backend.ssl_root_certificate.empty())
      throw std::invalid_argument(
          "--backend: sslmode=verify-… needs sslrootcert=FILE, or sslrootcert=system");
    return backend;
  }
  throw std::invalid_argument(
      "--backend: write postgresql://user@host:port/dbname or "
      "sqlserver://user:password@host:port/database");
}

}  // namespace termgate::net
