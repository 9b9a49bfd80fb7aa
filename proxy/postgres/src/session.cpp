// The server's bytes as messages; how a session ends and what ends it: errors, deadlines, a drain,
// an eviction; and the public face of Session, which forwards to State. One thread calls resume()
// at a time (conversation.hpp); no call blocks and none does I/O.
#include <termgate/pg_session/session.hpp>

#include <algorithm>
#include <cassert>
#include <utility>

#include <termgate/pgwire/types.hpp>

#include "names.hpp"
#include "state.hpp"

namespace termgate::pg_session {

namespace backend = pgwire::backend;
using pgwire::Event;
using pgwire::TransactionStatus;

Session::State::State(const Options& options, Peer peer, SessionHost& session_host, Instant now)
    : line_(options, std::move(peer), session_host, now) {}

// Cuts the server's bytes into messages. login.cpp handles those of the login; rows that the client
// may see are forwarded in runs, without parsing each.
void Session::State::from_server(std::string_view bytes) {
  if (line_.stage == Stage::server_greeting) {
    if (bytes.empty()) return;
    login_.server_greeted(bytes);
    if (bytes.empty()) return;
  }
  if (line_.stage == Stage::replication) return replication_.from_server(bytes);
  while (!bytes.empty() && (line_.stage == Stage::login || line_.stage == Stage::ready)) {
    if (const std::string_view answers = passage_.answers_in(bytes); !answers.empty()) {
      line_.to_client.back() += answers;
      bytes.remove_prefix(answers.size());
      if (bytes.empty()) return;
    }
    const Event event = line_.server_reader.next(bytes);
    bytes.remove_prefix(event.used);
    switch (event.kind) {
      case Event::Kind::need_more: return;
      case Event::Kind::announced: break;
      case Event::Kind::malformed:
        line_.host.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        return line_.end("08P01",
                         std::string("the server: ") + std::string(event.problem.reason()));
      case Event::Kind::message:
      case Event::Kind::part:
        if (line_.stage == Stage::login) {
          login_event(event);
        } else {
          if (replies_.server_event(event)) settle();
          if (event.last && line_.router.shows() &&
              (event.type == backend::data_row || event.type == backend::copy_data) &&
              line_.stage == Stage::ready) {
            // The rows that follow a shown row are shown too.
            const std::string_view rows = line_.server_reader.run_of(event.type, bytes);
            line_.to_client.back() += rows;
            bytes.remove_prefix(rows.size());
          }
        }
        break;
    }
    if (line_.stage == Stage::replication) return replication_.from_server(bytes);
    if (replies_.take_pump()) pump();
  }
}

// Called when every request is answered: from here on the server's report about the transaction
// counts.
void Session::State::settle() {
  if (line_.client_mid_frame) {
    line_.settle_after_frame = true;
    return;
  }
  assert(line_.server.replies.empty() && "every request is answered");
  if (!pipeline_.begun()) replies_.settle_transaction();
  line_.quiet_since = line_.now;
  if (login_.keeps_ready()) login_.give_ready();
  if (lone_.goes_on()) return;
  if (model_.status == TransactionStatus::idle && claims_.guard_from_here())
    model_.by_default.broken = true;
  if (model_.by_default.broken && model_.status != TransactionStatus::failed)
    return own_.restore_default(true);
  if (script_.running) {
    scripts_.next_piece();
    if (!line_.server.replies.empty() || script_.running) return;
  }
  idle_now();
  pump();
}

// Nothing is under way: ends a draining session whose messages are all answered, attends to the
// seat, and ends a stale session.
void Session::State::idle_now() {
  if (line_.draining && line_.stage == Stage::ready && line_.server.replies.empty() &&
      model_.status == pgwire::TransactionStatus::idle && !pipeline_.begun() && !line_.deferred &&
      line_.client_in.empty()) {
    line_.end("57P01", "the proxy is shutting down");
  }
  seating_.mind_seat();
  end_if_stale();
}

// With OnStale::disconnect: ends a stale session between two transactions. Messages that the client
// has sent already are answered first, with the refusal.
void Session::State::end_if_stale() {
  if (line_.stage != Stage::ready || !claims_.ends_when_stale() || !line_.server.replies.empty() ||
      pipeline_.begun() || line_.deferred || !line_.client_in.empty() || model_.tx.in_block ||
      model_.status != pgwire::TransactionStatus::idle || login_.keeps_ready())
    return;
  const Claim claim = judgement_.claim_of(nullptr);
  if (claim.code == "TG001") return line_.end(stale_ends, claim.problem);
  if (!claim.problem.empty()) return;
  if (const Refusal refusal = judgement_.refusal_from_memory(claim); refusal.code == "TG001")
    line_.end(stale_ends, refusal.message);
}

// A higher term was seen elsewhere: a transaction that is open under a lower one ends now, and its
// locks with it (F4).
void Session::State::fence_seen(std::string_view scope, std::int64_t fence) {
  end_if_stale();
  // Only a transaction that is idle, with nothing under way in either direction, is ended here.
  if (line_.stage != Stage::ready || !line_.server.replies.empty() || pipeline_.begun() ||
      line_.client_mid_frame)
    return;
  if (model_.status != pgwire::TransactionStatus::in_block || !model_.tx.passed_any()) return;
  ScopedTerm stale;
  const auto is_below = [&](const ScopedTerm& pair) {
    return pair.scope == scope && pair.term < fence && judgement_.is_known_by(pair.scope);
  };
  if (is_below(model_.tx.last)) stale = model_.tx.last;
  for (const ScopedTerm& pair : model_.tx.passed) {
    if (is_below(pair)) stale = pair;
  }
  if (!stale.complete()) return;
  const std::string message = "TG001 stale term " + std::to_string(stale.term) + " for scope \"" +
                              stale.scope + "\": the fence stands at " + std::to_string(fence) +
                              "; the open transaction was ended";
  line_.host.happened(
      {.kind = Incident::Kind::evicted, .scope = scope, .term = stale.term, .fence = fence});
  if (claims_.ends_when_stale()) return line_.end(stale_ends, message);
  replies_.evicted(message);
  Claim claim;
  claim.pair = claim.given = stale;
  own_.add_check(line_.server, claim, Purpose::eviction);
  own_.add_sync(Purpose::eviction);
  // The check that was just added fails in the server, and the transaction with it.
  model_.tx.failed = true;
  texts_.outstanding.wait_for_all = true;
}

void Session::State::tick() {
  if (seat_.due(line_.now) && seating_.at_rest()) return seating_.stand();
  const auto end_by = deadline();
  if (!end_by || line_.now < *end_by) return;
  if (waits_for_more()) return pipelines_.send_held();
  constexpr std::string_view login_too_long =
      "the login took longer than the proxy's login timeout";
  switch (line_.stage) {
    case Stage::ready:
      if (login_.keeps_ready()) return line_.end("57014", login_too_long);
      if (model_.status == pgwire::TransactionStatus::idle)
        return line_.end("57P05",
                         "terminating connection due to idle-session timeout of the proxy");
      return line_.end("25P03",
                       "terminating connection due to idle-in-transaction timeout of the proxy");
    case Stage::closing:
    case Stage::closed:
    case Stage::replication: return;
    default: return line_.end("57014", login_too_long);
  }
}

Session::Phase Session::State::phase() const noexcept {
  switch (line_.stage) {
    case Stage::greeting:
    case Stage::client_tls:
    case Stage::admitting: return Phase::greeting;
    case Stage::connecting:
    case Stage::server_greeting:
    case Stage::server_tls: return Phase::connecting;
    case Stage::login: return Phase::login;
    case Stage::replication: return Phase::active;
    case Stage::closing:
    case Stage::closed: return Phase::closing;
    case Stage::ready: break;
  }
  if (model_.status != pgwire::TransactionStatus::idle || model_.tx.in_block)
    return Phase::in_transaction;
  return line_.server.replies.empty() && !pipeline_.begun() ? Phase::idle : Phase::active;
}

bool Session::State::wants_client() const noexcept {
  switch (line_.stage) {
    case Stage::greeting:
    case Stage::login: return line_.server.bytes.size() < line_.options.outbox_bytes_max;
    case Stage::ready:
      return !waiting_.blocked() && line_.server.bytes.size() < line_.options.outbox_bytes_max &&
             line_.client_in.size() < line_.options.outbox_bytes_max;
    case Stage::replication: return line_.server.bytes.size() < line_.options.outbox_bytes_max;
    default: return false;
  }
}

bool Session::State::wants_server() const noexcept {
  switch (line_.stage) {
    case Stage::server_greeting:
    case Stage::login:
    case Stage::ready:
    case Stage::replication: return line_.to_client.size() < line_.options.outbox_bytes_max;
    default: return false;
  }
}

// Whether messages are held only because more of their pipeline may come. A server would report an
// error without a Sync, and a client may wait for that. What must run alone before a Sync stays
// held until the Sync.
bool Session::State::waits_for_more() const noexcept {
  return line_.stage == Stage::ready && pipeline_.begun() && !pipeline_.held.empty() &&
         !pipeline_.needs_hold && !pipeline_.refused() && !line_.client_mid_frame &&
         !waiting_.blocked();
}

// When tick() must be called at the latest. While the server owes a reply after the login, and no
// message is held, the session has no deadline: the server's own timeouts apply.
std::optional<Instant> Session::State::deadline() const noexcept {
  if (waits_for_more()) return line_.quiet_since + line_.options.held_quiet_max;
  switch (line_.stage) {
    case Stage::ready:
      if (login_.keeps_ready())
        return login_.started() + line_.options.login_timeout;  // the client is not admitted yet
      if (!line_.server.replies.empty()) return std::nullopt;
      if (model_.status == pgwire::TransactionStatus::idle) {
        std::optional<Instant> by;
        if (seat_.held() && !pipeline_.begun()) by = seat_.due_at();
        if (line_.options.idle_timeout.count() > 0)
          by =
              std::min(by.value_or(Instant::max()), line_.quiet_since + line_.options.idle_timeout);
        return by;
      } else if (line_.options.idle_in_transaction_timeout.count() > 0) {
        return line_.quiet_since + line_.options.idle_in_transaction_timeout;
      }
      return std::nullopt;
    case Stage::closing:
    case Stage::closed:
    case Stage::replication: return std::nullopt;
    default: return login_.started() + line_.options.login_timeout;
  }
}

// The bytes in the session's buffers, for the metrics. Prepared statements and portals are not
// counted; names_max bounds them.
std::size_t Session::State::memory_bytes() const noexcept {
  return sizeof(State) + line_.to_client.capacity() + line_.server.bytes.capacity() +
         line_.client_in.capacity() + line_.client_reader.buffered() +
         line_.server_reader.buffered() + pipeline_.held.bytes.capacity() + script_.sql.capacity() +
         session_lock_.sql.capacity() + session_lock_.messages.bytes.capacity();
}

void Session::State::assert_consistent() const noexcept {
  model_.assert_consistent();
  line_.assert_consistent();
  assert((pipeline_.begun() || pipeline_.held.empty()) &&
         "messages are held only while a pipeline is open");
  assert(pipeline_.beginning.bytes <= pipeline_.held.bytes.size() &&
         pipeline_.beginning.replies <= pipeline_.held.replies.size());
  assert((!script_.frame || script_.running) && "a frame is around a text that runs");
  assert((session_lock_.stage != SessionLock::Stage::none || session_lock_.messages.empty()) &&
         "messages wait for a lock that was requested");
}

// --- the public interface ---

Session::Session(const Options& options, Peer peer, SessionHost& session_host, Instant now)
    : state_(std::make_unique<State>(options, std::move(peer), session_host, now)) {}
Session::~Session() = default;

void Session::resume(const ClientBytes& event, Instant now) {
  state_->line_.now = now;
  state_->line_.quiet_since = now;
  state_->from_client(event.bytes);
  state_->assert_consistent();
}

void Session::resume(const ServerBytes& event, Instant now) {
  state_->line_.now = now;
  state_->from_server(event.bytes);
  state_->assert_consistent();
}

void Session::resume(const ClientGone&, Instant now) {
  state_->line_.now = now;
  state_->line_.close_all();
  state_->assert_consistent();
}

void Session::resume(const ServerLost& event, Instant now) {
  state_->line_.now = now;
  if (state_->line_.stage == Stage::closing || state_->line_.stage == Stage::closed) return;
  if (state_->line_.stage <= Stage::server_tls) {
    // 57P03 is the only refusal after which libpq tries the next of several hosts; another proxy
    // there may reach the server. A TLS problem is permanent.
    const bool may_pass = state_->line_.stage < Stage::server_tls;
    state_->line_.end(may_pass ? "57P03" : "08006",
                      std::string("the server cannot be reached") +
                          (event.why.empty() ? std::string() : ": " + std::string(event.why)));
  } else {
    // The server has reported the reason itself, or cannot any more. The client sees what it would
    // see without the proxy.
    state_->line_.close_all();
  }
}

void Session::resume(const ClientTls&, Instant now) {
  state_->line_.now = now;
  state_->login_.encrypted();
}

void Session::resume(const ServerConnected&, Instant now) {
  state_->line_.now = now;
  state_->login_.server_connected();
  state_->assert_consistent();
}

void Session::resume(const ServerTls&, Instant now) {
  state_->line_.now = now;
  if (state_->line_.stage != Stage::server_tls) return;
  state_->login_.start();
}

void Session::resume(const Admitted& event, Instant now) {
  state_->line_.now = now;
  state_->login_.admitted(event.admission);
  state_->assert_consistent();
}

void Session::resume(const FenceSeen& event, Instant now) {
  state_->line_.now = now;
  state_->fence_seen(event.scope, event.fence);
  state_->assert_consistent();
}

void Session::resume(const GateWanted& event, Instant now) {
  state_->line_.now = now;
  state_->seating_.gate_wanted(event.scope);
  state_->assert_consistent();
}

void Session::resume(const Drain&, Instant now) {
  state_->line_.now = now;
  state_->line_.draining = true;
  if (state_->line_.stage < Stage::login)
    return state_->line_.end("57P03", "the proxy is shutting down");
  state_->idle_now();
  state_->assert_consistent();
}

void Session::resume(const Cut& event, Instant now) {
  state_->line_.now = now;
  state_->line_.end(event.sqlstate, event.message);
  state_->assert_consistent();
}

void Session::resume(const Tick&, Instant now) {
  state_->line_.now = now;
  state_->tick();
  state_->assert_consistent();
}

std::string_view Session::to_client() const noexcept { return state_->line_.to_client.view(); }
std::string_view Session::to_server() const noexcept { return state_->line_.server.bytes.view(); }
void Session::sent_to_client(std::size_t bytes) noexcept { state_->line_.to_client.sent(bytes); }
void Session::sent_to_server(std::size_t bytes) noexcept { state_->line_.server.bytes.sent(bytes); }
std::vector<Action> Session::take_actions() { return std::exchange(state_->line_.actions, {}); }
bool Session::wants_client() const noexcept { return state_->wants_client(); }
bool Session::wants_server() const noexcept { return state_->wants_server(); }
std::optional<Instant> Session::deadline() const noexcept { return state_->deadline(); }
const LoginRequest& Session::login() const noexcept { return state_->line_.login_request; }
std::uint32_t Session::server_pid() const noexcept { return state_->line_.server_pid; }
std::string_view Session::server_key() const noexcept { return state_->line_.server_key; }
std::uint32_t Session::cancel_pid() const noexcept { return state_->login_.cancel_pid(); }
std::string_view Session::cancel_key() const noexcept { return state_->login_.cancel_key(); }
Session::Phase Session::phase() const noexcept { return state_->phase(); }
std::size_t Session::memory_bytes() const noexcept { return state_->memory_bytes(); }

}  // namespace termgate::pg_session
