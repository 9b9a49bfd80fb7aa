// proxy: reads its options from the command line and a file, connects rules, sockets and HTTP, and
// handles signals.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <termgate/authority/rules.hpp>
#include <termgate/net/server.hpp>
#include <termgate/http/systemd.hpp>
#include <termgate/tds/browser.hpp>

#include "command.hpp"
#include "commands/proxy_admin.hpp"
#include "commands/proxy_authority.hpp"
#include "commands/proxy_given.hpp"
#ifdef TERMGATE_WITH_SQLITE_FRONT
#include "commands/proxy_sqlite.hpp"
#endif
#include "secrets.hpp"

namespace po = boost::program_options;

namespace termgate::cli {

using namespace std::chrono_literals;

// Long: a table of options, each with its help.
void proxy_options(po::options_description& o) {
  const auto text = [] { return po::value<std::string>(); };
  const auto list = [] { return po::value<std::vector<std::string>>()->composing(); };
  auto add = o.add_options();
  add("listen", list(),
      "[NAME=]HOST:PORT or [NAME=]unix:/path/.s.PGSQL.5432, add ,proxy if clients use PROXY "
      "protocol v2; may be repeated");
  add("backend", text(),
      "the server, postgresql://user:password@host:port/dbname?sslmode=… or sqlserver://…; user "
      "and password are the proxy's own; or "
      "sqlite:PATH");
  add("backend-file", text(), "a file whose first line is that URL");
  add("schema", text(), "schema of layer 1 (termgate)");
  add("config", text(), "a file of options, one `name = value` on each line");
  add("rules", text(),
      "a file of rules: which sessions get which scope and term (docs/reference/rules.md)");
  add("http", text(), "HOST:PORT for /healthz, /readyz, /metrics, /leader?scope=S (none)");
  add("http-host", list(),
      "a host name that HTTP requests may use, besides the loopback's; may be repeated; * for any");
  add("tokens", text(),
      "a file of bearer tokens, NAME LEVEL TOKEN on each line: --http then also serves the API and "
      "the page of `termgate admin`; in front "
      "of an SQLite file each client needs one (none)");
  add("http-behind-tls", po::bool_switch(),
      "with --tokens: listen elsewhere than on the loopback, because something in front ends TLS");
  add("without-term", text(),
      "what a session without a term may do: reject, read-only, allow (read-only)");
  add("enforce", text(),
      "on, or observe: refuse nothing, and count and log what would have been refused (on)");
  add("guard", text(),
      "PostgreSQL: auto lets the guard inside the server do the work where it is installed, "
      "require admits no other session, off never "
      "uses it (auto)");
  add("seats", text(),
      "PostgreSQL: on lets a session that writes often under one term go on without a check until "
      "a raise waits for it; eager does so "
      "from its first write, for tests; off checks each transaction (on)");
  add("trust-backend", po::bool_switch(),
      "let other machines connect although the server requests no credential");
  add("server-pooler", text(),
      "session: there is a pooler in session mode between the proxy and the server (none)");
  add("allow-replication", po::bool_switch(), "admit replication connections");
  add("client-tls-cert", text(), "PEM certificate, with its chain, for TLS to clients (none)");
  add("client-tls-key", text(), "its key (in the same file)");
  add("client-tls-ca", text(), "the authority of client certificates (none are requested)");
  add("client-cert", text(), "optional or required, with --client-tls-ca (required)");
  add("require-tls", po::bool_switch(), "refuse clients in clear text");
  add("tls-min", text(),
      "the oldest version of TLS to clients: 1.0, 1.1, 1.2 or 1.3; below 1.2 for programs that "
      "know no better (1.2)");
  add("browser", text(),
      "SQL Server: HOST:PORT (UDP, 0.0.0.0:1434) that tells clients the port of a named instance; "
      "instances are the names of --listen "
      "(none)");
  add("proxy-protocol-from", list(),
      "a network such as 10.0.0.0/8 whose PROXY headers are trusted; may be repeated (127.0.0.0/8, "
      "::1)");
  add("threads", text(), "event loops (one for each core)");
  add("reuse-port", po::bool_switch(), "SO_REUSEPORT: several proxies on one port");
  add("unix-mode", text(), "mode of Unix sockets, octal (0777)");
  add("max-connections", text(), "clients (1000)");
  add("max-connections-per-user", text(), "clients of one user (no limit)");
  add("max-connections-per-database", text(), "clients of one database (no limit)");
  add("max-connections-per-address", text(), "clients from one address (no limit)");
  add("max-greeting", text(), "clients that have not sent their start-up message yet (1000)");
  add("max-watched-databases", text(),
      "how many databases besides the backend's to remember the fences of, with one connection "
      "each; 0: none (20)");
  add("max-cancels", text(), "concurrent cancel requests (64)");
  add("max-statement-bytes", text(), "size of a statement's text (16777216)");
  add("max-message-bytes", text(), "size of any message (1073741823)");
  add("greeting-timeout", text(), "for a client's first byte (10s)");
  add("login-timeout", text(), "until the server accepts the login (60s)");
  add("idle-timeout", text(), "for a session without a transaction (none)");
  add("idle-in-transaction-timeout", text(), "for a session with an open transaction (none)");
  add("idle-holder-timeout", text(),
      "in front of an SQLite file: for a client that holds the write lock and sends nothing while "
      "others wait (3s)");
  add("connect-timeout", text(), "for each address of the server (10s)");
  add("cancel-timeout", text(), "for a cancel request (10s)");
  add("drain-timeout", text(), "after SIGTERM, for open transactions (30s)");
  add("keepalive", text(),
      "silence after which TCP probes whether a peer is alive (15s; 0s: never)");
  add("jwt-key", list(),
      "in front of an SQLite file: an Ed25519 public key that signs tokens, PEM or base64url; may "
      "be repeated");
  add("trust-network", po::bool_switch(),
      "in front of an SQLite file: let other machines connect without a token");
  add("transaction-idle-timeout", text(),
      "in front of an SQLite file: for a transaction whose client is silent (10s)");
  add("statement-timeout", text(),
      "in front of an SQLite file: for each statement; without it one that reads and has no term "
      "ends after 60s (none)");
  add("max-streams", text(), "in front of an SQLite file: streams that are remembered (100000)");
  add("max-transactions", text(), "in front of an SQLite file: open transactions (128)");
  add("max-request-bytes", text(),
      "in front of an SQLite file: size of a request's body (67108864)");
  add("max-answer-bytes", text(),
      "in front of an SQLite file: size of an answer; a cursor's has no limit (67108864)");
  add("max-memory", text(),
      "in front of an SQLite file: bytes of all requests and answers on their way and at work "
      "(1073741824)");
  add("log-format", text(), "text or json (text)");
  add("log-level", text(), "debug, info, warning, error (info)");
}

namespace {

// Options that a reload does not apply. It reports each that has changed.
constexpr std::initializer_list<const char*> not_reloaded{"listen",
                                                          "backend",
                                                          "schema",
                                                          "http",
                                                          "http-host",
                                                          "tokens",
                                                          "http-behind-tls",
                                                          "threads",
                                                          "browser",
                                                          "reuse-port",
                                                          "unix-mode",
                                                          "rules",
                                                          "allow-replication",
                                                          "seats",
                                                          "max-watched-databases",
                                                          "without-term",
                                                          "enforce",
                                                          "log-format",
                                                          "log-level"};

pg_session::Options::ServerGuard guard_of(const Given& given, const net::Options& options) {
  using Guard = pg_session::Options::ServerGuard;
  const Guard guard = given.one_of<Guard>(
      "guard", {{"auto", Guard::when_there}, {"require", Guard::required}, {"off", Guard::off}},
      Guard::when_there);
  const bool postgres = options.backend.protocol == net::Backend::Protocol::postgresql;
  if (guard == Guard::required && !postgres)
    throw UsageError("--guard require: only PostgreSQL has the guard");
  if (guard == Guard::required && options.session.server_pooler)
    throw UsageError(
        "--guard require: a pooler between the proxy and the server would give a guarded session "
        "to other clients");
  return postgres && !options.session.server_pooler ? guard : Guard::off;
}

std::optional<net::HostPort> browser_of(const Given& given, const net::Options& options) {
  const auto address = given.maybe("browser");
  if (!address) return std::nullopt;
  const auto parsed = http::parse_host_port(*address);
  if (!parsed)
    throw UsageError(fmt::format("--browser {}: write HOST:PORT or [IPV6]:PORT", *address));
  if (options.backend.protocol != net::Backend::Protocol::tds)
    throw UsageError("--browser: only SQL Server has named instances");
  const bool named = std::any_of(
      options.listeners.begin(), options.listeners.end(), [](const net::ListenerOptions& listener) {
        return listener.path.empty() && tds::is_instance_name(listener.name);
      });
  if (!named)
    throw UsageError(
        "--browser: no listener has the name of an instance: --listen SQLEXPRESS=0.0.0.0:1433");
  return parsed;
}

net::Options net_options(const Given& given, const std::vector<http::InheritedSocket>& inherited) {
  net::Options options;
  try {
    for (const std::string& listen : given.list("listen"))
      options.listeners.push_back(http::parse_listener(listen));
    options.backend = net::parse_backend(backend_url(given));
  } catch (const std::invalid_argument& error) { throw UsageError(error.what()); }
  for (const auto& socket : inherited) {
    net::ListenerOptions listener;
    listener.name = socket.name;
    listener.inherited = socket.descriptor;
    options.listeners.push_back(listener);
  }
  if (options.listeners.empty())
    throw UsageError(
        "no listener: give --listen HOST:PORT (127.0.0.1:6432) or unix:/path/.s.PGSQL.6432");
  options.proxy_protocol_from = given.trusted_proxies();
  options.client_tls = given.client_tls();

  options.browser = browser_of(given, options);
  constexpr std::int64_t many = 1'000'000;
  options.limits.connections = given.size("max-connections", 1000, 1, many);
  options.limits.per_user = given.size("max-connections-per-user", 0, 0, many);
  options.limits.per_database = given.size("max-connections-per-database", 0, 0, many);
  options.limits.per_address = given.size("max-connections-per-address", 0, 0, many);
  options.limits.greeting = given.size("max-greeting", 1000, 1, many);
  options.limits.cancels = given.size("max-cancels", 64, 1, many);
  options.threads = static_cast<unsigned>(given.size("threads", 0, 0, 256));
  options.reuse_port = given.flag("reuse-port");
  if (const auto mode = given.maybe("unix-mode")) {
    std::size_t used = 0;
    unsigned long value = 01000;
    try {
      value = std::stoul(*mode, &used, 8);
    } catch (const std::exception&) {}
    if (used != mode->size() || value > 0777)
      throw UsageError(fmt::format("--unix-mode {}: must be an octal number up to 0777", *mode));
    options.unix_mode = static_cast<unsigned>(value);
  }
  options.greeting_timeout = given.duration("greeting-timeout", 10s);
  options.connect_timeout = given.duration("connect-timeout", 10s);
  options.cancel_timeout = given.duration("cancel-timeout", 10s);
  options.drain_timeout = given.duration("drain-timeout", 30s);
  options.keepalive =
      std::chrono::duration_cast<std::chrono::seconds>(given.duration("keepalive", 15s));

  pg_session::Options& session = options.session;
  session.limits.statement_bytes_max = static_cast<std::uint32_t>(
      given.size("max-statement-bytes", session.limits.statement_bytes_max, 1024, 0x3fffffff));
  session.limits.message_bytes_max = static_cast<std::uint32_t>(
      given.size("max-message-bytes", session.limits.message_bytes_max, 1024, 0x3fffffff));
  session.login_timeout = given.duration("login-timeout", 60s);
  session.idle_timeout = given.duration("idle-timeout", 0ms);
  session.idle_in_transaction_timeout = given.duration("idle-in-transaction-timeout", 0ms);
  session.trust_backend = given.flag("trust-backend");
  if (const auto pooler = given.maybe("server-pooler")) {
    if (*pooler != "session")
      throw UsageError("--server-pooler " + *pooler +
                       ": between the proxy and the server only a pooler in session mode works; in "
                       "front of the proxy any does");
    session.server_pooler = true;
  }
  session.schema = given.maybe("schema").value_or(session.schema);
  session.server_guard = guard_of(given, options);
  return options;
}

std::optional<net::HttpOptions> http_options(const Given& given) {
  const auto address = given.maybe("http");
  if (!address) {
    if (given.has("tokens")) throw UsageError("--tokens needs --http HOST:PORT");
    return std::nullopt;
  }
  const auto parsed = http::parse_host_port(*address);
  if (!parsed) throw UsageError(fmt::format("--http {}: write HOST:PORT or [IPV6]:PORT", *address));
  if (given.has("tokens") && !is_loopback(parsed->host) && !given.flag("http-behind-tls"))
    throw UsageError(
        fmt::format("--http {}: tokens would cross the network in the clear; put a TLS proxy in "
                    "front and say --http-behind-tls, or listen "
                    "on 127.0.0.1",
                    parsed->host));
  return net::HttpOptions{*parsed, given.list("http-host"), TERMGATE_VERSION};
}

// Lowers the limits to what the file descriptors allow: each client needs two, its own and its
// server's.
void fit_to_descriptors(net::Options& options, std::uint64_t descriptors, net::Log& log) {
  constexpr std::uint64_t own = 128;
  const std::uint64_t wanted =
      2 * options.limits.connections + options.limits.greeting + options.limits.cancels + own;
  if (wanted <= descriptors) return;
  const std::uint64_t left = descriptors > own + 16 ? descriptors - own : 16;
  options.limits.greeting =
      static_cast<std::size_t>(std::min<std::uint64_t>(options.limits.greeting, left / 4));
  options.limits.connections =
      static_cast<std::size_t>(std::min<std::uint64_t>(options.limits.connections, left / 4));
  log.say(net::LogLevel::warning, "limits_lowered",
          {{"reason", "RLIMIT_NOFILE is too low for --max-connections"},
           {"descriptors", descriptors},
           {"wanted", wanted},
           {"max_connections", options.limits.connections},
           {"max_greeting", options.limits.greeting}});
}

// Serves --backend sqlite:PATH until a signal ends it; returns the exit status.
int serve_file([[maybe_unused]] const Arguments& arguments, [[maybe_unused]] const Given& given,
               [[maybe_unused]] const std::vector<http::InheritedSocket>& inherited) {
#ifdef TERMGATE_WITH_SQLITE_FRONT
  return serve_sqlite_file(arguments, given, inherited);
#else
  throw UsageError("--backend sqlite:PATH: this termgate was built without SQLite");
#endif
}

// Long: each option is handed on once; after that it handles signals.
int run_proxy(const Arguments& arguments) {
  const auto given = std::make_unique<Given>(arguments);
  const auto inherited = http::take_inherited_sockets();
  // Block signals before the first thread starts: if any thread did not block them, a SIGTERM could
  // end the process while this thread is not waiting for it.
  net::take_signals();
  if (is_sqlite(backend_url(*given))) return serve_file(arguments, *given, inherited);
  for (const char* name :
       {"jwt-key", "trust-network", "transaction-idle-timeout", "idle-holder-timeout",
        "statement-timeout", "max-streams", "max-transactions", "max-request-bytes",
        "max-answer-bytes", "max-memory"}) {
    if (given->has(name) && (std::string_view(name) != "trust-network" || given->flag(name)))
      throw UsageError(fmt::format("--{} is about an SQLite file: --backend sqlite:PATH", name));
  }
  net::Options options = net_options(*given, inherited);
  const std::optional<net::HttpOptions> http = http_options(*given);
  const auto tokens = given->maybe("tokens");
  AuthoritySettings settings;
  settings.rules_path = given->maybe("rules").value_or("");
  settings.backend_url = net::own_url(backend_url(*given));
  settings.schema = options.session.schema;
  settings.replication = given->flag("allow-replication");
  if (given->has("seats") && options.backend.protocol != net::Backend::Protocol::postgresql)
    throw UsageError("--seats is for PostgreSQL");
  const int checks = conversation::SeatOffer().checks;
  settings.seat_checks =
      given->one_of<int>("seats", {{"on", checks}, {"eager", 1}, {"off", 0}}, checks);
  settings.watched_databases_max = given->size("max-watched-databases", 20, 0, 1000);
  settings.without_term = given->without_term();
  // SQL Server has no read-only transactions, so only the proxy's own judgement would separate
  // reads from writes. Nobody gets that without requesting it.
  if (options.backend.protocol == net::Backend::Protocol::tds && !given->has("without-term"))
    settings.without_term = conversation::WithoutTerm::reject;
  settings.enforce = given->enforce();
  options.enforcing = settings.enforce == conversation::Enforce::on;
  net::Log log(STDERR_FILENO, given->log_format(), given->log_level());
  fit_to_descriptors(options, net::raise_descriptor_limit(), log);
  std::unique_ptr<conversation::Authority> authority;
  try {
    authority = make_authority(settings, log);
  } catch (const termgate::authority::WrongRules& wrong) { throw UsageError(wrong.what()); }
  try {
    net::Server server(options, *authority, log);
    std::optional<ProxyAdmin> admin;
    if (tokens)
      admin.emplace(ProxyAdminSettings{*http, *tokens, settings.backend_url, settings.schema},
                    server, log);
    else if (http) server.serve_http(*http);
    server.start();
    for (const std::string& address : server.addresses())
      log.say(net::LogLevel::info, "listening", {{"address", address}});
    if (options.browser)
      log.say(net::LogLevel::info, "answering_browser", {{"address", server.browser_address()}});
    if (http)
      log.say(net::LogLevel::info, "serving_http",
              {{"address", admin ? admin->address() : server.http_address()}});
    http::notify_service_manager("READY=1");

    bool draining = false;
    for (;;) {
      const int signal = net::wait_for_signal(draining ? 50 : 3'600'000);
      if (draining && server.ended()) break;
      if (signal == SIGHUP) {
        http::notify_service_manager("RELOADING=1");
        std::string problem;
        try {
          const Given now(arguments);
          net::Options next = net_options(now, inherited);
          fit_to_descriptors(next, net::raise_descriptor_limit(), log);
          // The fence memory belongs to the schema that the proxy started with.
          next.session.schema = options.session.schema;
          // The rules are read last, when everything else is known to be valid; only then does the
          // reload take effect.
          std::optional<http::Tokens> read;
          if (admin) read = admin->read_tokens();
          problem = server.reload(next, [&] { return authority->reload(); });
          if (problem.empty() && read) admin->use(std::move(*read));
          if (problem.empty()) {
            options.drain_timeout = next.drain_timeout;
            std::vector<std::string> waiting = given->changed(now, not_reloaded);
            if (net::own_url(backend_url(now)) != settings.backend_url &&
                given->changed(now, {"backend"}).empty())
              waiting.emplace_back("backend-file");
            server.needs_restart(waiting.size());
            if (!waiting.empty())
              log.say(net::LogLevel::warning, "reload_needs_restart",
                      {{"options", fmt::format("{}", fmt::join(waiting, ", "))},
                       {"in_force", "the values of the start"}});
          }
        } catch (const std::exception& error) { problem = error.what(); }
        if (problem.empty()) log.say(net::LogLevel::info, "reloaded");
        else
          log.say(net::LogLevel::error, "reload_failed",
                  {{"reason", problem}, {"in_force", "the previous settings"}});
        http::notify_service_manager("READY=1");
      } else if (signal != 0) {
        if (draining) {
          log.say(net::LogLevel::warning, "ending_at_once", {{"signal", signal}});
          break;
        }
        draining = true;
        http::notify_service_manager("STOPPING=1");
        // Drain before logging it, so that whoever has read the line may rely on it.
        server.drain();
        log.say(net::LogLevel::info, "draining",
                {{"signal", signal}, {"timeout_ms", options.drain_timeout.count()}});
      }
    }
    server.stop();
  } catch (const std::runtime_error& error) {
    log.say(net::LogLevel::error, "cannot_start", {{"reason", error.what()}});
    return Exit::failed;
  }
  log.say(net::LogLevel::info, "ended");
  return Exit::done;
}

}  // namespace

void add_proxy_command(std::vector<Command>& commands) {
  commands.push_back(
      {"proxy",
       "refuse stale writers in front of PostgreSQL, SQL Server or an SQLite file",
       "Clients connect to it as they would to the server, with their own users and passwords.\n"
       "  termgate proxy --listen 127.0.0.1:6432 --backend "
       "postgresql://termgate_proxy@db.example:5432/app\n"
       "  psql \"host=127.0.0.1 port=6432 dbname=app options='-c termgate.scope=billing -c "
       "termgate.term=42'\"\n"
       "On PostgreSQL the role in --backend needs level lead, and each role that clients write as "
       "needs level write:\n"
       "termgate init --grant termgate_proxy=lead --grant app=write.\n"
       "On a live system start with --enforce observe: it refuses nothing and logs what it would "
       "refuse.\n"
       "The file of --config may contain every option; the command line takes precedence. SIGHUP "
       "reads the file again; "
       "what needs a restart\nit names in the log (enforce among them). SIGTERM drains: open "
       "transactions may end until "
       "--drain-timeout; a second signal ends the proxy at once.\n"
       "The server's pg_hba.conf sees the proxy's address, not the client's. More: "
       "docs/use/proxy.md.",
       proxy_options,
       {},
       run_proxy,
       false,
       true});
}

}  // namespace termgate::cli
