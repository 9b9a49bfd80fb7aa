// The session decides which messages are sent; the relay moves bytes and carries out the session's
// actions in order. An action that has to wait stays first.
#include "relay.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <openssl/rand.h>

#include <termgate/pg_session/session.hpp>
#include <termgate/tds_session/tds_session.hpp>

#include "connection.hpp"

namespace termgate::net {
namespace {

using conversation::Action;
using conversation::Instant;

// How many buffers are read before other connections get their turn.
constexpr int reads_at_once = 4;
// How long a client may take to read the last messages.
constexpr std::chrono::seconds last_words_take{5};
constexpr std::size_t secret_bytes = 32;

bool begins_tls(Action::Kind kind) noexcept {
  return kind == Action::Kind::start_client_tls || kind == Action::Kind::start_server_tls ||
         kind == Action::Kind::start_wrapped_client_tls ||
         kind == Action::Kind::start_wrapped_server_tls;
}

Instant clock_now() { return std::chrono::steady_clock::now(); }

}  // namespace

void Relay::begin(bool encrypted) {
  secret_.resize(secret_bytes);
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret_.data()),
                 static_cast<int>(secret_.size())) != 1)
    return connection_.end("no randomness");
  const Options& options = connection_.settings()->options;
  const Endpoint& client = connection_.peer();
  if (worker_.shared().speaks_tds()) {
    session_ = std::make_unique<tds_session::TdsSession>(
        options.tds, tds_session::Peer{client.local(), encrypted, secret_}, host_, clock_now());
  } else {
    pg_session::Peer peer;
    peer.local = client.local();
    peer.encrypted_already = encrypted;
    peer.cancel_key = secret_;
    session_ =
        std::make_unique<pg_session::Session>(options.session, std::move(peer), host_, clock_now());
  }
  if (worker_.draining()) session_->resume(conversation::Drain{}, clock_now());
  // The byte that began the session is still in the socket. Under TLS the handshake has read it.
  if (!encrypted) read_some(client_);
  pump();
}

Relay::Seen Relay::seen() const {
  if (!running()) return {};
  return {session_->phase() == conversation::Conversation::Phase::in_transaction,
          !host_.gate().empty(), session_->memory_bytes()};
}

// --- events from epoll

// Every case ends in pump().
void Relay::ready(End& end, std::uint32_t events) {
  if (!end.client && dialer_.connecting()) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(end.stream().descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
      server_connected();
    } else {
      dialer_.add_problem(std::strerror(error));
      next_address();
    }
  } else if (end.handshaking()) {
    step_handshake(end);
  } else if (end.wake(events)) {
    if (wants(end)) read_some(end);
    else if ((events & (EPOLLHUP | EPOLLERR)) != 0) end.set_deaf();
  }
  pump();
}

// The bytes stay in the worker's buffer; the session copies what it cannot process at once.
void Relay::read_some(End& end) {
  for (int i = 0; i < reads_at_once; ++i) {
    std::size_t bytes = 0;
    const auto outcome = end.read(worker_.buffer(), Worker::buffer_bytes, bytes);
    switch (outcome) {
      case Stream::Io::done: {
        assert(session_ && "bytes are read for a session only");
        const std::string_view given(worker_.buffer(), bytes);
        if (end.client) {
          worker_.counters().bytes_from_clients.add(static_cast<std::int64_t>(bytes));
          session_->resume(conversation::ClientBytes{given}, clock_now());
        } else {
          worker_.counters().bytes_from_servers.add(static_cast<std::int64_t>(bytes));
          session_->resume(conversation::ServerBytes{given}, clock_now());
        }
        break;
      }
      case Stream::Io::wait_read:
      case Stream::Io::wait_write: return;
      case Stream::Io::end: return lost(end, "");
      case Stream::Io::failed: return lost(end, end.stream().why());
    }
    // A short read means that the socket is empty, so another read would be a wasted system call. A
    // TLS record has up to 16 kB.
    if (bytes < (end.stream().is_tls() ? std::size_t{8} << 10 : Worker::buffer_bytes)) return;
    pump();
    if (!running() || !wants(end)) return;
  }
}

void Relay::step_handshake(End& end) {
  switch (end.handshake()) {
    case Stream::Io::wait_read:
    case Stream::Io::wait_write: return;
    case Stream::Io::done:
      if (end.client) session_->resume(conversation::ClientTls{}, clock_now());
      else session_->resume(conversation::ServerTls{}, clock_now());
      return;
    case Stream::Io::end:
    case Stream::Io::failed: lost(end, "TLS: " + connection_.tls_failed(end));
  }
}

