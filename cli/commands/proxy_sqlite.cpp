#include "commands/proxy_sqlite.hpp"

#include <malloc.h>
#include <sqlite3.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <termgate/authority/rules.hpp>
#include <termgate/net/server.hpp>
#include <termgate/sqlite_front/front.hpp>

#include "commands/proxy_authority.hpp"
#include "output.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

using namespace std::chrono_literals;

// Options that apply to this backend: those that a reload applies, and those that it reports if
// they have changed. Every other one is refused, because its user would believe that it has an
// effect.
constexpr std::initializer_list<const char*> reloaded{
    "config",      "client-tls-cert", "client-tls-key", "client-tls-ca",
    "client-cert", "require-tls",     "tls-min"};
constexpr std::initializer_list<const char*> not_reloaded{"listen",
                                                          "backend",
                                                          "backend-file",
                                                          "rules",
                                                          "http-host",
                                                          "without-term",
                                                          "enforce",
                                                          "threads",
                                                          "max-connections",
                                                          "proxy-protocol-from",
                                                          "drain-timeout",
                                                          "log-format",
                                                          "log-level",
                                                          "idle-holder-timeout",
                                                          "tokens",
                                                          "jwt-key",
                                                          "trust-network",
                                                          "transaction-idle-timeout",
                                                          "statement-timeout",
                                                          "max-streams",
                                                          "max-transactions",
                                                          "max-request-bytes",
                                                          "max-answer-bytes",
                                                          "max-memory"};

void refuse_others(const Given& given) {
  po::options_description all;
  proxy_options(all);
  for (const auto& option : all.options()) {
    const std::string& name = option->long_name();
    const auto is_name = [&](const char* one) { return name == one; };
    if (std::any_of(reloaded.begin(), reloaded.end(), is_name) ||
        std::any_of(not_reloaded.begin(), not_reloaded.end(), is_name) || !given.has(name.c_str()))
      continue;
    if (name == "http")
      throw UsageError(
          "--http: in front of an SQLite file --listen answers /healthz, /readyz, /metrics and "
          "/leader, too");
    const auto semantic = option->semantic();
    if (semantic->max_tokens() == 0 && !given.flag(name.c_str())) continue;
    throw UsageError(fmt::format("--{} means nothing in front of an SQLite file", name));
  }
}

std::string path_of(const Given& given) {
  const std::string path = backend_url(given).substr(std::string_view("sqlite:").size());
  if (path.empty() || path == ":memory:") throw UsageError("--backend sqlite:PATH: which file?");
  if (path.find('?') != std::string::npos)
    throw UsageError(
        "--backend sqlite:PATH takes no options: every commit is flushed, in the file's own "
        "journal mode");
  return path;
}

// Refuses to start on an open network without tokens or client certificates, because whoever
// reaches the port could write.
void refuse_open_network(const Given& given, const sqlite_front::Options& options) {
  const bool certificates =
      !options.http.tls.client_ca.empty() && options.http.tls.client_certificate_required;
  if (!options.tokens_path.empty() || !options.jwt_key_paths.empty() || certificates ||
      given.flag("trust-network"))
    return;
  for (const auto& listener : options.http.listeners) {
    if (listener.inherited >= 0)
      throw UsageError(
          "a socket of systemd's: whoever reaches it may write. Give --tokens FILE, --jwt-key FILE "
          "or --client-tls-ca FILE, or say "
          "--trust-network");
    if (listener.path.empty() && !is_loopback(listener.host))
      throw UsageError(
          fmt::format("--listen {}:{}: whoever reaches it may write. Give --tokens FILE, --jwt-key "
                      "FILE or --client-tls-ca "
                      "FILE, listen on 127.0.0.1, or say --trust-network",
                      listener.host.empty() ? "*" : listener.host, listener.port));
  }
}

void refuse_databases(const std::string& rules_path) {
  if (rules_path.empty()) return;
  for (const authority::Rule& rule : authority::read_rules(rules_path).all) {
    if (!rule.databases.empty())
      throw UsageError(fmt::format(
          "{}:{}: rule \"{}\": database: in front of an SQLite file there is one, without a name",
          rules_path, rule.line, rule.name));
  }
}

