// The proxy as a whole: listeners, workers, HTTP, drain and reload.
//
// Owner: the command. The order of the destructor matters: no callback of the authority may reach a
// worker that is gone, and no blocking call may post to one. A reload replaces `Settings`;
// connections keep those that they began with.
#include <termgate/net/server.hpp>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include <termgate/pgwire/startup.hpp>
#include <termgate/tds/login.hpp>
#include <termgate/tds/packet.hpp>

#include "browser.hpp"
#include "http.hpp"
#include "worker.hpp"

namespace termgate::net {
namespace {

constexpr std::chrono::milliseconds probe_takes{2000};
constexpr std::chrono::seconds probe_lasts{1};

pg_session::Options::ServerTls server_tls_of(const Backend& backend) {
  switch (backend.ssl_mode) {
    case SslMode::disable: return pg_session::Options::ServerTls::disable;
    case SslMode::prefer: return pg_session::Options::ServerTls::prefer;
    default: return pg_session::Options::ServerTls::require;
  }
}

std::shared_ptr<const Settings> settings_of(const Options& options) {
  auto settings = std::make_shared<Settings>();
  settings->options = options;
  settings->client_tls =
      context_for_clients(options.client_tls, options.backend.protocol == Backend::Protocol::tds);
  settings->server_tls = context_for_server(options.backend);
  pg_session::Options& session = settings->options.session;
  session.client_rules = pgwire::Rules::frontend(session.limits);
  session.client_tls = settings->client_tls != nullptr;
  // A certificate can be requested only under TLS, so a client that must show one needs TLS.
  session.client_tls_required =
      options.client_tls.required ||
      (!options.client_tls.client_ca.empty() && options.client_tls.client_certificate_required);
  session.server_tls = server_tls_of(options.backend);
  session.server_is_local = std::all_of(options.backend.hosts.begin(), options.backend.hosts.end(),
                                        [](const auto& host) { return !host.path.empty(); });
  tds_session::Options& tds = settings->options.tds;
  tds.client_tls = session.client_tls;
  tds.client_tls_required = session.client_tls_required;
  tds.schema = session.schema;
  tds.database = options.backend.database;
  if (!options.backend.hosts.empty() && !is_address(options.backend.hosts[0].name))
    tds.server_name = options.backend.hosts[0].name;
  tds.login_timeout = session.login_timeout;
  tds.idle_timeout = session.idle_timeout;
  tds.idle_in_transaction_timeout = session.idle_in_transaction_timeout;
  switch (session.server_tls) {
    case pg_session::Options::ServerTls::disable:
      tds.server_tls = tds_session::Options::ServerTls::disable;
      break;
    case pg_session::Options::ServerTls::prefer:
      tds.server_tls = tds_session::Options::ServerTls::prefer;
      break;
    case pg_session::Options::ServerTls::require:
      tds.server_tls = tds_session::Options::ServerTls::require;
      break;
  }
  if (options.backend.tds_strict) tds.server_tls = tds_session::Options::ServerTls::strict;
  if (options.client_tls.required && !settings->client_tls)
    throw std::runtime_error(
        "TLS is required of clients, but there is no certificate (--client-tls-cert)");
  return settings;
}

// A request that any server of the protocol answers before login.
std::string question_of(Backend::Protocol protocol) {
  std::string question;
  if (protocol == Backend::Protocol::postgresql) {
    pgwire::append_ssl_request(question);
  } else {
    tds::Prelogin prelogin;
    prelogin.version = std::string_view("\x10\0\0\0\0\0", 6);
    prelogin.encryption = tds::Encryption::not_supported;
    std::string payload;
    tds::append_prelogin(payload, prelogin);
    tds::append_message(question, tds::packet::prelogin, payload, tds::packet_bytes_min);
  }
  return question;
}

// A server of TDS 8.0 answers only under TLS. `wait_for` waits for POLLIN or POLLOUT, and returns
// false when the time is over.
template <typename WaitFor>
bool handshakes(SSL* ssl, const WaitFor& wait_for) {
  for (;;) {
    const int done = SSL_do_handshake(ssl);
    if (done == 1) return true;
    const int wants = SSL_get_error(ssl, done);
    (void)tls_error();
    if (wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE) return false;
    if (!wait_for(wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT)) return false;
  }
}

// Whether a server answers at this address. An SSLRequest gets one byte from any PostgreSQL, and
// leaves no line in its log.
bool answers(const ServerAddress& address, const Backend& backend, const TlsContext& tls,
             std::chrono::milliseconds patience) {
  const Endpoint& server = address.endpoint;
  const Backend::Protocol protocol = backend.protocol;
  const int descriptor = socket(server.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  const auto until = std::chrono::steady_clock::now() + patience;
  auto wait_for = [&](short what) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          until - std::chrono::steady_clock::now())
                          .count();
    pollfd one{descriptor, what, 0};
    return left > 0 && poll(&one, 1, static_cast<int>(left)) == 1;
  };
  bool connected = connect(descriptor, server.address(), server.size()) == 0;
  if (!connected && errno == EINPROGRESS && wait_for(POLLOUT)) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
    connected = error == 0;
  }
  if (backend.tds_strict) {
    SSL* ssl = connected && tls ? tls_to_server(tls, backend, address.name, descriptor) : nullptr;
    const bool spoke = ssl != nullptr && handshakes(ssl, wait_for);
    SSL_free(ssl);
    close(descriptor);
    return spoke;
  }
  const std::string request = question_of(protocol);
  char answer = 0;
  const bool heard = connected &&
                     send(descriptor, request.data(), request.size(), MSG_NOSIGNAL) ==
                         static_cast<ssize_t>(request.size()) &&
                     wait_for(POLLIN) && recv(descriptor, &answer, 1, 0) == 1;
  close(descriptor);
  if (protocol == Backend::Protocol::tds)
    return heard && answer == static_cast<char>(tds::packet::reply);
  return heard && (answer == 'S' || answer == 'N');
}

