#include <termgate/tds_session/tds_session.hpp>

#include <algorithm>

#include "state.hpp"

namespace termgate::tds_session {

using conversation::Action;

namespace {

constexpr std::uint8_t fatal = 20;

}  // namespace

TdsSession::State::State(const Options& options, Peer peer, conversation::SessionHost& host, Instant now)
    : options_(options), peer_(std::move(peer)), host_(host), started_(now), latest_(now), encrypted_(peer_.encrypted_already) {}

void TdsSession::State::malformed_peer(std::string_view who, std::string_view why) {
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::malformed;
  const std::string message = std::string(who) + ": " + std::string(why);
  incident.message = message;
  happened(incident);
  end(50006, who == "client" ? "the client broke the protocol (TDS): " + std::string(why)
                             : "the server broke the protocol (TDS): " + std::string(why));
}

void TdsSession::State::end(std::uint32_t number, std::string_view message) {
  if (stage_ == Stage::closing) return;
  const bool awaited = stage_ == Stage::entering || stage_ == Stage::raising || (stage_ == Stage::leaving && !message_.raw.empty()) ||
                       (stage_ == Stage::relaying && !relayed_any_);
  const bool in_login = stage_ >= Stage::client_login && stage_ <= Stage::hello && stage_ != Stage::client_tls;
  if (awaited || in_login) {
    std::string payload;
    tds::append_report(payload, tds::token::error, number, fatal, message, "termgate", tds_version_);
    tds::append_done(payload, {tds::token::done, tds::done_status::error, 0, 0}, tds_version_);
    say_to_client(payload);
  }
  stage_ = Stage::closing;
  act(Action::Kind::close_server);
  act(Action::Kind::close_client);
}

bool TdsSession::State::drain_ends() {
  if (!draining_ || stage_ != Stage::ready || in_transaction() || bulk_expected_ || swallowing_ || !message_.raw.empty()) return false;
  end(50006, "the proxy is shutting down");
  return true;
}

// Behind a result that nobody reads, in the middle of a message, in a transaction: the server rolls it back with its session.
void TdsSession::State::end_for_raise() {
  const std::string message = "TG006 a takeover of scope \"" + pair_.scope +
                              "\" has waited for this session for the eviction grace: its open transaction is rolled back. Connect again";
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::evicted;
  incident.scope = pair_.scope;
  incident.term = pair_.term;
  incident.code = "TG006";
  incident.message = message;
  happened(incident);
  // What is on its way to a server that does not read must not put off its end.
  server_out_.sent(server_out_.size());
  end(50006, message);
}

void TdsSession::State::tick(Instant now) {
  const auto past = [&](Instant since, std::chrono::milliseconds most) { return most.count() > 0 && now - since >= most; };
  if (stage_ == Stage::closing) return;
  if (!logged_in()) {
    if (past(started_, options_.login_timeout)) end(18456, "the login took too long (--login-timeout)");
    return;
  }
  if (stage_ == Stage::entering || stage_ == Stage::leaving || stage_ == Stage::raising) {
    if (past(sent_, options_.gate_answer_timeout)) end(50006, "TG006 the gate did not answer in time");
    return;
  }
  if (stage_ != Stage::ready) return;
  if (may_leave() && past(used_, options_.gate_idle_max)) return send_leave(AfterLeave::ready, now);
  if (past(latest_, in_transaction() ? options_.idle_in_transaction_timeout : options_.idle_timeout)) {
    end(50006, "the session was idle for too long");
  }
}

// --- TdsSession ---

TdsSession::TdsSession(const Options& options, Peer peer, conversation::SessionHost& host, Instant now)
    : state_(std::make_unique<State>(options, std::move(peer), host, now)) {}
TdsSession::~TdsSession() = default;

void TdsSession::resume(const conversation::ClientBytes& event, Instant now) { state_->take_client(event.bytes, now); }
void TdsSession::resume(const conversation::ServerBytes& event, Instant now) { state_->take_server(event.bytes, now); }

void TdsSession::resume(const conversation::ClientGone&, Instant) {
  if (state_->stage_ == Stage::closing) return;
  // With its session the server gives back the gate, and rolls back what was open.
  state_->stage_ = Stage::closing;
  state_->act(Action::Kind::close_server);
  state_->act(Action::Kind::close_client);
}

void TdsSession::resume(const conversation::ServerLost& event, Instant) {
  std::string why = event.why.empty() ? "the server has closed the connection" : "the server is lost: " + std::string(event.why);
  if (state_->stage_ == Stage::connecting) why = "the server cannot be reached: " + std::string(event.why);
  state_->end(50006, why);
}

void TdsSession::resume(const conversation::ClientTls&, Instant now) {
  if (state_->stage_ != Stage::client_tls) return;
  state_->encrypted_ = true;
  state_->stage_ = Stage::client_login;
  state_->pump_client(now);
}

void TdsSession::resume(const conversation::ServerConnected&, Instant) {
  State& state = *state_;
  if (state.stage_ != Stage::connecting) return;
  if (state.options_.server_tls != Options::ServerTls::strict) return state.send_server_prelogin();
  state.stage_ = Stage::server_tls;
  state.act(Action::Kind::start_server_tls);
}

void TdsSession::resume(const conversation::ServerTls&, Instant) {
  if (state_->stage_ != Stage::server_tls) return;
  if (state_->options_.server_tls == Options::ServerTls::strict) return state_->send_server_prelogin();
  state_->send_login();
}

void TdsSession::resume(const conversation::Admitted& event, Instant now) { state_->on_admitted(event.admission, now); }

void TdsSession::resume(const conversation::FenceSeen& event, Instant) {
  State& state = *state_;
  if (state.gate_ != State::Gate::held || state.pair_.scope != event.scope || event.fence <= state.pair_.term) return;
  // Nobody raises while the gate is held: the server has taken it away, and is ending this session.
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::evicted;
  incident.scope = event.scope;
  incident.term = state.pair_.term;
  incident.fence = event.fence;
  incident.code = "TG001";
  const std::string message = "TG001 stale term " + std::to_string(state.pair_.term) + " for scope \"" + std::string(event.scope) +
                              "\": the fence stands at " + std::to_string(event.fence);
  incident.message = message;
  state.happened(incident);
  state.end(50001, message);
}

void TdsSession::resume(const conversation::GateWanted& event, Instant now) {
  if (event.scope == state_->pair_.scope) state_->wanted(event.certain, now);
}

void TdsSession::resume(const conversation::Drain&, Instant now) {
  State& state = *state_;
  state.draining_ = true;
  if (state.may_leave()) return state.send_leave(State::AfterLeave::ready, now);
  (void)state.drain_ends();
}

void TdsSession::resume(const conversation::Cut& event, Instant) { state_->end(number_of(event.sqlstate), event.message); }
void TdsSession::resume(const conversation::Tick&, Instant now) { state_->tick(now); }

void TdsSession::resume(const conversation::Raised& event, Instant now) {
  State& state = *state_;
  if (state.stage_ != Stage::raising) return;
  state.stage_ = Stage::ready;
  if (state.cancelled_) {
    state.cancelled_ = false;
    state.message_ = {};
    state.answer_attention();
    return state.pump_client(now);
  }
  if (event.code.empty()) return state.send_enter(ScopedTerm(state.pair_), now);
  state.refuse(event.code, event.message, false, now);
  state.pump_client(now);
}

std::string_view TdsSession::to_client() const noexcept { return state_->client_out_.view(); }
std::string_view TdsSession::to_server() const noexcept { return state_->server_out_.view(); }
void TdsSession::sent_to_client(std::size_t bytes) noexcept { state_->client_out_.sent(bytes); }
void TdsSession::sent_to_server(std::size_t bytes) noexcept { state_->server_out_.sent(bytes); }

std::vector<conversation::Action> TdsSession::take_actions() { return std::exchange(state_->actions_, {}); }

bool TdsSession::wants_client() const noexcept {
  const State& state = *state_;
  if (state.stage_ == Stage::closing || state.stage_ == Stage::client_tls) return false;
  if (state.server_out_.size() > state.options_.outbox_bytes_max || state.client_out_.size() > state.options_.outbox_bytes_max)
    return false;
  return state.input_.size() < state.options_.waiting_bytes_max;
}

bool TdsSession::wants_server() const noexcept {
  return state_->stage_ != Stage::closing && state_->client_out_.size() <= state_->options_.outbox_bytes_max;
}

std::optional<Instant> TdsSession::deadline() const noexcept {
  const State& state = *state_;
  const auto after = [](Instant since, std::chrono::milliseconds time) {
    return time.count() > 0 ? std::optional(since + time) : std::nullopt;
  };
  if (state.stage_ == Stage::closing) return std::nullopt;
  if (!state.logged_in()) return after(state.started_, state.options_.login_timeout);
  if (state.stage_ == Stage::relaying) return std::nullopt;
  if (state.stage_ != Stage::ready) return after(state.sent_, state.options_.gate_answer_timeout);
  auto due = after(state.latest_, state.in_transaction() ? state.options_.idle_in_transaction_timeout : state.options_.idle_timeout);
  if (state.may_leave()) {
    const Instant leave = state.used_ + state.options_.gate_idle_max;
    due = due ? std::min(*due, leave) : leave;
  }
  return due;
}

const conversation::LoginRequest& TdsSession::login() const noexcept { return state_->login_; }
std::string_view TdsSession::raise_scope() const noexcept { return state_->pair_.scope; }
std::int64_t TdsSession::raise_term() const noexcept { return state_->pair_.term; }

conversation::Conversation::Phase TdsSession::phase() const noexcept {
  const State& state = *state_;
  switch (state.stage_) {
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
      return state.in_transaction() ? Phase::in_transaction : state.gate_ == State::Gate::held ? Phase::active : Phase::idle;
    case Stage::entering:
    case Stage::raising:
    case Stage::relaying:
    case Stage::leaving: return state.in_transaction() ? Phase::in_transaction : Phase::active;
    case Stage::closing: break;
  }
  return Phase::closing;
}

std::size_t TdsSession::memory_bytes() const noexcept {
  const State& state = *state_;
  return sizeof(State) + state.client_out_.capacity() + state.server_out_.capacity() + state.input_.capacity() +
         state.message_.raw.capacity() + state.message_.payload.capacity() + state.tokens_.buffered() + state.login7_.capacity() +
         state.login_answer_.capacity();
}

}  // namespace termgate::tds_session
