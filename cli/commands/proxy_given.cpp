#include "commands/proxy_given.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "secrets.hpp"

namespace po = boost::program_options;

namespace termgate::cli {

Given::Given(const Arguments& line) : line_(line) {
  const auto path = line.maybe("config");
  if (!path) return;
  std::ifstream file(*path);
  if (!file)
    throw UsageError(fmt::format("--config {}: cannot be read: {}", *path, std::strerror(errno)));
  po::options_description known;
  proxy_options(known);
  po::variables_map values;
  try {
    po::store(po::parse_config_file(file, known), values);
  } catch (const po::unknown_option& unknown) {
    throw UsageError(
        fmt::format("--config {}: there is no option {}", *path, unknown.get_option_name()));
  } catch (const po::error&) {
    // Boost's own message quotes the line, which may contain a password.
    throw UsageError(
        fmt::format("--config {}: every line is `name = value`, `# comment` or empty, and only "
                    "lists may come twice",
                    *path));
  }
  file_.emplace(std::move(values), line.program());
}

std::string backend_url(const Given& given) {
  if (const auto url = given.maybe("backend")) {
    know_secrets_of(*url);
    return *url;
  }
  if (const auto path = given.maybe("backend-file")) return url_in_file("backend-file", *path);
  throw UsageError(
      "no server: give --backend postgresql://user@host/dbname or sqlite:PATH, or --backend-file "
      "FILE");
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::vector<http::Network> Given::trusted_proxies() const {
  auto trusted = list("proxy-protocol-from");
  if (trusted.empty()) trusted = {"127.0.0.0/8", "::1"};
  std::vector<http::Network> networks;
  for (const std::string& text : trusted) {
    const auto network = http::Network::parse(text);
    if (!network)
      throw UsageError(fmt::format(
          "--proxy-protocol-from {}: must be an address or a network such as 10.0.0.0/8", text));
    networks.push_back(*network);
  }
  return networks;
}

http::ClientTls Given::client_tls() const {
  http::ClientTls tls;
  tls.certificate = maybe("client-tls-cert").value_or("");
  tls.key = maybe("client-tls-key").value_or("");
  tls.client_ca = maybe("client-tls-ca").value_or("");
  tls.client_certificate_required =
      one_of<bool>("client-cert", {{"required", true}, {"optional", false}}, true);
  tls.required = flag("require-tls");
  if (tls.certificate.empty()) {
    for (const char* needs : {"client-tls-key", "client-tls-ca", "tls-min", "require-tls"}) {
      if (has(needs) && (std::string_view(needs) != "require-tls" || flag(needs)))
        throw UsageError(
            fmt::format("--{} is about TLS to clients, which needs --client-tls-cert", needs));
    }
  }
  using Tls = http::TlsVersion;
  tls.oldest = one_of<Tls>(
      "tls-min", {{"1.0", Tls::v1_0}, {"1.1", Tls::v1_1}, {"1.2", Tls::v1_2}, {"1.3", Tls::v1_3}},
      Tls::v1_2);
  if (has("client-cert") && tls.client_ca.empty())
    throw UsageError("--client-cert: also give --client-tls-ca, the authority of the certificates");
  return tls;
}

conversation::WithoutTerm Given::without_term() const {
  using conversation::WithoutTerm;
  return one_of<WithoutTerm>("without-term",
                             {{"reject", WithoutTerm::reject},
                              {"read-only", WithoutTerm::read_only},
                              {"allow", WithoutTerm::allow}},
                             WithoutTerm::read_only);
}

conversation::Enforce Given::enforce() const {
  return one_of<conversation::Enforce>(
      "enforce", {{"on", conversation::Enforce::on}, {"observe", conversation::Enforce::observe}},
      conversation::Enforce::on);
}

net::LogFormat Given::log_format() const {
  return one_of<net::LogFormat>("log-format",
                                {{"text", net::LogFormat::text}, {"json", net::LogFormat::json}},
                                net::LogFormat::text);
}

net::LogLevel Given::log_level() const {
  using net::LogLevel;
  return one_of<LogLevel>("log-level",
                          {{"debug", LogLevel::debug},
                           {"info", LogLevel::info},
                           {"warning", LogLevel::warning},
                           {"error", LogLevel::error}},
                          LogLevel::info);
}

}  // namespace termgate::cli
