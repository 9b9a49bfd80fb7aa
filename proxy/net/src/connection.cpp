// Long: one client's connection, whose steps share its two sockets and timers.
//
// Stages: proxy_header -> first_byte -> (direct_tls) -> session -> farewell -> over. The session
// decides which messages are sent; this class moves bytes and carries out the session's actions in
// order.
//
// Owner: its worker, on whose thread everything here runs. Other threads know a connection only by
// its number and post to the worker. Every way out is end(), which may be called from any step: the
// object lives until the round is over.
#include "connection.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <openssl/rand.h>

#include <termgate/http/proxy_protocol.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pg_session/session.hpp>
#include <termgate/tds_session/tds_session.hpp>

namespace termgate::net {
namespace {

using conversation::Action;
using conversation::Instant;

// How many buffers are read before other connections get their turn.
constexpr int reads_at_once = 4;
// How long a client may take to read the last messages.
constexpr std::chrono::seconds last_words_take{5};
constexpr std::chrono::seconds farewell_takes{1};  // until a client has closed its side
constexpr std::chrono::seconds greeting_in_drain{
    1};  // for clients that are still in their greeting when the proxy drains
constexpr std::string_view shutting_down = "the proxy is shutting down";
constexpr char tls_handshake = 0x16;
constexpr std::size_t secret_bytes = 32;

bool begins_tls(Action::Kind kind) noexcept {
  return kind == Action::Kind::start_client_tls || kind == Action::Kind::start_server_tls ||
         kind == Action::Kind::start_wrapped_client_tls ||
         kind == Action::Kind::start_wrapped_server_tls;
}

Instant clock_now() { return std::chrono::steady_clock::now(); }

}  // namespace

Connection::Connection(Worker& worker, std::uint64_t id, int descriptor, const Endpoint& peer,
                       const http::OpenListener& listener, std::shared_ptr<const Settings> settings)
    : worker_(worker),
      id_(id),
      listener_(listener),
      settings_(std::move(settings)),
      peer_(peer),
      began_(clock_now()),
      client_(*this, true),
      server_(*this, false) {
  client_.stream.open(descriptor);
  client_.connected = true;
  greeting_ = worker_.greets(*this);
}

Connection::~Connection() {
  if (stage_ != Stage::over) end("the proxy ends");
}

void Connection::begin() {
  http::tune(client_.stream.descriptor(), peer_.family(), settings_->options.keepalive);
  deadline_ = began_ + settings_->options.greeting_timeout;
  // A peer that is not trusted to send headers is handled as an ordinary client.
  if (listener_.options.proxy_protocol &&
      any_contains(settings_->options.proxy_protocol_from, peer_))
    stage_ = Stage::proxy_header;
  watch(client_);
}

bool Connection::silent() const noexcept {
  if (stage_ != Stage::proxy_header && stage_ != Stage::first_byte) return false;
  // Bytes that have arrived but are not read yet count too.
  char first = 0;
  return recv(client_.stream.descriptor(), &first, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

// --- events from epoll ---

// Handles a ready socket. Every case either ends in pump(), or belongs to a stage without a
// session.
void Connection::ready(End& end, std::uint32_t events) {
  if (stage_ == Stage::over || !end.stream.is_open()) return;
  switch (stage_) {
    case Stage::proxy_header: read_proxy_header(); break;
    case Stage::first_byte: read_first_byte(); break;
    case Stage::direct_tls: step_handshake(end); break;
    case Stage::farewell: drain_farewell(); break;
    case Stage::over: break;
    case Stage::session:
      if (!end.client && connecting_ != Connecting::no) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(end.stream.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0) {
          server_connected();
        } else {
          add_problem(fmt::format("{}: {}", (*addresses_)[address_ - 1].endpoint.text(),
                                  std::strerror(error)));
          next_address();
        }
      } else if (end.handshaking) {
        step_handshake(end);
      } else {
        // Under TLS a write may have to read first, and a read to write. Each remembers which event
        // it waits for.
        if ((events & EPOLLOUT) != 0 || ((events & EPOLLIN) != 0 && end.write_reads))
          end.blocked = end.write_reads = false;
        if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 ||
            ((events & EPOLLOUT) != 0 && end.read_writes)) {
          end.read_writes = false;
          if (wants(end)) {
            read_some(end);
          } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
            end.deaf = true;
          }
        }
      }
      pump();
      break;
  }
}