// One end has closed or failed. The session is notified once; what it still wants to send to the
// other end is sent.
void Relay::lost(End& end, std::string_view why) {
  if (end.gone()) return;
  end.set_gone();
  if (end.unheard()) {
    end.set_unheard(false);
    deadline_ = Instant::max();
  }
  if (why_.empty())
    why_ = fmt::format("{} {}", end.client ? "client" : "server", why.empty() ? "closed" : why);
  if (end.client) session_->resume(conversation::ClientGone{}, clock_now());
  else if (!why.empty() && end.stream().is_tls() && !end.spoke() &&
           session_->phase() == conversation::Conversation::Phase::login) {
    // A server that refuses our certificate reports that in TLS, below its protocol. Without this,
    // the client would only see a close.
    const std::string message = fmt::format("the server ended the login: {}", why);
    conversation::Incident incident;
    incident.kind = conversation::Incident::Kind::login_refused;
    incident.code = "08006";
    incident.message = message;
    host_.happened(incident);
    session_->resume(conversation::Cut{incident.code, message}, clock_now());
  } else session_->resume(conversation::ServerLost{why}, clock_now());
}

// --- actions

void Relay::pump() {
  // An action can lead back here (a connect that fails at once): the outer call then continues with
  // it.
  if (!running() || pumping_) return;
  pumping_ = true;
  // Repeats until nothing changes: an action may produce bytes, and bytes an action.
  for (bool more = true; more && running();) {
    flush(server_);
    flush(client_);
    for (const Action& action : session_->take_actions()) actions_.push_back(action.kind);
    more = run_actions();
    // The phase shows that the server, too, has let the client in. A cancel key would not: some
    // servers send none.
    if (admittance_.admitted() && running() &&
        session_->phase() >= conversation::Conversation::Phase::idle &&
        session_->phase() != conversation::Conversation::Phase::closing)
      admittance_.establish(session_->login(), client_.stream().is_tls());
  }
  pumping_ = false;
  if (!running()) return;
  watch(client_);
  watch(server_);
}

// Writes as much of the session's bytes for one end as the socket takes.
void Relay::flush(End& end) {
  for (;;) {
    const std::string_view out = end.client ? session_->to_client() : session_->to_server();
    if (out.empty()) return;
    std::size_t bytes = out.size();
    if (!end.gone() && !end.unheard()) {
      if (!end.writable()) return;
      switch (end.write(out, bytes)) {
        case Stream::Io::done: break;
        case Stream::Io::wait_read:
        case Stream::Io::wait_write: return;
        case Stream::Io::end: lost(end, ""); continue;
        case Stream::Io::failed: write_failed(end); continue;
      }
    }
    // Bytes for an end that is gone are dropped.
    if (end.client) session_->sent_to_client(bytes);
    else session_->sent_to_server(bytes);
  }
}

void Relay::write_failed(End& end) {
  std::string why = end.stream().why();
  if (!end.client && end.stream().is_tls() && !end.spoke()) {
    // The server closed before the proxy sent anything, and its reason may be there to read.
    std::size_t heard = 0;
    const auto outcome = end.read(worker_.buffer(), Worker::buffer_bytes, heard);
    if (outcome == Stream::Io::failed) why = end.stream().why();
    if (outcome == Stream::Io::done)
      session_->resume(conversation::ServerBytes{std::string_view(worker_.buffer(), heard)},
                       clock_now());
  }
  // A server that ends a session sends the reason before it closes, which may arrive after it has
  // stopped reading.
  if (!end.client && !end.stream().is_tls() &&
      session_->phase() >= conversation::Conversation::Phase::idle) {
    end.set_unheard(true);
    deadline_ = std::min(deadline_, clock_now() + last_words_take);
    return;
  }
  lost(end, why);
}

// Carries out the actions in order. An action that has to wait stays first and delays those after
// it.
bool Relay::run_actions() {
  bool any = false;
  while (!actions_.empty() && running()) {
    if (!do_action(actions_.front())) return any;
    any = true;
    if (!actions_.empty()) actions_.pop_front();
  }
  return any;
}

