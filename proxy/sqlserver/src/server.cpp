// The server's answers: relayed unchanged, and parsed for the state of the transaction and the
// answers to our own calls.
#include <charconv>
#include <utility>

#include <termgate/tds/text.hpp>

#include "state.hpp"

namespace termgate::tds_session {
namespace {

// Appends a token in its wire format: its byte, its length in two bytes, its body.
void append_token(std::string& out, std::uint8_t token, std::string_view body) {
  out += static_cast<char>(token);
  out += static_cast<char>(body.size() & 0xFF);
  out += static_cast<char>(body.size() >> 8 & 0xFF);
  out.append(body);
}

constexpr std::size_t carry_max = 16u << 10;

}  // namespace

void TdsSession::State::take_server(std::string_view bytes, Instant now) {
  while (channel_.stage != Stage::closing) {
    const tds::PacketEvent event = server_reader_.next(bytes);
    bytes.remove_prefix(event.used);
    if (event.kind == tds::PacketEvent::Kind::need_more) break;
    if (event.kind == tds::PacketEvent::Kind::malformed)
      return channel_.malformed_peer("server", event.problem.reason(), awaited());
    on_server_event(event, now);
  }
  // input_ may have the rest of a message whose beginning has just been forwarded.
  if (!input_.empty()) pump_client(now);
}

void TdsSession::State::on_server_event(const tds::PacketEvent& event, Instant now) {
  const bool header = event.kind == tds::PacketEvent::Kind::header;
  latest_ = now;
  switch (channel_.stage) {
    case Stage::server_prelogin:
      return login_.take_server_prelogin(header ? std::string_view{} : event.raw,
                                         event.ends_message);
    case Stage::relaying: relay(event); break;
    case Stage::server_login:
    case Stage::hello:
    case Stage::entering:
    case Stage::leaving: break;
    default:
      return channel_.malformed_peer("server", "it answers what nobody has asked", awaited());
  }
  if (!header) walk(event.raw);
  if (event.ends_message && channel_.stage != Stage::closing) server_message_ends(now);
}

void TdsSession::State::relay(const tds::PacketEvent& event) {
  if (event.kind == tds::PacketEvent::Kind::header && !carry_.empty()) {
    // carry_ goes ahead of the server's own answer, in a packet that does not end it.
    std::string packet;
    tds::append_message(packet, tds::packet::reply, carry_, tds::packet_bytes_max);
    packet[1] = 0;
    channel_.to_client.back().append(packet);
    carry_.clear();
  }
  if (relayed_ == Relayed::nothing) relayed_ = Relayed::some;
  channel_.to_client.back().append(event.raw);
}

void TdsSession::State::walk(std::string_view payload) {
  while (channel_.stage != Stage::closing) {
    const tds::TokenEvent event = channel_.tokens.next(payload);
    payload.remove_prefix(event.used);
    if (event.kind == tds::TokenEvent::Kind::need_more) return;
    if (channel_.stage == Stage::server_login) login_.on_token(event);
    on_token(event);
  }
}

void TdsSession::State::on_token(const tds::TokenEvent& event) {
  const bool ours = channel_.stage == Stage::hello || channel_.stage == Stage::entering ||
                    channel_.stage == Stage::leaving;
  switch (event.kind) {
    case tds::TokenEvent::Kind::return_value:
      if (ours) gate_.take(event.value);
      // The call's first parameter is the handle. What the statement itself returns could be any
      // number.
      if (channel_.stage == Stage::relaying && prepares_read_ && event.value.ordinal == 0) {
        prepares_read_ = false;
        if (const auto handle = event.value.integer()) classifier_.prepared_read(*handle);
      }
      return;
    case tds::TokenEvent::Kind::lost:
      // What followed may have begun a transaction.
      if (channel_.stage == Stage::relaying) transaction_.may_be_open();
      return;
    case tds::TokenEvent::Kind::need_more: return;
    case tds::TokenEvent::Kind::token: break;
  }
  if (event.token == tds::token::environment_change) return on_environment_change(event.body);
  if (event.token != tds::token::error) return;
  failed_ = true;
  if (!ours || !gate_.answer().error.empty()) return;
  if (const auto report = tds::decode_report(event.token, event.body, channel_.tds_version))
    gate_.failed(*report);
}

void TdsSession::State::on_environment_change(std::string_view body) {
  const auto change = tds::decode_environment_change(body);
  if (!change) return;
  bool for_client = false;
  switch (change->type) {
    case tds::environment::begin_transaction:
    case tds::environment::enlist_distributed:
      transaction_.began(tds::transaction_of(change->now));
      for_client = true;
      break;
    case tds::environment::commit_transaction:
    case tds::environment::rollback_transaction:
    case tds::environment::defect_distributed:
    case tds::environment::transaction_ended: {
      transaction_.ended();
      for_client = true;
      conversation::Incident incident;
      incident.kind = conversation::Incident::Kind::transaction;
      channel_.happened(incident);
      break;
    }
    case tds::environment::reset_acknowledged:
      // A reset that no packet's bit has requested: if one had, the gate would not be held now.
      if (channel_.stage == Stage::relaying && gate_.held()) gate_.becomes(Gate::Is::unsure);
      transaction_.ended();
      for_client = true;
      break;
    case tds::environment::packet_size: {
      const std::string text = tds::utf8_of(change->now);
      std::size_t size = 0;
      std::from_chars(text.data(), text.data() + text.size(), size);
      if (size >= tds::packet_bytes_min && size <= tds::packet_bytes_max)
        channel_.packet_size = size;
      break;
    }
    default: break;
  }
  if (for_client && (channel_.stage == Stage::entering || channel_.stage == Stage::leaving) &&
      carry_.size() < carry_max) {
    append_token(carry_, tds::token::environment_change, body);
  }
}

void TdsSession::State::server_message_ends(Instant now) {
  const auto last = channel_.tokens.end_of_message();
  switch (channel_.stage) {
    case Stage::server_login:
      if (login_.lets_in()) send_hello(now);
      return;
    case Stage::hello: return hello_ends(now);
    case Stage::entering: return enter_ends(now);
    case Stage::leaving: return leave_ends(now);
    case Stage::relaying: return relayed_message_ends(last, now);
    default: return;
  }
}

void TdsSession::State::relayed_message_ends(std::optional<tds::Done> last, Instant now) {
  if (attentions_ > 0) {
    // Each attention is acknowledged once, perhaps after the end of an answer that was on its way.
    if (last && (last->status & tds::done_status::attention) != 0) --attentions_;
    if (attentions_ > 0) return;
  }
  relayed_ = Relayed::all;
  if (rest_ == Rest::gathered) back_to_ready(now);
}

void TdsSession::State::back_to_ready(Instant now) {
  channel_.stage = Stage::ready;
  rows_may_come_ = does_ == Verdict::Does::announces_bulk && !failed_;
  does_ = Verdict::Does::other;
  gate_.used(now);
  message_ = {};
  // The next leave reads the count again.
  transaction_.forget_count();
  if (may_leave() && (draining_ || gate_.is_wanted())) return send_leave(AfterLeave::ready, now);
  if (drain_ends()) return;
  pump_client(now);
}

}  // namespace termgate::tds_session