void Connection::read_proxy_header() {
  for (;;) {
    const http::ProxyHeader header = http::parse_proxy_header(head_);
    if (header.kind == http::ProxyHeader::Kind::malformed) {
      conversation::Incident incident;
      incident.kind = conversation::Incident::Kind::malformed;
      incident.message = header.problem;
      happened(incident);
      return end("malformed PROXY header");
    }
    if (header.kind != http::ProxyHeader::Kind::need_more) {
      if (header.kind == http::ProxyHeader::Kind::proxied) peer_ = header.client;
      head_.clear();
      stage_ = Stage::first_byte;
      return watch(client_);
    }
    // Reads exactly the header, because what follows belongs to TLS or to the session.
    const std::size_t had = head_.size();
    head_.resize(header.needed);
    std::size_t bytes = 0;
    const auto outcome = client_.stream.read(head_.data() + had, header.needed - had, bytes);
    head_.resize(had + (outcome == Stream::Io::done ? bytes : 0));
    if (outcome == Stream::Io::wait_read) return;
    if (outcome != Stream::Io::done) return end("hung up before its greeting");
  }
}

void Connection::read_first_byte() {
  // Direct TLS begins at once, without SSLRequest. Anything else is for the session.
  char first = 0;
  // The byte is left in the socket, for OpenSSL or the session to read.
  const ssize_t got = recv(client_.stream.descriptor(), &first, 1, MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return end("hung up before its greeting");
  if (first == tls_handshake && speaks_tds() && !settings_->client_tls)
    return end("TDS 8.0 (Encrypt=strict) needs --client-tls-cert");
  if (first == tls_handshake && settings_->client_tls) {
    SSL* ssl = tls_to_client(settings_->client_tls, client_.stream.descriptor());
    if (ssl == nullptr) return end("TLS: no memory");
    client_.stream.start_tls(ssl);
    client_.handshaking = true;
    stage_ = Stage::direct_tls;
    return step_handshake(client_);
  }
  begin_session(false);
  if (stage_ != Stage::session) return;  // ended: no randomness for its key was available
  read_some(client_);
  pump();
}

bool Connection::speaks_tds() const noexcept {
  return worker_.shared().backend.protocol == Backend::Protocol::tds;
}

void Connection::begin_session(bool encrypted) {
  stage_ = Stage::session;
  deadline_ = Instant::max();
  head_.resize(secret_bytes);
  if (RAND_bytes(reinterpret_cast<unsigned char*>(head_.data()), static_cast<int>(head_.size())) !=
      1)
    return end("no randomness");
  if (speaks_tds()) {
    session_ = std::make_unique<tds_session::TdsSession>(
        settings_->options.tds, tds_session::Peer{peer_.local(), encrypted, head_}, *this,
        clock_now());
  } else {
    pg_session::Peer peer;
    peer.local = peer_.local();
    peer.encrypted_already = encrypted;
    peer.cancel_key = head_;
    session_ = std::make_unique<pg_session::Session>(settings_->options.session, std::move(peer),
                                                     *this, clock_now());
  }
  if (worker_.draining()) session_->resume(conversation::Drain{}, clock_now());
}

// The bytes stay in the worker's buffer; the session copies what it cannot process at once.
void Connection::read_some(End& end) {
  for (int i = 0; i < reads_at_once; ++i) {
    std::size_t bytes = 0;
    const auto outcome = end.stream.read(worker_.buffer(), Worker::buffer_bytes, bytes);
    switch (outcome) {
      case Stream::Io::done: {
        assert(session_ && "bytes are read for a session only");
        const std::string_view given(worker_.buffer(), bytes);
        if (end.client) {
          worker_.counters().bytes_from_clients.add(static_cast<std::int64_t>(bytes));
          session_->resume(conversation::ClientBytes{given}, clock_now());
        } else {
          worker_.counters().bytes_from_servers.add(static_cast<std::int64_t>(bytes));
          server_spoke_ = true;
          session_->resume(conversation::ServerBytes{given}, clock_now());
        }
        break;
      }
      case Stream::Io::wait_read: return;
      case Stream::Io::wait_write: end.read_writes = true; return;
      case Stream::Io::end: return lost(end, "");
      case Stream::Io::failed: return lost(end, end.stream.why());
    }
    // A short read means that the socket is empty, so another read would be a wasted system call. A
    // TLS record has up to 16 kB.
    if (bytes < (end.stream.is_tls() ? std::size_t{8} << 10 : Worker::buffer_bytes)) return;
    pump();
    if (stage_ != Stage::session || !wants(end) || end.handshaking) return;
  }
}

void Connection::step_handshake(End& end) {
  switch (end.stream.handshake()) {
    case Stream::Io::wait_read: end.handshake_wants = EPOLLIN; break;
    case Stream::Io::wait_write: end.handshake_wants = EPOLLOUT; break;
    case Stream::Io::done:
      end.handshaking = false;
      if (stage_ == Stage::direct_tls) {
        if (speaks_tds() && !alpn_is_tds(end.stream.ssl()))
          return this->end("direct TLS without ALPN tds/8.0");
        if (!speaks_tds() && !alpn_is_postgresql(end.stream.ssl()))
          return this->end("direct TLS without ALPN postgresql");
        begin_session(true);
        if (stage_ != Stage::session) return;
        return pump();
      }
      if (end.client) {
        session_->resume(conversation::ClientTls{}, clock_now());
      } else {
        server_spoke_ = false;  // its answer about TLS does not belong to the login
        session_->resume(conversation::ServerTls{}, clock_now());
      }
      break;
    case Stream::Io::end:
    case Stream::Io::failed: {
      end.handshaking = false;
      worker_.counters().tls_failures.add();
      const std::string why = end.stream.why().empty() ? "the peer hung up" : end.stream.why();
      worker_.shared().log.say_seldom(end.client ? "tls/" + peer_.host() : "tls", LogLevel::warning,
                                      "tls_failed",
                                      {{"connection", id_},
                                       {"with", end.client ? "client" : "server"},
                                       {"client", peer_.text()},
                                       {"reason", why}});
      if (stage_ == Stage::direct_tls) return this->end("TLS handshake failed");
      return lost(end, "TLS: " + why);
    }
  }
  if (stage_ == Stage::direct_tls) watch(end);
}

// One end has closed or failed. The session is notified once; what it still wants to send to the
// other end is sent.
void Connection::lost(End& end, std::string_view why) {
  if (end.gone) return;
  end.gone = true;
  end.handshaking = false;
  if (std::exchange(end.unheard, false)) deadline_ = Instant::max();
  if (why_.empty())
    why_ = fmt::format("{} {}", end.client ? "client" : "server", why.empty() ? "closed" : why);
  if (end.client) session_->resume(conversation::ClientGone{}, clock_now());
  else if (!why.empty() && end.stream.is_tls() && !server_spoke_ &&
           session_->phase() == conversation::Conversation::Phase::login) {
    // A server that refuses our certificate reports that in TLS, below its protocol. Without this,
    // the client would only see a close.
    const std::string message = fmt::format("the server ended the login: {}", why);
    conversation::Incident incident;
    incident.kind = conversation::Incident::Kind::login_refused;
    incident.code = "08006";
    incident.message = message;
    happened(incident);
    session_->resume(conversation::Cut{incident.code, message}, clock_now());
  } else session_->resume(conversation::ServerLost{why}, clock_now());
}

// --- actions ---

void Connection::pump() {
  // An action can lead back here (a connect that fails at once): the outer call then continues with
  // it.
  if (stage_ != Stage::session || pumping_) return;
  pumping_ = true;
  // Repeats until nothing changes: an action may produce bytes, and bytes an action.
  for (bool more = true; more && stage_ == Stage::session;) {
    flush(server_);
    flush(client_);
    for (const Action& action : session_->take_actions()) actions_.push_back(action.kind);
    more = run_actions();
    // Some servers send no cancel key, so the phase shows that the client is admitted.
    if (entry_ == Entry::admitted && stage_ == Stage::session &&
        session_->phase() >= conversation::Conversation::Phase::idle &&
        session_->phase() != conversation::Conversation::Phase::closing)
      establish();
  }
  pumping_ = false;
  if (stage_ != Stage::session) return;
  watch(client_);
  watch(server_);
}

// Writes as much of the session's bytes for one end as the socket takes.
void Connection::flush(End& end) {
  for (;;) {
    const std::string_view out = end.client ? session_->to_client() : session_->to_server();
    if (out.empty()) return;
    std::size_t bytes = out.size();
    if (!end.gone && !end.unheard) {
      if (end.blocked || end.handshaking || !end.connected) return;
      switch (end.stream.write(out, bytes)) {
        case Stream::Io::done: break;
        case Stream::Io::wait_write: end.blocked = true; return;
        case Stream::Io::wait_read: end.blocked = end.write_reads = true; return;
        case Stream::Io::end: lost(end, ""); continue;
        case Stream::Io::failed: {
          std::string why = end.stream.why();
          if (!end.client && end.stream.is_tls() && !server_spoke_) {
            // The server closed before the proxy sent anything, and its reason may be there to
            // read.
            std::size_t heard = 0;
            const auto outcome = end.stream.read(worker_.buffer(), Worker::buffer_bytes, heard);
            if (outcome == Stream::Io::failed) why = end.stream.why();
            if (outcome == Stream::Io::done) {
              server_spoke_ = true;
              session_->resume(conversation::ServerBytes{std::string_view(worker_.buffer(), heard)},
                               clock_now());
            }
          }
          // A server that ends a session sends the reason before it closes, which may arrive after
          // it has stopped reading.
          if (!end.client && !end.stream.is_tls() &&
              session_->phase() >= conversation::Conversation::Phase::idle) {
            end.unheard = true;
            deadline_ = std::min(deadline_, clock_now() + last_words_take);
            continue;
          }
          lost(end, why);
          continue;
        }
      }
    }
    // Bytes for an end that is gone are dropped.
    if (end.client) session_->sent_to_client(bytes);
    else session_->sent_to_server(bytes);
    // A partial write to a socket without TLS means that it is full.
    if (bytes < out.size() && !end.stream.is_tls() && !end.gone) {
      end.blocked = true;
      return;
    }
  }
}

// Carries out the actions in order. An action that has to wait stays first and delays those after
// it.
bool Connection::run_actions() {
  bool any = false;
  while (!actions_.empty() && stage_ == Stage::session) {
    if (!do_action(actions_.front())) return any;
    any = true;
    if (!actions_.empty()) actions_.pop_front();
  }
  return any;
}

// False: the action has to wait, and stays first.
bool Connection::do_action(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::start_client_tls: return session_->to_client().empty() && begin_tls(client_);
    case Action::Kind::start_wrapped_client_tls:
      return session_->to_client().empty() && begin_tls(client_, true);
    case Action::Kind::start_server_tls: return session_->to_server().empty() && begin_tls(server_);
    case Action::Kind::start_wrapped_server_tls:
      return session_->to_server().empty() && begin_tls(server_, true);
    case Action::Kind::admit: admit(); return true;
    case Action::Kind::connect_server: connect_server(); return true;
    case Action::Kind::registered:
      establish();
      if (!ticket_ && server_.connected && !server_.gone)
        ticket_ = worker_.shared().cancels.add(target(), head_);
      return true;
    case Action::Kind::cancel_server:
      if (server_.connected && !session_->server_key().empty())
        (void)worker_.cancel(target(), settings_, nullptr);
      return true;
    case Action::Kind::forward_cancel: return forward_cancel();
    case Action::Kind::raise: raise(); return true;
    case Action::Kind::close_server:
      if (!session_->to_server().empty() && server_.connected && !server_.gone) {
        deadline_ = std::min(deadline_, clock_now() + last_words_take);
        return false;
      }
      forget_server();
      return true;
    case Action::Kind::close_client: {
      const bool client_waits = !session_->to_client().empty() && !client_.gone;
      const bool server_waits =
          !session_->to_server().empty() && server_.connected && !server_.gone;
      if (client_waits || server_waits) {
        deadline_ = std::min(deadline_, clock_now() + last_words_take);
        return false;
      }
      if (client_.gone) end(why_);
      else farewell();
      return true;
    }
  }
  return true;
}

