// proxy: reads its options from the command line and a file, wires rules, sockets and HTTP together, and minds the signals.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#ifdef TERMGATE_WITH_SQLITE_SERVER
#include <sqlite3.h>
#include <termgate/sqlite_server/server.hpp>
#endif
#include <termgate/net/server.hpp>
#include <termgate/net/systemd.hpp>
#include <termgate/tds/browser.hpp>

#include "command.hpp"
#include "commands/proxy_admin.hpp"
#include "commands/proxy_authority.hpp"
#include "secrets.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

using namespace std::chrono_literals;

void proxy_options(po::options_description& o) {
  const auto text = [] { return po::value<std::string>(); };
  const auto list = [] { return po::value<std::vector<std::string>>()->composing(); };
  auto add = o.add_options();
  add("listen", list(),
      "[NAME=]HOST:PORT or [NAME=]unix:/path/.s.PGSQL.5432, add ,proxy if clients use PROXY protocol v2; may be repeated");
  add("backend", text(),
      "the server, postgresql://user:password@host:port/dbname?sslmode=… or sqlserver://…; user and password are the proxy's own; or "
      "sqlite:PATH");
  add("backend-file", text(), "a file whose first line is that URL");
  add("schema", text(), "schema of layer 1 (termgate)");
  add("config", text(), "a file of options, one `name = value` on each line");
  add("rules", text(), "a file of rules: which sessions get which scope and term (docs/reference/rules.md)");
  add("http", text(), "HOST:PORT for /healthz, /readyz, /metrics, /leader?scope=S (none)");
  add("http-host", list(), "a host name that HTTP requests may use, besides the loopback's; may be repeated; * for any");
  add("http-tokens", text(), "a file of bearer tokens; --http then also serves the API and the page of `termgate admin` (none)");
  add("http-behind-tls", po::bool_switch(),
      "with --http-tokens: listen elsewhere than on the loopback, because something in front ends TLS");
  add("without-term", text(), "what a session without a term may do: reject, read-only, allow (read-only)");
  add("enforce", text(), "on, or observe: refuse nothing, and count and log what would have been refused (on)");
  add("guard", text(),
      "PostgreSQL: auto lets the guard inside the server do the work where it is installed, require admits no other session, off never "
      "uses it (auto)");
  add("users", text(),
      "in front of an SQLite file: a file of accounts made by `termgate user` (without it every user, from the loopback only)");
  add("trust-backend", po::bool_switch(), "let other machines connect although the server requests no credential");
  add("server-pooler", text(), "session: there is a pooler in session mode between the proxy and the server (none)");
  add("allow-replication", po::bool_switch(), "admit replication connections");
  add("client-tls-cert", text(), "PEM certificate, with its chain, for TLS to clients (none)");
  add("client-tls-key", text(), "its key (in the same file)");
  add("client-tls-ca", text(), "the authority of client certificates (none are requested)");
  add("client-cert", text(), "optional or required, with --client-tls-ca (required)");
  add("require-tls", po::bool_switch(), "refuse clients in clear text");
  add("tls-min", text(), "the oldest version of TLS to clients: 1.0, 1.1, 1.2 or 1.3; below 1.2 for programs that know no better (1.2)");
  add("browser", text(),
      "SQL Server: HOST:PORT (UDP, 0.0.0.0:1434) that tells clients the port of a named instance; instances are the names of --listen "
      "(none)");
  add("proxy-protocol-from", list(), "a network such as 10.0.0.0/8 whose PROXY headers are trusted; may be repeated (127.0.0.0/8, ::1)");
  add("threads", text(), "event loops (one for each core)");
  add("reuse-port", po::bool_switch(), "SO_REUSEPORT: several proxies on one port");
  add("unix-mode", text(), "mode of Unix sockets, octal (0777)");
  add("max-connections", text(), "clients (1000)");
  add("max-connections-per-user", text(), "clients of one user (no limit)");
  add("max-connections-per-database", text(), "clients of one database (no limit)");
  add("max-connections-per-address", text(), "clients from one address (no limit)");
  add("max-greeting", text(), "clients that have not sent their start-up message yet (1000)");
  add("max-watched-databases", text(),
      "how many databases besides the backend's to remember the fences of, with one connection each; 0: none (20)");
  add("max-cancels", text(), "concurrent cancel requests (64)");
  add("max-statement-bytes", text(), "size of a statement's text (16777216)");
  add("max-message-bytes", text(), "size of any message (1073741823)");
  add("greeting-timeout", text(), "for a client's first byte (10s)");
  add("login-timeout", text(), "until the server accepts the login (60s)");
  add("idle-timeout", text(), "for a session without a transaction (none)");
  add("idle-in-transaction-timeout", text(), "for a session with an open transaction (none)");
  add("idle-holder-timeout", text(),
      "in front of an SQLite file: for a client that holds the write lock and sends nothing while others wait (3s)");
  add("connect-timeout", text(), "for each address of the server (10s)");
  add("cancel-timeout", text(), "for a cancel request (10s)");
  add("drain-timeout", text(), "after SIGTERM, for open transactions (30s)");
  add("keepalive", text(), "silence after which TCP probes whether a peer is alive (15s; 0s: never)");
  add("log-format", text(), "text or json (text)");
  add("log-level", text(), "debug, info, warning, error (info)");
}

