// The client's messages: gathered as far as they are judged, then forwarded, refused or answered
// here, as verdict.hpp decides.
#include <utility>

#include <termgate/tds/text.hpp>

#include "state.hpp"

namespace termgate::tds_session {
namespace {

// Where a packet's status byte is.
constexpr std::size_t status_at = 1;
constexpr std::uint8_t refusal_severity = 16;

std::uint8_t done_token(const Message& message) noexcept {
  return message.type == tds::packet::rpc ? tds::token::done_procedure : tds::token::done;
}

// Reports what enforcing would refuse, as far as the remembered fences show.
void observe(const Verdict& verdict, Claims& claims, Channel& channel) {
  if (verdict.way != Verdict::Way::gate && verdict.way != Verdict::Way::refuse) return;
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::would_refuse;
  incident.statement = verdict.statement;
  incident.from_memory = true;
  Claim claim = claims.now();
  std::string message;
  if (verdict.way == Verdict::Way::refuse) {
    incident.code = verdict.code;
    incident.message = verdict.message;
  } else if (!claim.code.empty()) {
    incident.code = claim.code;
    incident.message = claim.message;
  } else if (claim.pair.complete()) {
    const std::int64_t fence = channel.host.highest_fence(claim.pair.scope);
    channel.host.saw_term(claim.pair.scope, claim.pair.term);
    if (fence <= claim.pair.term) return;
    message = stale_message(claim.pair, fence);
    incident.code = "TG001";
    incident.message = message;
    incident.scope = claim.pair.scope;
    incident.term = claim.pair.term;
    incident.fence = fence;
  } else {
    return;
  }
  channel.happened(incident);
}

}  // namespace

void Message::add(const tds::PacketEvent& event, bool kept) {
  const bool header = event.kind == tds::PacketEvent::Kind::header;
  if (header && event.first) {
    *this = {};
    type = event.header.type;
    resets = event.header.status & tds::status::any_reset;
  }
  if (event.ends_message)
    extent = (event.header.status & tds::status::ignore) != 0 ? Extent::given_up : Extent::whole;
  if (!kept) return;
  const std::size_t before = raw.size();
  raw.append(event.raw);
  if (!header) payload.append(event.raw);
  else if (event.first)
    raw[before + status_at] = static_cast<char>(event.header.status & ~tds::status::any_reset);
}

// --- bytes ---

void TdsSession::State::take_client(std::string_view bytes, Instant now) {
  if (channel_.stage == Stage::closing) return;
  input_.append(bytes);
  pump_client(now);
}

// Whether the client's next packet is processed now.
bool TdsSession::State::reads_packets() const noexcept {
  switch (channel_.stage) {
    case Stage::client_prelogin:
    case Stage::client_login:
    case Stage::client_sspi:
    case Stage::ready: return true;
    case Stage::relaying: return rest_ != Rest::gathered;
    default: return false;
  }
}

void TdsSession::State::pump_client(Instant now) {
  std::size_t at = 0;
  const auto drop = [&] {
    input_.erase(0, at);
    at = 0;
  };
  while (channel_.stage != Stage::closing) {
    if (!reads_packets()) {
      drop();
      if (!take_attention(now)) return;
      continue;
    }
    const tds::PacketEvent event = client_reader_.next(std::string_view(input_).substr(at));
    at += event.used;
    if (event.kind == tds::PacketEvent::Kind::need_more) break;
    if (event.kind == tds::PacketEvent::Kind::malformed) {
      drop();
      return channel_.malformed_peer("client", event.problem.reason(), awaited());
    }
    // The call below may lead back to this function, so `input_` must be in order before it.
    const std::string raw(event.raw);
    tds::PacketEvent kept = event;
    kept.raw = raw;
    drop();
    on_client_event(kept, now);
    if (input_.empty()) return;
  }
  drop();
  if (channel_.stage == Stage::closing) std::string().swap(input_);
}

// While a message of the client or a call of ours runs, an attention is processed, and the client's
// next message waits.
bool TdsSession::State::take_attention(Instant now) {
  if (input_.empty() || !client_reader_.between_messages()) return false;
  const bool waits = channel_.stage == Stage::entering || channel_.stage == Stage::raising ||
                     channel_.stage == Stage::leaving || channel_.stage == Stage::relaying;
  if (!waits || static_cast<std::uint8_t>(input_[0]) != tds::packet::attention ||
      input_.size() < tds::packet_header_bytes)
    return false;
  const tds::PacketEvent event =
      client_reader_.next(std::string_view(input_).substr(0, tds::packet_header_bytes));
  if (event.kind != tds::PacketEvent::Kind::header) {
    channel_.malformed_peer("client", event.problem.reason(), awaited());
    return false;
  }
  const std::string raw(event.raw);
  input_.erase(0, tds::packet_header_bytes);
  if (channel_.stage == Stage::relaying) {
    channel_.to_server.back().append(raw);
    ++attentions_;
  } else if (channel_.stage == Stage::leaving && message_.raw.empty()) {
    // Nothing of the client's runs: the attention came too late.
    channel_.acknowledge_attention();
  } else {
    on_the_way_.cancelled = true;
  }
  latest_ = now;
  return true;
}

void TdsSession::State::on_client_event(const tds::PacketEvent& event, Instant now) {
  latest_ = now;
  if (channel_.stage == Stage::relaying) return forward_rest(event, now);
  message_.add(event, rest_ != Rest::dropped);
  if (rest_ == Rest::dropped) {
    if (!event.ends_message) return;
    rest_ = Rest::gathered;
    return answer_refusal();
  }
  const bool login = channel_.stage != Stage::ready;
  const bool greets =
      channel_.stage == Stage::client_prelogin && message_.type != tds::packet::login7;
  const std::size_t most = greets  ? tds::prelogin_bytes_max
                           : login ? tds::login7_bytes_max
                                   : channel_.options.held_bytes_max;
  if (!message_.complete() && message_.payload.size() <= most) return;
  if (login) {
    if (!message_.complete())
      return channel_.malformed_peer("client", "a message of the login is too long", awaited());
    return login_.on_client_message(std::exchange(message_, {}), !input_.empty());
  }
  // The last packet is processed when its payload is there.
  if (message_.complete() || event.last) return on_message(now);
}

// Forwards more of a message whose beginning the server already has.
void TdsSession::State::forward_rest(const tds::PacketEvent& event, Instant now) {
  const bool payload = event.kind == tds::PacketEvent::Kind::payload;
  if (rest_ == Rest::judged && (payload || event.ends_message)) {
    // The server runs a text only once all of it has arrived.
    if (const char* problem =
            classifier_.rest(payload ? event.raw : std::string_view{}, event.ends_message))
      return end(50005, problem);
  }
  channel_.to_server.back().append(event.raw);
  if (!event.ends_message) return;
  rest_ = Rest::gathered;
  if (relayed_ == Relayed::all) back_to_ready(now);
}

// --- a message ---

void TdsSession::State::on_message(Instant now) {
  if (message_.type == tds::packet::attention) {
    message_ = {};
    return channel_.acknowledge_attention();
  }
  on_the_way_ = {};
  resets_ |= message_.resets;
  if (message_.resets != 0) {
    claims_.reset();
    rows_may_come_ = false;
  }
  if ((resets_ & tds::status::reset) != 0) resets_ = tds::status::reset;
  if (message_.extent == Message::Extent::given_up) {
    // The server has seen nothing of it.
    std::string payload;
    tds::append_done(payload, {done_token(message_), tds::done_status::error, 0, 0},
                     channel_.tds_version);
    message_ = {};
    return channel_.say_to_client(payload);
  }
  const bool takes_rows =
      rows_may_come_ && (gate_.held() || claims_.is_silent() || !claims_.enforces());
  const Verdict verdict = classifier_.verdict_of(message_, channel_.tds_version, takes_rows);
  if (verdict.does == Verdict::Does::resets) {
    // Such a call has the same effect as the reset bit, which is sent with it: open work is rolled
    // back, and the gate is released.
    claims_.reset();
    rows_may_come_ = false;
    resets_ = tds::status::reset;
    return forward(verdict, now);
  }
  if (verdict.does == Verdict::Does::declares) claims_.server_knows();
  if (!claims_.enforces() && verdict.way != Verdict::Way::answer) {
    observe(verdict, claims_, channel_);
    return forward(verdict, now);
  }
  switch (verdict.way) {
    case Verdict::Way::refuse: return refuse(verdict.code, verdict.message, true);
    case Verdict::Way::answer: return answer_locally(verdict);
    case Verdict::Way::pass:
      // A transaction that has outlived a reset may continue only through the gate.
      if (gate_.is() == Gate::Is::unsure || resets_ == tds::status::reset_keep_transaction)
        return through_gate(verdict, now);
      return forward(verdict, now);
    case Verdict::Way::gate: return through_gate(verdict, now);
  }
}

// --- what is done with it ---

void TdsSession::State::through_gate(const Verdict& verdict, Instant now) {
  // Two things need no gate. One is the rows of a bulk load, whose announcement has passed. The
  // other is any message of a session that may write without a term and has declared nothing. If it
  // is not known whether it has, its messages pass only where the gate cannot be called.
  if (verdict.does == Verdict::Does::bulk_rows || claims_.may_go_without() ||
      (claims_.is_silent() && !no_layer1_.empty()))
    return forward(verdict, now);
  Claim claim = claims_.now();
  const bool kept = gate_.held() && resets_ == 0;
  // Under a rule that clients cannot override, an open transaction keeps the pair of its gate.
  if (kept && transaction_.is_open() && claims_.final_rule()) claim = Claim{gate_.pair(), {}, {}};
  if (!claim.code.empty()) return refuse(claim.code, claim.message, true);
  if (!no_layer1_.empty()) {
    return refuse("TG006",
                  "TG006 the gate of layer 1 cannot be called in database \"" +
                      channel_.options.database + "\" (" + no_layer1_ +
                      "): " + channel_.options.install_hint,
                  true);
  }
  if (claim.pair.complete()) {
    const std::int64_t fence = channel_.host.highest_fence(claim.pair.scope);
    if (fence > claim.pair.term) {
      return refuse("TG001", stale_message(claim.pair, fence), true, fence);
    }
    if (const std::string untrusted = channel_.host.untrusted(claim.pair.scope); !untrusted.empty())
      return refuse("TG004", untrusted, true);
  }
  if (kept && (!claim.pair.complete() || claim.pair == gate_.pair())) return forward(verdict, now);
  does_ = verdict.does;
  if (!kept) return send_enter(claim.pair, now);
  if (transaction_.is_open()) {
    return refuse("TG005",
                  "TG005 this transaction writes under term " + std::to_string(gate_.pair().term) +
                      " of scope \"" + gate_.pair().scope + "\": its claim is fixed until it ends",
                  true);
  }
  next_pair_ = claim.pair;
  send_leave(AfterLeave::enter, now);
}

// Sends the message unchanged, except for the reset bits that it or an earlier message requires.
void TdsSession::State::forward(const Verdict& verdict, Instant now) {
  message_.raw[status_at] =
      static_cast<char>(static_cast<std::uint8_t>(message_.raw[status_at]) | resets_);
  if (resets_ != 0) classifier_.forget_prepared();
  if ((resets_ & tds::status::reset) != 0) {
    gate_.becomes(Gate::Is::open);
    transaction_.ended();
  } else if (resets_ != 0) {
    gate_.becomes(Gate::Is::unsure);
  }
  resets_ = 0;
  channel_.to_server.back().append(message_.raw);
  rest_ = message_.complete()  ? Rest::gathered
          : claims_.enforces() ? Rest::judged
                               : Rest::forwarded;
  message_ = {};
  channel_.stage = Stage::relaying;
  relayed_ = Relayed::nothing;
  failed_ = rows_may_come_ = false;
  gate_.used(now);
  does_ = verdict.does;
  const bool passes = verdict.way == Verdict::Way::pass;
  prepares_read_ = passes && verdict.does == Verdict::Does::prepares_read;
  if (passes) return;
  // What goes through the gate may have prepared another statement under the handle of a read.
  classifier_.forget_prepared();
  if (verdict.does != Verdict::Does::reads) claims_.server_may_know();
}

void TdsSession::State::answer_locally(const Verdict& verdict) {
  claims_.set(*verdict.sets);
  std::string payload;
  if (message_.type == tds::packet::rpc) payload += std::string("\x79\0\0\0\0", 5);
  tds::append_done(payload, {done_token(message_), 0, 0, 0}, channel_.tds_version);
  message_ = {};
  channel_.say_to_client(payload);
}

void TdsSession::State::refuse(std::string_view code, std::string_view message, bool from_memory,
                               std::int64_t fence) {
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::refused;
  incident.code = code;
  incident.message = message;
  incident.from_memory = from_memory;
  incident.fence = fence;
  incident.scope = gate_.pair().scope;
  incident.term = gate_.pair().term;
  const std::string statement =
      message_.type == tds::packet::sql_batch && message_.payload.size() > 22
          ? tds::utf8_of(std::string_view(message_.payload).substr(22, 400))
          : std::string();
  incident.statement = statement;
  channel_.happened(incident);
  refusal_ = std::move(carry_);
  carry_.clear();
  tds::append_report(refusal_, tds::token::error, number_of(code), refusal_severity, message,
                     "termgate", channel_.tds_version);
  tds::append_done(refusal_, {done_token(message_), tds::done_status::error, 0, 0},
                   channel_.tds_version);
  channel_.stage = Stage::ready;
  const bool whole = message_.complete();
  message_.raw.clear();
  message_.payload.clear();
  if (!whole) {
    rest_ = Rest::dropped;
    return;
  }
  answer_refusal();
}

void TdsSession::State::answer_refusal() {
  const std::string payload = std::move(refusal_);
  refusal_.clear();
  message_ = {};
  channel_.say_to_client(payload);
  // The transaction has outlived a reset that released the gate, so it must not continue.
  if (gate_.is() == Gate::Is::unsure || on_the_way_.outlived_reset ||
      resets_ == tds::status::reset_keep_transaction) {
    channel_.close();
  }
}

}  // namespace termgate::tds_session