// Raises the fence on a connection of the proxy's own. The session continues when that has
// succeeded or failed.
void Connection::raise() {
  worker_.shared().authority.raise(
      session_->raise_scope(), session_->raise_term(),
      [worker = &worker_, id = id_](std::string_view code, std::string_view message) {
        worker->post([worker, id, code = std::string(code), message = std::string(message)] {
          Connection* connection = worker->find(id);
          if (connection == nullptr || connection->stage_ != Stage::session) return;
          connection->session_->resume(conversation::Raised{code, message}, clock_now());
          connection->pump();
        });
      });
}

bool Connection::begin_tls(End& end, bool wrapped) {
  if (end.gone) return true;
  SSL* ssl = nullptr;
  if (end.client && settings_->client_tls)
    ssl = tls_to_client(settings_->client_tls, end.stream.descriptor());
  if (!end.client && settings_->server_tls)
    ssl = tls_to_server(settings_->server_tls, worker_.shared().backend,
                        (*addresses_)[address_ - 1].name, end.stream.descriptor());
  if (ssl == nullptr) {
    lost(end, "TLS: no context for it");
    return true;
  }
  if (wrapped) {
    // TLS 1.3 sends messages after its handshake, which would have to be wrapped too, and the
    // specification does not cover that.
    SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
    SSL_set_alpn_protos(ssl, nullptr, 0);
    if (!end.stream.start_wrapped_tls(ssl)) {
      lost(end, "TLS: no memory");
      return true;
    }
  } else {
    end.stream.start_tls(ssl);
  }
  end.handshaking = true;
  step_handshake(end);
  return true;
}