// The command line, and after it the file.
class Given {
 public:
  explicit Given(const Arguments& line) : line_(line) {
    const auto path = line.maybe("config");
    if (!path) return;
    std::ifstream file(*path);
    if (!file) throw UsageError(fmt::format("--config {}: cannot be read: {}", *path, std::strerror(errno)));
    po::options_description known;
    proxy_options(known);
    po::variables_map values;
    try {
      po::store(po::parse_config_file(file, known), values);
    } catch (const po::unknown_option& unknown) {
      throw UsageError(fmt::format("--config {}: there is no option {}", *path, unknown.get_option_name()));
    } catch (const po::error&) {
      // Boost's own message quotes the line, and with it perhaps a password.
      throw UsageError(
          fmt::format("--config {}: every line is `name = value`, `# comment` or empty, and only lists may come twice", *path));
    }
    file_.emplace(std::move(values), line.program());
  }

  bool has(const char* name) const { return line_.has(name) || (file_ && file_->has(name)); }
  bool flag(const char* name) const { return from(name).flag(name); }

  // Those of `names` that `other` gives another value.
  std::vector<std::string> changed(const Given& other, std::initializer_list<const char*> names) const {
    std::vector<std::string> all;
    for (const char* name : names) {
      if (from(name).written(name) != other.from(name).written(name)) all.emplace_back(name);
    }
    return all;
  }
  std::optional<std::string> maybe(const char* name) const { return from(name).maybe(name); }
  std::vector<std::string> list(const char* name) const { return from(name).list(name); }
  std::size_t size(const char* name, std::size_t fallback, std::int64_t low, std::int64_t high) const {
    return static_cast<std::size_t>(from(name).integer_or(name, static_cast<std::int64_t>(fallback), low, high));
  }
  std::chrono::milliseconds duration(const char* name, std::chrono::milliseconds fallback) const {
    return from(name).duration_or(name, fallback);
  }

  template <typename Value>
  Value one_of(const char* name, std::initializer_list<std::pair<const char*, Value>> words, Value fallback) const {
    const auto given = maybe(name);
    if (!given) return fallback;
    std::string all;
    for (const auto& [word, value] : words) {
      if (*given == word) return value;
      all += fmt::format("{}{}", all.empty() ? "" : ", ", word);
    }
    throw UsageError(fmt::format("--{} {}: must be one of {}", name, *given, all));
  }

 private:
  const Arguments& from(const char* name) const { return !line_.has(name) && file_ && file_->has(name) ? *file_ : line_; }

  const Arguments& line_;
  std::optional<Arguments> file_;
};

// What a reload does not change: it says so of each that differs.
constexpr std::initializer_list<const char*> not_reloaded{
    "listen",       "backend", "schema",     "http",      "http-host", "http-tokens",        "http-behind-tls",
    "threads",      "browser", "reuse-port", "unix-mode", "rules",     "allow-replication",  "max-watched-databases",
    "without-term", "enforce", "log-format", "log-level", "users",     "idle-holder-timeout"};

std::string backend_url(const Given& given) {
  if (const auto url = given.maybe("backend")) {
    know_secrets_of(*url);
    return *url;
  }
  if (const auto path = given.maybe("backend-file")) return url_in_file("backend-file", *path);
  throw UsageError("no server: give --backend postgresql://user@host/dbname or sqlite:PATH, or --backend-file FILE");
}