// The listeners whose names a client can request.
std::vector<tds::BrowsedInstance> instances_of(const std::vector<http::OpenListener>& listeners) {
  std::vector<tds::BrowsedInstance> instances;
  for (const http::OpenListener& listener : listeners) {
    if (listener.is_unix || !tds::is_instance_name(listener.options.name)) continue;
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    getsockname(listener.descriptor, reinterpret_cast<sockaddr*>(&address), &size);
    const tds::BrowsedInstance one{
        listener.options.name, Endpoint(reinterpret_cast<const sockaddr*>(&address), size).port()};
    // A listener has one socket for each address of its host, all with the same port.
    const bool known = std::any_of(instances.begin(), instances.end(),
                                   [&](const auto& other) { return other.name == one.name; });
    if (!known) instances.push_back(one);
  }
  return instances;
}

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

class Server::Inside {
 public:
  Inside(const Options& options, conversation::Authority& authority, Log& log)
      : shared(options, authority, log) {
    shared.set(settings_of(options));
    const unsigned threads =
        options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    try {
      for (const ListenerOptions& listener : options.listeners) {
        for (http::OpenListener& open :
             http::open_listener(listener, options.reuse_port, options.unix_mode))
          shared.listeners.push_back(std::move(open));
      }
      if (options.browser) browser.emplace(*options.browser, instances_of(shared.listeners));
    } catch (...) {
      http::close_all(shared.listeners);
      throw;
    }
    for (unsigned i = 0; i < threads; ++i) {
      counters.push_back(std::make_shared<Counters>());
      shared.workers.push_back(std::make_unique<Worker>(shared, counters.back()));
    }
    shared.listening = threads;
    authority.subscribe([this](std::uint64_t fences, std::string_view scope, std::int64_t fence) {
      for (const auto& worker : shared.workers) worker->fence_rose(fences, scope, fence);
    });
    authority.subscribe_gates([this](std::string_view scope, bool certain) {
      for (const auto& worker : shared.workers) worker->gate_wanted(scope, certain);
    });
  }

  ~Inside() {
    shared.authority.subscribe(nullptr);
    shared.authority.subscribe_gates(nullptr);
    for (const auto& worker : shared.workers) worker->stop();
    for (const auto& worker : shared.workers) worker->join();
    shared.blocking_pool.end();
    http.reset();
    browser.reset();
    http::close_all(shared.listeners);
    shared.workers.clear();
  }

  Gauges gauges() const {
    Gauges gauges;
    gauges.connections = static_cast<std::int64_t>(shared.limits.connections());
    gauges.connections_peak = static_cast<std::int64_t>(shared.limits.peak());
    gauges.connections_limit = static_cast<std::int64_t>(shared.limits.limit());
    gauges.greeting = shared.greeting.load();
    gauges.draining = shared.draining.load();
    gauges.leases_held = shared.authority.leases_held();
    gauges.watching = shared.authority.watching();
    gauges.enforcing = shared.enforcing;
    gauges.needs_restart = shared.needs_restart;
    for (const auto& worker : shared.workers) {
      gauges.in_transaction += worker->in_transaction();
      gauges.seated += worker->seated();
      gauges.session_bytes += worker->session_bytes();
    }
    return gauges;
  }