void Connection::identified() {
  if (!greeting_) return;
  worker_.has_greeted(*greeting_);
  greeting_.reset();
}

void Connection::admit() {
  identified();
  const conversation::LoginRequest& who = session_->login();
  Shared& shared = worker_.shared();
  const auto verdict = shared.limits.enter(who.user, who.database, peer_.host());
  if (verdict != LimitBook::Verdict::in) {
    Counters& counters = worker_.counters();
    const char* limit = "connections";
    switch (verdict) {
      case LimitBook::Verdict::user:
        limit = "user";
        counters.refused_limit_user.add();
        break;
      case LimitBook::Verdict::database:
        limit = "database";
        counters.refused_limit_database.add();
        break;
      case LimitBook::Verdict::address:
        limit = "address";
        counters.refused_limit_address.add();
        break;
      default: counters.refused_limit_connections.add(); break;
    }
    shared.log.say_seldom(std::string("limit/") + limit, LogLevel::warning, "limit_met",
                          {{"connection", id_},
                           {"client", peer_.text()},
                           {"limit", limit},
                           {"user", who.user},
                           {"database", who.database}});
    conversation::Admission refused;
    refused.refused_sqlstate = "53300";
    refused.refused_message = shared.limits.message(verdict);
    why_ = "limit met";
    session_->resume(conversation::Admitted{std::move(refused)}, clock_now());
    return;
  }
  entry_ = Entry::counted;
  liveness_ = std::make_shared<SocketLiveness>(client_.stream.descriptor());
  conversation::ConnectRequest request{listener_.options.name, peer_.host(), who, liveness_};
  // Rules may query a database. The result finds the connection by its number, because it may be
  // gone by then.
  shared.blocking_pool.run([&shared, worker = &worker_, id = id_, request = std::move(request)] {
    conversation::Admission admission;
    try {
      admission = shared.authority.admit(id, request);
    } catch (const std::exception& error) {
      // Unknown rules must not admit anyone.
      shared.log.say_seldom("admit", LogLevel::error, "rules_failed", {{"reason", error.what()}});
      admission.refused_sqlstate = "58000";
      admission.refused_message = "the proxy could not apply its rules; its log has the reason";
    }
    worker->post([&shared, worker, id, admission = std::move(admission)]() mutable {
      Connection* connection = worker->find(id);
      // The authority must be notified of the end of an admitted client that has gone meanwhile.
      if (connection != nullptr) connection->admitted(std::move(admission));
      else if (admission.refused_sqlstate.empty()) shared.authority.ended(id);
    });
  });
}