bool is_sqlite(std::string_view url) { return url.starts_with("sqlite:"); }

session::Options::ServerGuard guard_of(const Given& given, const net::Options& options) {
  using Guard = session::Options::ServerGuard;
  const Guard guard =
      given.one_of<Guard>("guard", {{"auto", Guard::when_there}, {"require", Guard::required}, {"off", Guard::off}}, Guard::when_there);
  const bool postgres = options.backend.protocol == net::Backend::Protocol::postgresql && options.session.server_has_rules;
  if (guard == Guard::required && !postgres) throw UsageError("--guard require: only PostgreSQL has the guard");
  if (guard == Guard::required && options.session.server_pooler)
    throw UsageError("--guard require: a pooler between the proxy and the server would give a guarded session to other clients");
  return postgres && !options.session.server_pooler ? guard : Guard::off;
}

std::optional<net::HostPort> browser_of(const Given& given, const net::Options& options) {
  const auto address = given.maybe("browser");
  if (!address) return std::nullopt;
  const auto parsed = net::parse_host_port(*address);
  if (!parsed) throw UsageError(fmt::format("--browser {}: write HOST:PORT or [IPV6]:PORT", *address));
  if (options.backend.protocol != net::Backend::Protocol::tds) throw UsageError("--browser: only SQL Server has named instances");
  const bool named = std::any_of(options.listeners.begin(), options.listeners.end(), [](const net::ListenerOptions& listener) {
    return listener.path.empty() && tds::is_instance_name(listener.name);
  });
  if (!named) throw UsageError("--browser: no listener has the name of an instance: --listen SQLEXPRESS=0.0.0.0:1433");
  return parsed;
}