sqlite_front::Options front_options(const Given& given,
                                    const std::vector<http::InheritedSocket>& inherited) {
  refuse_others(given);
  sqlite_front::Options options;
  options.path = path_of(given);
  try {
    for (const std::string& listen : given.list("listen"))
      options.http.listeners.push_back(http::parse_listener(listen));
  } catch (const std::invalid_argument& error) { throw UsageError(error.what()); }
  for (const auto& listener : options.http.listeners) {
    if (!listener.path.empty())
      throw UsageError(
          "--listen unix:…: clients of an SQLite file come over TCP: --listen 127.0.0.1:8080");
  }
  for (const auto& socket : inherited) {
    http::ListenerOptions listener;
    listener.name = socket.name;
    listener.inherited = socket.descriptor;
    options.http.listeners.push_back(listener);
  }
  if (options.http.listeners.empty())
    throw UsageError("no listener: give --listen HOST:PORT (127.0.0.1:8080)");
  options.http.tls = given.client_tls();
  options.http.proxy_protocol_from = given.trusted_proxies();
  options.http.hosts = given.list("http-host");
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  options.http.threads = static_cast<unsigned>(given.size("threads", cores, 1, 256));
  options.http.limits.connections = given.size("max-connections", 1000, 1, 1'000'000);
  options.tokens_path = given.maybe("tokens").value_or("");
  options.jwt_key_paths = given.list("jwt-key");
  refuse_open_network(given, options);
  options.without_term = given.without_term();
  options.enforce = given.enforce();
  options.transaction_idle = given.duration("transaction-idle-timeout", 10s);
  options.idle_holder = given.duration("idle-holder-timeout", 3s);
  options.statement_time = given.duration("statement-timeout", 0ms);
  if (given.has("statement-timeout")) options.read_time = options.statement_time;
  options.drain_timeout = given.duration("drain-timeout", 30s);
  options.streams_max = given.size("max-streams", options.streams_max, 1, 10'000'000);
  options.transactions_max = given.size("max-transactions", options.transactions_max, 1, 10'000);
  options.request_bytes_max =
      given.size("max-request-bytes", options.request_bytes_max, 1024, std::int64_t{1} << 32);
  options.answer_bytes_max =
      given.size("max-answer-bytes", options.answer_bytes_max, 1024, std::int64_t{1} << 32);
  options.memory_bytes_max =
      given.size("max-memory", options.memory_bytes_max, 1 << 20, std::int64_t{1} << 40);
  refuse_databases(given.maybe("rules").value_or(""));
  return options;
}

// Lowers the limits to what the file descriptors allow: a client needs one, and each reader of the
// file several.
void fit_to_descriptors(sqlite_front::Options& options, std::uint64_t descriptors, net::Log& log) {
  const std::uint64_t own = 128 + 4 * (options.transactions_max + 32),
                      wanted = options.http.limits.connections + own;
  if (wanted <= descriptors) return;
  options.http.limits.connections =
      static_cast<std::size_t>(descriptors > own + 16 ? descriptors - own : 16);
  log.say(net::LogLevel::warning, "limits_lowered",
          {{"reason", "RLIMIT_NOFILE is too low for --max-connections"},
           {"descriptors", descriptors},
           {"wanted", wanted},
           {"max_connections", options.http.limits.connections}});
}

void say(net::Log& log, const sqlite_front::Event& event) {
  const auto level = event.warning ? net::LogLevel::warning : net::LogLevel::info;
  const auto field = [&](std::size_t index) {
    return index < event.fields.size()
               ? net::LogField(event.fields[index].first, event.fields[index].second)
               : net::LogField("", "");
  };
  const std::string subject =
      std::string(event.name) + (event.fields.empty() ? "" : event.fields.front().second);
  if (event.seldom)
    log.say_seldom(subject, level, event.name, {field(0), field(1), field(2), field(3)});
  else log.say(level, event.name, {field(0), field(1), field(2), field(3)});
}

// Applies a reload, and logs which changed options need a restart. Returns what was wrong; empty if
// it was applied. `given`: the options of the start.
std::string reload(const Arguments& line, const Given& given, sqlite_front::Front& front,
                   conversation::Authority* authority, net::Log& log) {
  try {
    const Given now(line);
    refuse_databases(now.maybe("rules").value_or(""));
    std::string problem = front.reload(now.client_tls(), [&] {
      return authority != nullptr ? authority->reload() : std::string();
    });
    if (const auto waiting = given.changed(now, not_reloaded); problem.empty() && !waiting.empty())
      log.say(net::LogLevel::warning, "reload_needs_restart",
              {{"options", fmt::format("{}", fmt::join(waiting, ", "))},
               {"in_force", "the values of the start"}});
    return problem;
  } catch (const std::exception& error) { return error.what(); }
}

// Handles signals: SIGHUP reloads, the first other one drains the proxy. Returns when the drain is
// over, or at the second such signal.
void mind_signals(const Arguments& line, const Given& given, sqlite_front::Front& front,
                  conversation::Authority* authority, net::Log& log) {
  for (bool draining = false;;) {
    const int signal = net::wait_for_signal(draining ? 50 : 3'600'000);
    if (draining && front.ended()) return;
    if (signal == SIGHUP) {
      http::notify_service_manager("RELOADING=1");
      const std::string problem = reload(line, given, front, authority, log);
      if (problem.empty()) log.say(net::LogLevel::info, "reloaded");
      else
        log.say(net::LogLevel::error, "reload_failed",
                {{"reason", problem}, {"in_force", "the previous settings"}});
      http::notify_service_manager("READY=1");
    } else if (signal != 0 && draining) {
      log.say(net::LogLevel::warning, "ending_at_once", {{"signal", signal}});
      return;
    } else if (signal != 0) {
      draining = true;
      http::notify_service_manager("STOPPING=1");
      // Drain before logging it, so that whoever has read the line may rely on it.
      front.drain();
      log.say(net::LogLevel::info, "draining", {{"signal", signal}});
    }
  }
}

std::unique_ptr<conversation::Authority> rules_of(const Given& given,
                                                  const sqlite_front::Options& options,
                                                  net::Log& log) {
  const auto path = given.maybe("rules");
  if (!path) return nullptr;
  AuthoritySettings settings;
  settings.rules_path = *path;
  settings.backend_url = backend_url(given);
  settings.schema = "termgate";
  settings.without_term = options.without_term;
  settings.enforce = options.enforce;
  try {
    return make_authority(settings, log);
  } catch (const authority::WrongRules& wrong) { throw UsageError(wrong.what()); }
}

}  // namespace