void Connection::admitted(conversation::Admission admission) {
  const bool let_in = admission.refused_sqlstate.empty();
  if (stage_ != Stage::session) {
    if (let_in) worker_.shared().authority.ended(id_);
    return;
  }
  if (let_in) entry_ = Entry::admitted;
  observed_ = admission.enforce == conversation::Enforce::observe;
  ends_when_stale_ = admission.on_stale == conversation::OnStale::disconnect;
  const conversation::LoginRequest& who = session_->login();
  if (!let_in) {
    why_ = "refused";
    worker_.shared().log.say(LogLevel::warning, "connection_refused",
                             {{"connection", id_},
                              {"client", peer_.text()},
                              {"listener", listener_.options.name},
                              {"user", who.user},
                              {"database", who.database},
                              {"code", admission.refused_sqlstate},
                              {"message", admission.refused_message}});
  }
  session_->resume(conversation::Admitted{std::move(admission)}, clock_now());
  pump();
}

// The client's first statement waits in its socket until its lease is acquired, or has failed.
void Connection::establish() {
  if (entry_ != Entry::admitted) return;
  entry_ = Entry::established;
  const conversation::LoginRequest& who = session_->login();
  worker_.counters().opened.add();
  worker_.shared().log.say(LogLevel::info, "connection_opened",
                           {{"connection", id_},
                            {"client", peer_.text()},
                            {"listener", listener_.options.name},
                            {"user", who.user},
                            {"database", who.database},
                            {"application_name", who.application_name},
                            {"tls", client_.stream.is_tls()}});
  worker_.shared().authority.established(id_, [worker = &worker_, id = id_] {
    worker->post([worker, id] {
      Connection* connection = worker->find(id);
      if (connection == nullptr) return;
      connection->entry_ = Entry::ready;
      connection->pump();
    });
  });
}

void Connection::connect_server() {
  forget_server();
  server_.gone = false;
  address_ = 0;
  connect_problem_.clear();
  Shared& shared = worker_.shared();
  if (auto known = shared.resolver.known(clock_now())) {
    use(std::move(known));
    return next_address();
  }
  shared.blocking_pool.run([&shared, worker = &worker_, id = id_] {
    std::string problem;
    auto addresses = shared.resolver.resolve(problem);
    worker->post([worker, id, addresses = std::move(addresses), problem = std::move(problem)] {
      if (Connection* connection = worker->find(id)) connection->resolved(addresses, problem);
    });
  });
}

// Collects one text for each address that was tried.
void Connection::add_problem(const std::string& problem) {
  connect_problem_ += connect_problem_.empty() ? problem : "; " + problem;
}

// Among several servers, the one that the proxy's own connection uses comes first. If the URL
// restricts the kind of server, libpq has checked that, and no other server is used.
void Connection::use(Resolver::Addresses addresses) {
  addresses_ = std::move(addresses);
  const Backend& backend = worker_.shared().backend;
  if (backend.hosts.size() < 2 && !backend.follows) return;
  const conversation::ServedBy served_by = worker_.shared().authority.served_by();
  const auto is_it = [&](const ServerAddress& address) {
    const Backend::Host& host = backend.hosts[address.host];
    return (host.name.empty() ? host.address : host.name) == served_by.host &&
           std::to_string(host.port) == served_by.port;
  };
  auto ordered = std::make_shared<std::vector<ServerAddress>>(*addresses_);
  const auto others = std::stable_partition(ordered->begin(), ordered->end(), is_it);
  if (backend.follows) {
    ordered->erase(others, ordered->end());
    if (ordered->empty() && connect_problem_.empty())
      connect_problem_ =
          "the proxy's own connection has not found yet which server of --backend is the right one";
  }
  addresses_ = std::move(ordered);
}