// `served`: where an SQLite file is served within this process.
net::Options net_options(const Given& given, const std::vector<net::InheritedSocket>& inherited, const std::string& served) {
  net::Options options;
  try {
    for (const std::string& listen : given.list("listen")) options.listeners.push_back(net::parse_listener(listen));
    if (is_sqlite(backend_url(given))) {
      options.session.server_has_rules = false;
      options.session.install_hint = "termgate init --db sqlite:…";  // where the file lies is no client's business
      options.backend.hosts = {{.name = "sqlite", .address = {}, .path = served}};
      options.backend.ssl_mode = net::SslMode::disable;
    } else {
      options.backend = net::parse_backend(backend_url(given));
    }
  } catch (const std::invalid_argument& error) { throw UsageError(error.what()); }
  for (const auto& socket : inherited) {
    net::ListenerOptions listener;
    listener.name = socket.name;
    listener.inherited = socket.descriptor;
    options.listeners.push_back(listener);
  }
  if (options.listeners.empty()) throw UsageError("no listener: give --listen HOST:PORT (127.0.0.1:6432) or unix:/path/.s.PGSQL.6432");
  auto trusted = given.list("proxy-protocol-from");
  if (trusted.empty()) trusted = {"127.0.0.0/8", "::1"};
  for (const std::string& text : trusted) {
    const auto network = net::Network::parse(text);
    if (!network) throw UsageError(fmt::format("--proxy-protocol-from {}: must be an address or a network such as 10.0.0.0/8", text));
    options.proxy_protocol_from.push_back(*network);
  }
  options.client_tls.certificate = given.maybe("client-tls-cert").value_or("");
  options.client_tls.key = given.maybe("client-tls-key").value_or("");
  options.client_tls.client_ca = given.maybe("client-tls-ca").value_or("");
  options.client_tls.client_certificate_required = given.one_of<bool>("client-cert", {{"required", true}, {"optional", false}}, true);
  options.client_tls.required = given.flag("require-tls");
  if (options.client_tls.certificate.empty()) {
    for (const char* needs : {"client-tls-key", "client-tls-ca", "tls-min", "require-tls"}) {
      if (given.has(needs) && (std::string_view(needs) != "require-tls" || given.flag(needs)))
        throw UsageError(fmt::format("--{} is about TLS to clients, which needs --client-tls-cert", needs));
    }
  }
  using Tls = net::TlsVersion;
  options.client_tls.oldest =
      given.one_of<Tls>("tls-min", {{"1.0", Tls::v1_0}, {"1.1", Tls::v1_1}, {"1.2", Tls::v1_2}, {"1.3", Tls::v1_3}}, Tls::v1_2);
  if (given.has("client-cert") && options.client_tls.client_ca.empty())
    throw UsageError("--client-cert: also give --client-tls-ca, the authority of the certificates");

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
    if (used != mode->size() || value > 0777) throw UsageError(fmt::format("--unix-mode {}: must be an octal number up to 0777", *mode));
    options.unix_mode = static_cast<unsigned>(value);
  }
  options.greeting_timeout = given.duration("greeting-timeout", 10s);
  options.connect_timeout = given.duration("connect-timeout", 10s);
  options.cancel_timeout = given.duration("cancel-timeout", 10s);
  options.drain_timeout = given.duration("drain-timeout", 30s);
  options.keepalive = std::chrono::duration_cast<std::chrono::seconds>(given.duration("keepalive", 15s));

  session::Options& session = options.session;
  session.limits.statement_bytes_max =
      static_cast<std::uint32_t>(given.size("max-statement-bytes", session.limits.statement_bytes_max, 1024, 0x3fffffff));
  session.limits.message_bytes_max =
      static_cast<std::uint32_t>(given.size("max-message-bytes", session.limits.message_bytes_max, 1024, 0x3fffffff));
  session.login_timeout = given.duration("login-timeout", 60s);
  session.idle_timeout = given.duration("idle-timeout", 0ms);
  session.idle_in_transaction_timeout = given.duration("idle-in-transaction-timeout", 0ms);
  session.trust_backend = given.flag("trust-backend");
  if (const auto pooler = given.maybe("server-pooler")) {
    if (*pooler != "session")
      throw UsageError("--server-pooler " + *pooler +
                       ": between the proxy and the server only a pooler in session mode works; in front of the proxy any does");
    session.server_pooler = true;
  }
  session.schema = given.maybe("schema").value_or(session.schema);
  session.server_guard = guard_of(given, options);
  return options;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::optional<net::HttpOptions> http_options(const Given& given) {
  const auto address = given.maybe("http");
  if (!address) {
    if (given.has("http-tokens")) throw UsageError("--http-tokens needs --http HOST:PORT");
    return std::nullopt;
  }
  const auto parsed = net::parse_host_port(*address);
  if (!parsed) throw UsageError(fmt::format("--http {}: write HOST:PORT or [IPV6]:PORT", *address));
  if (given.has("http-tokens") && !is_loopback(parsed->host) && !given.flag("http-behind-tls"))
    throw UsageError(
        fmt::format("--http {}: tokens would cross the network in the clear; put a TLS proxy in front and say --http-behind-tls, or listen "
                    "on 127.0.0.1",
                    parsed->host));
  return net::HttpOptions{*parsed, given.list("http-host"), TERMGATE_VERSION};
}

// Each client takes two descriptors, its own and its server's.
void fit_to_descriptors(net::Options& options, std::uint64_t descriptors, net::Log& log) {
  constexpr std::uint64_t own = 128;
  const std::uint64_t wanted = 2 * options.limits.connections + options.limits.greeting + options.limits.cancels + own;
  if (wanted <= descriptors) return;
  const std::uint64_t left = descriptors > own + 16 ? descriptors - own : 16;
  options.limits.greeting = static_cast<std::size_t>(std::min<std::uint64_t>(options.limits.greeting, left / 4));
  options.limits.connections = static_cast<std::size_t>(std::min<std::uint64_t>(options.limits.connections, left / 4));
  log.say(net::LogLevel::warning, "limits_lowered",
          {{"reason", "RLIMIT_NOFILE is too low for --max-connections"},
           {"descriptors", descriptors},
           {"wanted", wanted},
           {"max_connections", options.limits.connections},
           {"max_greeting", options.limits.greeting}});
}