  // Why new clients cannot be served, in one word. May block: the probe of the server may take two
  // seconds, and the resolution of its name longer.
  std::string obstacle() {
    if (shared.draining) return "draining";
    if (!server_answers()) return "unreachable";
    switch (shared.authority.obstacle()) {
      case conversation::Obstacle::none: break;
      case conversation::Obstacle::unreachable: return "unreachable";
      case conversation::Obstacle::login_refused: return "login-refused";
      case conversation::Obstacle::not_installed: return "not-installed";
    }
    return {};
  }

  bool server_answers() {
    // The result is kept for a second, so that many probes of a load balancer cause one of ours.
    const std::lock_guard lock(probe_mutex);
    const auto now = std::chrono::steady_clock::now();
    if (probed_at && now - *probed_at < probe_lasts) return probed;
    std::string problem;
    auto addresses = shared.resolver.known(now);
    if (!addresses) addresses = shared.resolver.resolve(problem);
    const auto until = now + probe_takes;
    probed = std::any_of(addresses->begin(), addresses->end(), [&](const ServerAddress& address) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      return left.count() > 0 &&
             answers(address, shared.backend, shared.settings()->server_tls, left);
    });
    probed_at = std::chrono::steady_clock::now();
    return probed;
  }

  HttpQuestions questions(const std::string& version);

  Shared shared;
  std::vector<std::shared_ptr<Counters>> counters;
  std::optional<HttpServer> http;
  std::optional<Browser> browser;
  std::mutex probe_mutex;  // guards the two below, and allows one probe at a time
  std::optional<std::chrono::steady_clock::time_point> probed_at;
  bool probed = false;
};

Server::Server(const Options& options, conversation::Authority& authority, Log& log)
    : inside_(std::make_unique<Inside>(options, authority, log)) {}

Server::~Server() = default;

HttpQuestions Server::Inside::questions(const std::string& version) {
  return {
      [this] { return obstacle(); },
      [this, version] { return metrics_text(counters, gauges(), version); },
      [this](std::string_view scope) { return !shared.draining && shared.authority.leads(scope); }};
}

void Server::serve_http(const HttpOptions& options) {
  inside_->http.emplace(options, inside_->questions(options.version),
                        inside_->shared.blocking_pool);
}

std::optional<HttpReply> Server::answer(std::string_view method, std::string_view target,
                                        std::string_view host, const HttpOptions& options) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (path != "/healthz" && path != "/readyz" && path != "/metrics" && path != "/leader")
    return std::nullopt;
  HttpAnswer answer =
      answer_http(method, target, host, options, inside_->questions(options.version));
  return HttpReply{answer.status, std::move(answer.body), answer.type};
}

void Server::needs_restart(std::size_t options) {
  inside_->shared.needs_restart = static_cast<std::int64_t>(options);
}

void Server::start() {
  for (const auto& worker : inside_->shared.workers) worker->start();
}

void Server::drain() {
  if (inside_->shared.draining.exchange(true)) return;
  const auto cut_at =
      std::chrono::steady_clock::now() + inside_->shared.settings()->options.drain_timeout;
  for (const auto& worker : inside_->shared.workers) worker->drain(cut_at);
}

void Server::stop() {
  inside_->shared.draining = true;
  for (const auto& worker : inside_->shared.workers) worker->stop();
  for (const auto& worker : inside_->shared.workers) worker->join();
}

bool Server::ended() const {
  return std::all_of(inside_->shared.workers.begin(), inside_->shared.workers.end(),
                     [](const auto& worker) { return worker->load() == 0; });
}

std::string Server::reload(const Options& options, const std::function<std::string()>& rest) {
  Options next = options;
  next.backend = inside_->shared.backend;  // sessions that share fences must share a server
  try {
    auto settings = settings_of(next);
    if (std::string problem = rest(); !problem.empty()) return problem;
    inside_->shared.limits.set(next.limits);
    inside_->shared.set(std::move(settings));
  } catch (const std::exception& error) { return error.what(); }
  return {};
}

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> all;
  for (const http::OpenListener& listener : inside_->shared.listeners)
    all.push_back(listener.address);
  return all;
}

std::string Server::browser_address() const {
  return inside_->browser ? inside_->browser->address() : "";
}
std::string Server::http_address() const { return inside_->http ? inside_->http->address() : ""; }

void take_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = our_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int wait_for_signal(int milliseconds) {
  const sigset_t set = our_signals();
  timespec patience{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  const int signal = sigtimedwait(&set, nullptr, &patience);
  return signal < 0 ? 0 : signal;
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

}  // namespace termgate::net