void Connection::resolved(Resolver::Addresses addresses, const std::string& problem) {
  if (stage_ != Stage::session || server_.stream.is_open()) return;
  connect_problem_ = problem;
  use(std::move(addresses));
  next_address();
  pump();
}

// Tries the server's addresses in turn, without blocking this thread. The client sees the reason of
// the last failure.
void Connection::next_address() {
  for (;;) {
    server_.stream.close();
    server_.watched = 0;
    connecting_ = Connecting::no;
    if (address_ >= addresses_->size()) {
      deadline_ = Instant::max();
      worker_.counters().connect_failures.add();
      const std::string why =
          connect_problem_.empty() ? "the server has no address" : connect_problem_;
      worker_.shared().log.say_seldom("connect", LogLevel::error, "backend_unreachable",
                                      {{"connection", id_}, {"reason", why}});
      return lost(server_, why);
    }
    const ServerAddress& server = (*addresses_)[address_++];
    const int descriptor =
        socket(server.endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
      add_problem(fmt::format("{}: {}", server.endpoint.text(), std::strerror(errno)));
      continue;
    }
    server_.stream.open(descriptor);
    http::tune(descriptor, server.endpoint.family(), settings_->options.keepalive);
    if (connect(descriptor, server.endpoint.address(), server.endpoint.size()) == 0)
      return server_connected();
    if (errno == EINPROGRESS) {
      connecting_ = Connecting::under_way;
      deadline_ = clock_now() + settings_->options.connect_timeout;
      return watch(server_);
    }
    if (errno == EAGAIN) {
      // A Unix socket whose queue is full: the server runs, and is busy.
      connecting_ = Connecting::retry;
      server_.stream.close();
      --address_;
      if (deadline_ == Instant::max()) deadline_ = clock_now() + settings_->options.connect_timeout;
      return;
    }
    add_problem(fmt::format("{}: {}", server.endpoint.text(), std::strerror(errno)));
  }
}

void Connection::server_connected() {
  connecting_ = Connecting::no;
  deadline_ = Instant::max();
  server_.connected = true;
  session_->resume(conversation::ServerConnected{}, clock_now());
}

void Connection::forget_server() {
  if (ticket_) worker_.shared().cancels.remove(*std::exchange(ticket_, std::nullopt));
  if (server_.stream.is_open()) {
    worker_.watch(server_.stream.descriptor(), &server_, 0, server_.watched);
    server_.stream.finish_writing();
    server_.stream.close();
  }
  server_.watched = 0;
  server_.connected = server_.handshaking = server_.blocked = server_.write_reads =
      server_.read_writes = server_.deaf = server_.unheard = false;
  server_.gone = true;
  server_spoke_ = false;
  connecting_ = Connecting::no;
}

CancelRegistry::Target Connection::target() const {
  const ServerAddress& server = (*addresses_)[address_ - 1];
  return {server.endpoint, server.name, server_.stream.is_tls(), session_->server_pid(),
          std::string(session_->server_key())};
}

// The client's connection stays open until the server has closed the one that carries the request.
// A client that waits for that knows that its cancel cannot hit a later statement.
bool Connection::forward_cancel() {
  if (cancel_ == Cancel::done) {
    if (actions_.size() == 1) actions_.push_back(Action::Kind::close_client);
    return true;
  }
  if (std::exchange(cancel_, Cancel::sent) == Cancel::sent) return false;
  identified();
  const auto found = worker_.shared().cancels.find(session_->cancel_pid(), session_->cancel_key());
  why_ = "cancel request";
  if (!found) worker_.counters().cancels_unknown.add();
  const bool under_way = found && worker_.cancel(*found, settings_, [worker = &worker_, id = id_] {
    // Posted, because this may be called from within cancel().
    worker->post([worker, id] {
      Connection* connection = worker->find(id);
      if (connection == nullptr) return;
      connection->cancel_ = Cancel::done;
      connection->pump();
    });
  });
  if (under_way) return false;
  cancel_ = Cancel::done;
  return forward_cancel();
}

// --- events to wait for ---

bool Connection::wants(const End& end) const {
  if (end.gone || end.handshaking || !end.connected) return false;
  if (!actions_.empty() && begins_tls(actions_.front())) return false;
  return end.client ? entry_ != Entry::established && session_->wants_client()
                    : session_->wants_server();
}