// The SQLite file behind --backend sqlite:PATH, served for the listeners of this process; nothing for another backend.
class ServedFile {
 public:
  explicit ServedFile(const Given& given) {
    const std::string url = backend_url(given);
    if (!is_sqlite(url)) {
      if (given.has("users")) throw UsageError("--users is about an SQLite file; a PostgreSQL server knows its own");
      return;
    }
#ifdef TERMGATE_WITH_SQLITE_SERVER
    const std::string path = url.substr(7);
    if (path.empty() || path == ":memory:") throw UsageError("--backend sqlite:PATH: which file?");
    if (path.find('?') != std::string::npos)
      throw UsageError("--backend sqlite:PATH takes no options: every commit is flushed, in the file's own journal mode");
    // SQLite's count of all memory is one lock for all threads, and nobody here asks for it. Too late where SQLite is in use already, and
    // then no harm.
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    sqlite_server::ServerOptions options;
    options.path = path;
    options.sessions_max = given.size("max-connections", 1000, 1, 1'000'000) + 64;
    options.users_path = given.maybe("users").value_or("");
    options.idle_holder_max = given.duration("idle-holder-timeout", 3s);
    server_.emplace(options);
    address_ = server_->address();
#else
    throw UsageError("--backend sqlite: this termgate was built without SQLite");
#endif
  }
  // The last to go. A statement that cannot be stopped ends with the process, and what it has not committed is rolled back.
  ~ServedFile() {
#ifdef TERMGATE_WITH_SQLITE_SERVER
    if (server_ && !server_->stop(1s)) std::_Exit(Exit::done);
#endif
  }
  ServedFile(const ServedFile&) = delete;
  ServedFile& operator=(const ServedFile&) = delete;
  const std::string& address() const { return address_; }
  // See net::Backend.
  std::function<net::Backend::Shortcut(std::uint32_t, std::string_view)> shortcut() const {
#ifdef TERMGATE_WITH_SQLITE_SERVER
    if (server_) return [this](std::uint32_t pid, std::string_view key) { return server_->shortcut(pid, key); };
#endif
    return {};
  }

 private:
#ifdef TERMGATE_WITH_SQLITE_SERVER
  std::optional<sqlite_server::Server> server_;
#endif
  std::string address_;
};