// False: the action has to wait, and stays first.
bool Relay::do_action(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::start_client_tls:
    case Action::Kind::start_wrapped_client_tls:
      return session_->to_client().empty() &&
             begin_tls(client_, kind == Action::Kind::start_wrapped_client_tls);
    case Action::Kind::start_server_tls:
    case Action::Kind::start_wrapped_server_tls:
      return session_->to_server().empty() &&
             begin_tls(server_, kind == Action::Kind::start_wrapped_server_tls);
    case Action::Kind::admit:
      if (auto refused = admittance_.request(session_->login())) {
        why_ = "limit met";
        session_->resume(conversation::Admitted{std::move(*refused)}, clock_now());
      }
      return true;
    case Action::Kind::connect_server: connect_server(); return true;
    case Action::Kind::registered:
      admittance_.establish(session_->login(), client_.stream().is_tls());
      if (!ticket_ && server_.alive()) ticket_ = worker_.shared().cancels.add(target(), secret_);
      return true;
    case Action::Kind::forward_cancel: return forward_cancel();
    case Action::Kind::raise: raise(); return true;
    case Action::Kind::close_server:
      if (last_words_left(false)) return false;
      forget_server();
      return true;
    case Action::Kind::close_client:
      if (last_words_left(true)) return false;
      if (client_.gone()) connection_.end(why_);
      else connection_.farewell(why_);
      return true;
  }
  return true;
}

// Whether an end has not taken all of its last bytes yet. If so, it gets last_words_take for that.
bool Relay::last_words_left(bool of_client) {
  const bool left = (!session_->to_server().empty() && server_.alive()) ||
                    (of_client && !session_->to_client().empty() && !client_.gone());
  if (left) deadline_ = std::min(deadline_, clock_now() + last_words_take);
  return left;
}

// Raises the fence on a connection of the proxy's own. The session continues when that has
// succeeded or failed.
void Relay::raise() {
  worker_.shared().authority.raise(
      session_->raise_scope(), session_->raise_term(),
      [worker = &worker_, id = connection_.id()](std::string_view code, std::string_view message) {
        worker->post([worker, id, code = std::string(code), message = std::string(message)] {
          if (Connection* connection = worker->find(id))
            connection->relay().tell(conversation::Raised{code, message});
        });
      });
}

bool Relay::begin_tls(End& end, bool wrapped) {
  if (end.gone()) return true;
  const Settings& settings = *connection_.settings();
  const int descriptor = end.stream().descriptor();
  SSL* ssl = nullptr;
  if (end.client && settings.client_tls) ssl = tls_to_client(settings.client_tls, descriptor);
  if (!end.client && settings.server_tls)
    ssl = tls_to_server(settings.server_tls, worker_.shared().backend, dialer_.address().name,
                        descriptor);
  if (ssl == nullptr) {
    lost(end, "TLS: no context for it");
    return true;
  }
  if (wrapped) {
    // TLS 1.3 sends messages after its handshake, which would have to be wrapped too, and the
    // specification does not cover that.
    SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
    SSL_set_alpn_protos(ssl, nullptr, 0);
  }
  if (!end.start_tls(ssl, wrapped)) {
    lost(end, "TLS: no memory");
    return true;
  }
  step_handshake(end);
  return true;
}

void Relay::admitted(conversation::Admission admission) {
  if (!admittance_.answered(admission, session_->login())) why_ = "refused";
  host_.set_observed(admission.enforce == conversation::Enforce::observe);
  ends_when_stale_ = admission.on_stale == conversation::OnStale::disconnect;
  tell(conversation::Admitted{std::move(admission)});
}

void Relay::allowed() {
  admittance_.set_ready();
  pump();
}

// --- the server

void Relay::connect_server() {
  forget_server();
  server_.revive();
  dialer_.begin();
  Shared& shared = worker_.shared();
  if (auto known = shared.resolver.known(clock_now())) {
    dialer_.use(std::move(known));
    return next_address();
  }
  shared.blocking_pool.run([&shared, worker = &worker_, id = connection_.id()] {
    std::string problem;
    auto addresses = shared.resolver.resolve(problem);
    worker->post([worker, id, addresses = std::move(addresses), problem = std::move(problem)] {
      if (Connection* connection = worker->find(id))
        connection->relay().resolved(addresses, problem);
    });
  });
}

void Relay::resolved(Resolver::Addresses addresses, const std::string& problem) {
  if (!running() || server_.stream().is_open()) return;
  dialer_.use(std::move(addresses), problem);
  next_address();
  pump();
}

// After the last address has failed, the session gets the reasons of all.
void Relay::next_address() {
  const Options& options = connection_.settings()->options;
  switch (dialer_.next(options)) {
    case Dialer::State::idle: break;
    case Dialer::State::connected: return server_connected();
    case Dialer::State::under_way:
      deadline_ = clock_now() + options.connect_timeout;
      return watch(server_);
    case Dialer::State::busy:
      if (deadline_ == Instant::max()) deadline_ = clock_now() + options.connect_timeout;
      return;
    case Dialer::State::failed:
      deadline_ = Instant::max();
      worker_.counters().connect_failures.add();
      worker_.shared().log.say_seldom(
          "connect", LogLevel::error, "backend_unreachable",
          {{"connection", connection_.id()}, {"reason", dialer_.problem()}});
      return lost(server_, dialer_.problem());
  }
}