// Registers the events that matter now. While a session wants no bytes, its socket is not read: a
// slow peer slows the other one down instead of filling our memory.
void Connection::watch(End& end) {
  if (!end.stream.is_open()) return;
  std::uint32_t wanted = 0;
  if (end.client && stage_ != Stage::session && stage_ != Stage::direct_tls) {
    wanted = EPOLLIN;
  } else if (end.handshaking) {
    wanted = end.handshake_wants;
  } else if (!end.client && connecting_ != Connecting::no) {
    wanted = EPOLLOUT;
  } else if (!end.gone) {
    if (wants(end)) wanted |= end.read_writes ? EPOLLOUT : EPOLLIN;
    if (end.blocked) wanted |= end.write_reads ? EPOLLIN : EPOLLOUT;
    // Only a socket that is not watched at all stops reporting a hang-up again and again.
    if (wanted == EPOLLIN) end.deaf = false;
    if (wanted == 0 && !end.deaf) wanted = EPOLLERR;  // epoll adds this and EPOLLHUP anyway
  }
  worker_.watch(end.stream.descriptor(), &end, wanted, end.watched);
}

// --- the clock, other threads ---

void Connection::look_at_clock(Instant now) {
  if (stage_ == Stage::over) return;
  if (connecting_ == Connecting::retry && stage_ == Stage::session && now < deadline_) {
    next_address();
    pump();
  }
  if (now >= deadline_) {
    switch (stage_) {
      case Stage::proxy_header:
      case Stage::first_byte:
      case Stage::direct_tls:
        if (worker_.draining()) {
          give_up("57P03", shutting_down, "the proxy drains");
          break;
        }
        worker_.counters().greeting_timeouts.add();
        end("sent nothing within the greeting timeout (--greeting-timeout)");
        break;
      case Stage::session:
        if (connecting_ != Connecting::no) {
          deadline_ = Instant::max();
          add_problem(fmt::format(
              "{}: no answer within {} ms (--connect-timeout)",
              (*addresses_)[address_ == 0 ? 0 : std::min(address_ - 1, addresses_->size() - 1)]
                  .endpoint.text(),
              settings_->options.connect_timeout.count()));
          next_address();
          pump();
        } else if (server_.unheard && !server_.gone) {
          deadline_ = Instant::max();
          lost(server_, "it takes no more");
          pump();
        } else {
          end("its last message was not read in time");
        }
        break;
      case Stage::farewell: end(why_); break;
      case Stage::over: break;
    }
  }
  if (stage_ == Stage::session) {
    const auto deadline = session_->deadline();
    if (deadline && now >= *deadline) {
      session_->resume(conversation::Tick{}, now);
      pump();
    }
  }
}

void Connection::fences_rose(const Worker::Risen& risen) {
  if (stage_ != Stage::session || !fences_) return;
  const auto ours = risen.find(fences_->id());
  if (ours == risen.end()) return;
  // A session without a transaction looks up the highest fence when it begins one.
  using Phase = conversation::Conversation::Phase;
  const Phase phase = session_->phase();
  if (phase != Phase::in_transaction && phase != Phase::active &&
      !(phase == Phase::idle && ends_when_stale_))
    return;
  const auto now = clock_now();
  for (const auto& [scope, fence] : ours->second)
    session_->resume(conversation::FenceSeen{scope, fence}, now);
  pump();
}

void Connection::gates_wanted(const std::set<std::string, std::less<>>& scopes, bool certain) {
  if (stage_ != Stage::session || gate_.empty() || !scopes.contains(gate_)) return;
  const std::string scope = gate_;  // a copy, because the gate may be given back within the call
  session_->resume(conversation::GateWanted{scope, certain}, clock_now());
  pump();
}

void Connection::drain() {
  if (stage_ == Stage::proxy_header || stage_ == Stage::first_byte || stage_ == Stage::direct_tls) {
    deadline_ = std::min(deadline_, clock_now() + greeting_in_drain);
    return;
  }
  if (stage_ != Stage::session) return;
  session_->resume(conversation::Drain{}, clock_now());
  pump();
}

bool Connection::hung_up() const {
  pollfd one{client_.stream.descriptor(), POLLRDHUP, 0};
  return stage_ == Stage::session && poll(&one, 1, 0) == 1;
}

void Connection::cut(std::string_view sqlstate, std::string_view message) {
  if (stage_ != Stage::session) return end("cut");
  why_ = "cut";
  session_->resume(conversation::Cut{sqlstate, message}, clock_now());
  pump();
}

void Connection::give_up(std::string_view sqlstate, std::string_view message,
                         std::string_view why) {
  if (stage_ == Stage::session) return cut(sqlstate, message);
  if (!client_.stream.is_tls() && !speaks_tds() && silent()) {
    std::string report;
    pgwire::append_error_response(report, pgwire::report("FATAL", sqlstate, message));
    std::size_t bytes = 0;
    (void)client_.stream.write(report, bytes);
  }
  end(why);
}

Connection::Seen Connection::seen() const {
  if (!session_) return {};
  return {session_->phase() == conversation::Conversation::Phase::in_transaction, !gate_.empty(),
          session_->memory_bytes()};
}

// --- conversation::SessionHost ---