// Long: each option is handed on once, and what a signal does follows them.
int run_proxy(const Arguments& arguments) {
  const auto given = std::make_unique<Given>(arguments);
  const auto inherited = net::take_inherited_sockets();
  // Before the first thread: one that does not block them would be ended by a SIGTERM that comes while this one does not wait for it.
  net::take_signals();
  const ServedFile file(*given);
  net::Options options = net_options(*given, inherited, file.address());
  options.backend.shortcut = file.shortcut();
  const std::optional<net::HttpOptions> http = http_options(*given);
  const auto tokens = given->maybe("http-tokens");
  AuthoritySettings settings;
  settings.rules_path = given->maybe("rules").value_or("");
  settings.backend_url = net::own_url(backend_url(*given));
  settings.schema = options.session.schema;
  settings.replication = given->flag("allow-replication");
  settings.watched_databases_max = given->size("max-watched-databases", 20, 0, 1000);
  settings.without_term = given->one_of<session::WithoutTerm>(
      "without-term",
      {{"reject", session::WithoutTerm::reject}, {"read-only", session::WithoutTerm::read_only}, {"allow", session::WithoutTerm::allow}},
      session::WithoutTerm::read_only);
  // SQL Server has no read-only transaction: what a read is, only the proxy decides there, and nobody gets that without asking for it.
  if (options.backend.protocol == net::Backend::Protocol::tds && !given->has("without-term"))
    settings.without_term = session::WithoutTerm::reject;
  settings.enforce = given->one_of<session::Enforce>("enforce", {{"on", session::Enforce::on}, {"observe", session::Enforce::observe}},
                                                     session::Enforce::on);
  options.enforcing = settings.enforce == session::Enforce::on;
  const auto format =
      given->one_of<net::LogFormat>("log-format", {{"text", net::LogFormat::text}, {"json", net::LogFormat::json}}, net::LogFormat::text);
  const auto level = given->one_of<net::LogLevel>("log-level",
                                                  {{"debug", net::LogLevel::debug},
                                                   {"info", net::LogLevel::info},
                                                   {"warning", net::LogLevel::warning},
                                                   {"error", net::LogLevel::error}},
                                                  net::LogLevel::info);

  net::Log log(STDERR_FILENO, format, level);
  fit_to_descriptors(options, net::raise_descriptor_limit(), log);
  std::unique_ptr<session::Authority> authority;
  try {
    authority = make_authority(settings, log);
  } catch (const InvalidInput& wrong) {
    // A malformed URL has a code of its own; rules have a file and a line, and are the command's usage.
    if (std::string_view(wrong.what()).starts_with("TG")) throw;
    throw UsageError(wrong.what());
  }
  try {
    net::Server server(options, *authority, log);
    std::optional<ProxyAdmin> admin;
    if (tokens) admin.emplace(ProxyAdminSettings{*http, *tokens, settings.backend_url, settings.schema}, server, log);
    else if (http) server.serve_http(*http);
    server.start();
    for (const std::string& address : server.addresses()) log.say(net::LogLevel::info, "listening", {{"address", address}});
    if (options.browser) log.say(net::LogLevel::info, "answering_browser", {{"address", server.browser_address()}});
    if (http) log.say(net::LogLevel::info, "serving_http", {{"address", admin ? admin->address() : server.http_address()}});
    net::notify_service_manager("READY=1");

    bool draining = false;
    for (;;) {
      const int signal = net::wait_for_signal(draining ? 50 : 3'600'000);
      if (draining && server.ended()) break;
      if (signal == SIGHUP) {
        net::notify_service_manager("RELOADING=1");
        std::string problem;
        try {
          const Given now(arguments);
          net::Options next = net_options(now, inherited, file.address());
          fit_to_descriptors(next, net::raise_descriptor_limit(), log);
          next.session.schema = options.session.schema;  // the fence memory is of the one that it began with
          // The rules are read once all else is known to be right, and it comes into force once they are.
          std::optional<termgate::cli::admin::Access> access;
          if (admin) access = admin->read_tokens();
          problem = server.reload(next, [&] { return authority->reload(); });
          if (problem.empty() && access) admin->use(std::move(*access));
          if (problem.empty()) {
            options.drain_timeout = next.drain_timeout;
            std::vector<std::string> waiting = given->changed(now, not_reloaded);
            if (net::own_url(backend_url(now)) != settings.backend_url && given->changed(now, {"backend"}).empty())
              waiting.emplace_back("backend-file");
            server.needs_restart(waiting.size());
            if (!waiting.empty())
              log.say(net::LogLevel::warning, "reload_needs_restart",
                      {{"options", fmt::format("{}", fmt::join(waiting, ", "))}, {"in_force", "the values of the start"}});
          }
        } catch (const std::exception& error) { problem = error.what(); }
        if (problem.empty()) log.say(net::LogLevel::info, "reloaded");
        else log.say(net::LogLevel::error, "reload_failed", {{"reason", problem}, {"in_force", "the previous settings"}});
        net::notify_service_manager("READY=1");
      } else if (signal != 0) {
        if (draining) {
          log.say(net::LogLevel::warning, "ending_at_once", {{"signal", signal}});
          break;
        }
        draining = true;
        net::notify_service_manager("STOPPING=1");
        // Before it is logged: whoever has read the line may rely on it.
        server.drain();
        log.say(net::LogLevel::info, "draining", {{"signal", signal}, {"timeout_ms", options.drain_timeout.count()}});
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
  commands.push_back({"proxy",
                      "refuse stale writers in front of PostgreSQL, SQL Server or an SQLite file",
                      "Clients connect to it as they would to the server, with their own users and passwords.\n"
                      "  termgate proxy --listen 127.0.0.1:6432 --backend postgresql://termgate_proxy@db.example:5432/app\n"
                      "  psql \"host=127.0.0.1 port=6432 dbname=app options='-c termgate.scope=billing -c termgate.term=42'\"\n"
                      "On PostgreSQL the role in --backend needs level lead, and each role that clients write as needs level write:\n"
                      "termgate init --grant termgate_proxy=lead --grant app=write.\n"
                      "On a live system start with --enforce observe: it refuses nothing and logs what it would refuse.\n"
                      "The file of --config may contain every option; the command line takes precedence. SIGHUP reads the file again; "
                      "what needs a restart\nit names in the log (enforce among them). SIGTERM drains: open transactions may end until "
                      "--drain-timeout; a second signal ends the proxy at once.\n"
                      "The server's pg_hba.conf sees the proxy's address, not the client's. More: docs/use/proxy.md.",
                      proxy_options,
                      {},
                      run_proxy,
                      false,
                      true});
}

}  // namespace termgate::cli