int serve_sqlite_file(const Arguments& line, const Given& given,
                      const std::vector<http::InheritedSocket>& inherited) {
  sqlite_front::Options options = front_options(given, inherited);
  // Return the memory of a large answer to the system once it is sent. By default glibc keeps it
  // for each thread.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
  mallopt(M_TRIM_THRESHOLD, 1 << 20);
  // SQLite's memory statistics need one lock for all threads, and nothing here reads them.
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  net::Log log(STDERR_FILENO, given.log_format(), given.log_level());
  fit_to_descriptors(options, net::raise_descriptor_limit(), log);
  const auto authority = rules_of(given, options, log);
  options.authority = authority.get();
  options.log = [&log](const sqlite_front::Event& event) { say(log, event); };
  std::optional<sqlite_front::Front> front;
  try {
    front.emplace(options);
  } catch (const std::runtime_error& error) {
    log.say(net::LogLevel::error, "cannot_start", {{"reason", error.what()}});
    return Exit::failed;
  }
  front->start();
  for (const std::string& address : front->addresses())
    log.say(net::LogLevel::info, "listening", {{"address", address}});
  http::notify_service_manager("READY=1");
  mind_signals(line, given, *front, authority.get(), log);
  log.say(net::LogLevel::info, "ended");
  // A statement that cannot be interrupted ends with the process; its transaction is rolled back.
  if (!front->stop(1s)) std::_Exit(Exit::done);
  return Exit::done;
}

}  // namespace termgate::cli