// Called only once the server has admitted the client: before that a client must not make the proxy
// query a database.
conversation::Fences* Connection::fences() const {
  if (!fences_) fences_ = worker_.shared().authority.fences(session_->login().database);
  return fences_.get();
}

std::int64_t Connection::highest_fence(std::string_view scope) const {
  const conversation::Fences* known = fences();
  const std::int64_t fence = known != nullptr ? known->highest(scope) : 0;
  // A term that was never checked must not cause a refusal, so it counts only where nothing is
  // refused.
  return observed_ ? std::max(fence, worker_.shared().observed.highest(observed_key(scope)))
                   : fence;
}

void Connection::saw_fence(std::string_view scope, std::int64_t fence) {
  if (conversation::Fences* known = fences()) known->hint(scope, fence);
}

std::string Connection::untrusted(std::string_view scope) const {
  const conversation::Fences* known = fences();
  return known != nullptr ? known->untrusted(scope) : std::string();
}

void Connection::holds_gate(std::string_view scope) {
  if (gate_ == scope) return;
  conversation::Authority& authority = worker_.shared().authority;
  if (!gate_.empty()) authority.gate_left(gate_);
  gate_ = scope;
  if (!gate_.empty()) authority.gate_held(gate_);
}

conversation::SeatOffer Connection::seat_offer() const {
  return session_ ? worker_.shared().authority.seat_offer(session_->login().database)
                  : conversation::SeatOffer();
}

void Connection::saw_term(std::string_view scope, std::int64_t term) {
  worker_.shared().observed.saw(observed_key(scope), term);
}

// NUL separates the two: neither a user's nor a database's name contains one.
bool Connection::server_has_guard() const {
  const conversation::LoginRequest& login = session_->login();
  return worker_.shared().guarded_logins.contains(login.user + '\0' + login.database);
}

void Connection::saw_server_guard(bool there) {
  const conversation::LoginRequest& login = session_->login();
  worker_.shared().guarded_logins.set(login.user + '\0' + login.database, there);
}

bool Connection::known_to_write(std::size_t text) const {
  return worker_.shared().writing_texts.contains(session_->login().database, text);
}

void Connection::saw_writing(std::size_t text) {
  worker_.shared().writing_texts.add(session_->login().database, text);
}

statements::Cache& Connection::statements() { return worker_.statements(); }

void Connection::happened(const conversation::Incident& incident) {
  worker_.happened(*this, incident);
}

// NUL separates the two: neither a scope nor a database's name contains one.
std::string Connection::observed_key(std::string_view scope) const {
  std::string key = session_->login().database;
  key += '\0';
  key += scope;
  return key;
}

// --- the end ---

// Gives back what the connection holds elsewhere, once.
void Connection::leave() {
  Shared& shared = worker_.shared();
  holds_gate({});
  fences_.reset();
  if (entry_ >= Entry::admitted) shared.authority.ended(id_);
  if (entry_ >= Entry::counted) {
    const conversation::LoginRequest& who = session_->login();
    shared.limits.leave(who.user, who.database, peer_.host());
  }
}

// Shuts our side down, then gives the client a moment to close. Closing with unread bytes would
// send a reset, which can overtake the last message.
void Connection::farewell() {
  forget_server();
  actions_.clear();
  stage_ = Stage::farewell;
  client_.handshaking = client_.blocked = false;
  client_.stream.finish_writing();
  deadline_ = clock_now() + farewell_takes;
  if (liveness_) liveness_->over();
  leave();
  session_.reset();
  watch(client_);
  drain_farewell();
}

void Connection::drain_farewell() {
  for (int i = 0; i < reads_at_once; ++i) {
    // Reads below TLS, because the content no longer matters.
    const ssize_t got =
        recv(client_.stream.descriptor(), worker_.buffer(), Worker::buffer_bytes, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    return end(why_);
  }
}

void Connection::end(std::string_view why) {
  if (stage_ == Stage::over) return;
  const bool was_silent = silent();
  const bool has_left = std::exchange(stage_, Stage::over) == Stage::farewell;
  identified();
  Shared& shared = worker_.shared();
  if (ticket_) shared.cancels.remove(*std::exchange(ticket_, std::nullopt));
  if (liveness_) liveness_->over();
  if (!has_left) leave();
  worker_.counters().closed.add();
  shared.log.say(
      entry_ >= Entry::established ? LogLevel::info : LogLevel::debug, "connection_closed",
      {{"connection", id_},
       {"client", peer_.text()},
       {"reason", why.empty() ? std::string_view("closed") : why},
       {"silent", was_silent},
       {"ms",
        std::chrono::duration_cast<std::chrono::milliseconds>(clock_now() - began_).count()}});
  session_.reset();
  client_.stream.close();
  server_.stream.close();
  // Last: the worker takes the object out of its lists, and destroys it after this round.
  worker_.bury(*this);
}

}  // namespace termgate::net