void Relay::server_connected() {
  dialer_.set_connected();
  deadline_ = Instant::max();
  server_.set_connected();
  session_->resume(conversation::ServerConnected{}, clock_now());
}

void Relay::forget_server() {
  if (ticket_) worker_.shared().cancels.remove(*std::exchange(ticket_, std::nullopt));
  server_.reset(worker_);
  dialer_.stop();
}

CancelRegistry::Target Relay::target() const {
  const ServerAddress& server = dialer_.address();
  return {server.endpoint, server.name, server_.stream().is_tls(), session_->server_pid(),
          std::string(session_->server_key())};
}

// The client's connection stays open until the server has closed the one that carries the request.
// A client that waits for that knows that its cancel cannot hit a later statement.
bool Relay::forward_cancel() {
  if (cancel_ == Cancel::done) {
    if (actions_.size() == 1) actions_.push_back(Action::Kind::close_client);
    return true;
  }
  if (std::exchange(cancel_, Cancel::sent) == Cancel::sent) return false;
  admittance_.identified();
  const auto found = worker_.shared().cancels.find(session_->cancel_pid(), session_->cancel_key());
  why_ = "cancel request";
  if (!found) worker_.counters().cancels_unknown.add();
  const auto done = [worker = &worker_, id = connection_.id()] {
    // Posted, because this may be called from within cancel().
    worker->post([worker, id] {
      if (Connection* connection = worker->find(id)) connection->relay().cancelled();
    });
  };
  if (found && worker_.cancel(*found, connection_.settings(), done)) return false;
  cancel_ = Cancel::done;
  return forward_cancel();
}

void Relay::cancelled() {
  cancel_ = Cancel::done;
  pump();
}

// --- events to wait for

bool Relay::wants(const End& end) const {
  if (!end.readable() || (!actions_.empty() && begins_tls(actions_.front()))) return false;
  return end.client ? !admittance_.waits() && session_->wants_client() : session_->wants_server();
}

// Registers the events that matter now. While a session wants no bytes, its socket is not read: a
// slow peer slows the other one down instead of filling our memory.
void Relay::watch(End& end) {
  if (!end.stream().is_open()) return;
  const bool connecting = !end.client && dialer_.connecting();
  end.watch(worker_, connecting ? std::uint32_t{EPOLLOUT} : end.interest(wants(end)));
}

// --- the clock, other threads

void Relay::look_at_clock(Instant now) {
  if (dialer_.busy() && now < deadline_) {
    next_address();
    pump();
  }
  if (running() && now >= deadline_) {
    if (dialer_.connecting()) {
      deadline_ = Instant::max();
      dialer_.add_problem(fmt::format("no answer within {} ms (--connect-timeout)",
                                      connection_.settings()->options.connect_timeout.count()));
      next_address();
      pump();
    } else if (server_.unheard() && !server_.gone()) {
      deadline_ = Instant::max();
      lost(server_, "it takes no more");
      pump();
    } else {
      connection_.end("its last message was not read in time");
    }
  }
  if (!running()) return;
  const auto deadline = session_->deadline();
  if (deadline && now >= *deadline) {
    session_->resume(conversation::Tick{}, now);
    pump();
  }
}

void Relay::fences_rose(const Worker::Risen& risen) {
  if (!running() || host_.known_fences() == nullptr) return;
  const auto ours = risen.find(host_.known_fences()->id());
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

void Relay::gates_wanted(const std::set<std::string, std::less<>>& scopes, bool certain) {
  if (!running() || host_.gate().empty() || !scopes.contains(host_.gate())) return;
  const std::string scope = host_.gate();  // a copy: the gate may be given back within the call
  tell(conversation::GateWanted{scope, certain});
}

void Relay::cut(std::string_view sqlstate, std::string_view message) {
  why_ = "cut";
  tell(conversation::Cut{sqlstate, message});
}

// --- the end

void Relay::finish() {
  forget_server();
  leave();
}

void Relay::close() {
  admittance_.identified();
  if (ticket_) worker_.shared().cancels.remove(*std::exchange(ticket_, std::nullopt));
  if (running()) leave();
  server_.close();
}

void Relay::leave() {
  actions_.clear();
  host_.leave();
  admittance_.leave(session_->login());
  session_.reset();
}

}  // namespace termgate::net
