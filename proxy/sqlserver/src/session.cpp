#include <termgate/tds_session/tds_session.hpp>

#include <algorithm>

#include "state.hpp"

namespace termgate::tds_session {

using conversation::Action;

TdsSession::State::State(const Options& options, Peer peer, conversation::SessionHost& host,
                         Instant now)
    : channel_(options, std::move(peer), host), started_(now), latest_(now) {}

bool TdsSession::State::awaited() const noexcept {
  switch (channel_.stage) {
    case Stage::entering:
    case Stage::raising: return true;
    case Stage::leaving: return !message_.raw.empty();
    case Stage::relaying: return relayed_ == Relayed::nothing;
    default: return false;
  }
}

bool TdsSession::State::drain_ends() {
  if (!draining_ || channel_.stage != Stage::ready || transaction_.is_open() || rows_may_come_ ||
      rest_ == Rest::dropped || !message_.raw.empty())
    return false;
  end(50006, "the proxy is shutting down");
  return true;
}

// Ends a session that cannot leave the gate: it is in a transaction, in the middle of a message, or
// its client does not read a result. The server rolls its transaction back.
void TdsSession::State::end_for_raise() {
  const std::string message =
      "TG006 a takeover of scope \"" + gate_.pair().scope +
      "\" has waited for this session as long as eviction_grace_ms: its open "
      "transaction is rolled back. Connect again";
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::evicted;
  incident.scope = gate_.pair().scope;
  incident.term = gate_.pair().term;
  incident.code = "TG006";
  incident.message = message;
  channel_.happened(incident);
  // Unsent bytes for a server that does not read must not delay the end.
  channel_.to_server.sent(channel_.to_server.size());
  end(50006, message);
}

void TdsSession::State::tick(Instant now) {
  const auto past = [&](Instant since, std::chrono::milliseconds most) {
    return most.count() > 0 && now - since >= most;
  };
  if (channel_.stage == Stage::closing) return;
  if (!channel_.logged_in()) {
    if (past(started_, channel_.options.login_timeout))
      end(18456, "the login took too long (--login-timeout)");
    return;
  }
  if (channel_.stage == Stage::entering || channel_.stage == Stage::leaving ||
      channel_.stage == Stage::raising) {
    if (past(gate_.called_at(), channel_.options.gate_answer_timeout))
      end(50006, "TG006 the gate did not answer in time");
    return;
  }
  if (channel_.stage != Stage::ready) return;
  if (may_leave() && past(gate_.used_at(), channel_.options.gate_idle_max))
    return send_leave(AfterLeave::ready, now);
  if (past(latest_, transaction_.is_open() ? channel_.options.idle_in_transaction_timeout
                                           : channel_.options.idle_timeout)) {
    end(50006, "the session was idle for too long");
  }
}

void TdsSession::State::fence_seen(const conversation::FenceSeen& event) {
  if (!gate_.held() || gate_.pair().scope != event.scope || event.fence <= gate_.pair().term)
    return;
  // No fence is raised while the gate is held, so the server has released it, and is ending this
  // session.
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::evicted;
  incident.scope = event.scope;
  incident.term = gate_.pair().term;
  incident.fence = event.fence;
  incident.code = "TG001";
  const std::string message = stale_message(gate_.pair(), event.fence);
  incident.message = message;
  channel_.happened(incident);
  end(50001, message);
}

// --- TdsSession ---

TdsSession::TdsSession(const Options& options, Peer peer, conversation::SessionHost& host,
                       Instant now)
    : state_(std::make_unique<State>(options, std::move(peer), host, now)) {}
TdsSession::~TdsSession() = default;

void TdsSession::resume(const conversation::ClientBytes& event, Instant now) {
  state_->take_client(event.bytes, now);
}
void TdsSession::resume(const conversation::ServerBytes& event, Instant now) {
  state_->take_server(event.bytes, now);
}

void TdsSession::resume(const conversation::ClientGone&, Instant) {
  // When its session ends, the server releases the gate and rolls back open work.
  if (state_->channel_.stage != Stage::closing) state_->channel_.close();
}

void TdsSession::resume(const conversation::ServerLost& event, Instant) {
  std::string why = event.why.empty() ? "the server has closed the connection"
                                      : "the server is lost: " + std::string(event.why);
  if (state_->channel_.stage == Stage::connecting)
    why = "the server cannot be reached: " + std::string(event.why);
  state_->end(50006, why);
}

void TdsSession::resume(const conversation::ClientTls&, Instant now) {
  if (state_->channel_.stage != Stage::client_tls) return;
  state_->login_.client_has_tls();
  state_->channel_.stage = Stage::client_login;
  state_->pump_client(now);
}

void TdsSession::resume(const conversation::ServerConnected&, Instant) {
  State& state = *state_;
  if (state.channel_.stage != Stage::connecting) return;
  if (state.channel_.options.server_tls != Options::ServerTls::strict)
    return state.login_.send_prelogin();
  state.channel_.stage = Stage::server_tls;
  state.channel_.act(Action::Kind::start_server_tls);
}

void TdsSession::resume(const conversation::ServerTls&, Instant) {
  if (state_->channel_.stage != Stage::server_tls) return;
  if (state_->channel_.options.server_tls == Options::ServerTls::strict)
    return state_->login_.send_prelogin();
  state_->login_.send_login();
}

void TdsSession::resume(const conversation::Admitted& event, Instant) {
  state_->login_.on_admitted(event.admission);
}

void TdsSession::resume(const conversation::FenceSeen& event, Instant) {
  state_->fence_seen(event);
}

void TdsSession::resume(const conversation::GateWanted& event, Instant now) {
  if (event.scope == state_->gate_.pair().scope) state_->wanted(event.certain, now);
}

void TdsSession::resume(const conversation::Drain&, Instant now) {
  State& state = *state_;
  state.draining_ = true;
  if (state.may_leave()) return state.send_leave(State::AfterLeave::ready, now);
  (void)state.drain_ends();
}

void TdsSession::resume(const conversation::Cut& event, Instant) {
  state_->end(number_of(event.sqlstate), event.message);
}
void TdsSession::resume(const conversation::Tick&, Instant now) { state_->tick(now); }

void TdsSession::resume(const conversation::Raised& event, Instant now) {
  state_->raised(event, now);
}

std::string_view TdsSession::to_client() const noexcept {
  return state_->channel_.to_client.view();
}
std::string_view TdsSession::to_server() const noexcept {
  return state_->channel_.to_server.view();
}
void TdsSession::sent_to_client(std::size_t bytes) noexcept {
  state_->channel_.to_client.sent(bytes);
}
void TdsSession::sent_to_server(std::size_t bytes) noexcept {
  state_->channel_.to_server.sent(bytes);
}

std::vector<conversation::Action> TdsSession::take_actions() {
  return std::exchange(state_->channel_.actions, {});
}

bool TdsSession::wants_client() const noexcept {
  const State& state = *state_;
  if (state.channel_.stage == Stage::closing || state.channel_.stage == Stage::client_tls)
    return false;
  if (state.channel_.to_server.size() > state.channel_.options.outbox_bytes_max ||
      state.channel_.to_client.size() > state.channel_.options.outbox_bytes_max)
    return false;
  return state.input_.size() < state.channel_.options.waiting_bytes_max;
}

bool TdsSession::wants_server() const noexcept {
  return state_->channel_.stage != Stage::closing &&
         state_->channel_.to_client.size() <= state_->channel_.options.outbox_bytes_max;
}

std::optional<Instant> TdsSession::deadline() const noexcept {
  const State& state = *state_;
  const auto after = [](Instant since, std::chrono::milliseconds time) {
    return time.count() > 0 ? std::optional(since + time) : std::nullopt;
  };
  if (state.channel_.stage == Stage::closing) return std::nullopt;
  if (!state.channel_.logged_in())
    return after(state.started_, state.channel_.options.login_timeout);
  if (state.channel_.stage == Stage::relaying) return std::nullopt;
  if (state.channel_.stage != Stage::ready)
    return after(state.gate_.called_at(), state.channel_.options.gate_answer_timeout);
  auto due = after(state.latest_, state.transaction_.is_open()
                                      ? state.channel_.options.idle_in_transaction_timeout
                                      : state.channel_.options.idle_timeout);
  if (state.may_leave()) {
    const Instant leave = state.gate_.used_at() + state.channel_.options.gate_idle_max;
    due = due ? std::min(*due, leave) : leave;
  }
  return due;
}

const conversation::LoginRequest& TdsSession::login() const noexcept {
  return state_->login_.request();
}
std::string_view TdsSession::raise_scope() const noexcept { return state_->gate_.pair().scope; }
std::int64_t TdsSession::raise_term() const noexcept { return state_->gate_.pair().term; }

conversation::Conversation::Phase TdsSession::phase() const noexcept {
  const State& state = *state_;
  switch (state.channel_.stage) {
    case Stage::client_prelogin:
    case Stage::client_tls:
    case Stage::client_login: return Phase::greeting;
    case Stage::admission:
    case Stage::connecting: return Phase::connecting;
    case Stage::server_prelogin:
    case Stage::server_tls:
    case Stage::server_login:
    case Stage::client_sspi:
    case Stage::hello: return Phase::login;
    case Stage::ready:
      return state.transaction_.is_open() ? Phase::in_transaction
             : state.gate_.held()         ? Phase::active
                                          : Phase::idle;
    case Stage::entering:
    case Stage::raising:
    case Stage::relaying:
    case Stage::leaving:
      return state.transaction_.is_open() ? Phase::in_transaction : Phase::active;
    case Stage::closing: break;
  }
  return Phase::closing;
}

std::size_t TdsSession::memory_bytes() const noexcept {
  const State& state = *state_;
  return sizeof(State) + state.channel_.to_client.capacity() + state.channel_.to_server.capacity() +
         state.input_.capacity() + state.message_.raw.capacity() +
         state.message_.payload.capacity() + state.channel_.tokens.buffered() +
         state.login_.memory_bytes();
}

}  // namespace termgate::tds_session
