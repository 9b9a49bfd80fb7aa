// The server's answers: relayed as they come, and walked for what they say of the transaction and of our own calls.
#include <charconv>
#include <utility>

#include <termgate/tds/text.hpp>

#include "state.hpp"

namespace termgate::tds_session {
namespace {

// As it came: the token's byte, its length in two bytes, its body.
void append_token(std::string& out, std::uint8_t token, std::string_view body) {
  out += static_cast<char>(token);
  out += static_cast<char>(body.size() & 0xFF);
  out += static_cast<char>(body.size() >> 8 & 0xFF);
  out.append(body);
}

constexpr std::size_t read_handles_max = 1000;
constexpr std::size_t carry_max = 16u << 10;
constexpr std::size_t prelogin_answer_max = 4096;

}  // namespace

void TdsSession::State::take_server(std::string_view bytes, Instant now) {
  while (stage_ != Stage::closing) {
    const tds::PacketEvent event = server_reader_.next(bytes);
    bytes.remove_prefix(event.used);
    if (event.kind == tds::PacketEvent::Kind::need_more) break;
    if (event.kind == tds::PacketEvent::Kind::malformed) return malformed_peer("server", event.problem.reason());
    on_server_event(event, now);
  }
  // The rest of a message whose beginning has just been let through.
  if (!input_.empty()) pump_client(now);
}

void TdsSession::State::on_server_event(const tds::PacketEvent& event, Instant now) {
  const bool header = event.kind == tds::PacketEvent::Kind::header;
  latest_ = now;
  switch (stage_) {
    case Stage::server_prelogin:
      if (!header) prelogin_answer_.append(event.raw);
      if (prelogin_answer_.size() > prelogin_answer_max) return malformed_peer("server", "its PRELOGIN is too long");
      if (event.ends_message) on_server_prelogin(now);
      return;
    case Stage::relaying:
      if (header && !carry_.empty()) {
        // In front of the server's own answer, in a packet that does not end it.
        std::string packet;
        tds::append_message(packet, tds::packet::reply, carry_, tds::packet_bytes_max);
        packet[1] = 0;
        client_out_.back().append(packet);
        carry_.clear();
      }
      relayed_any_ = true;
      client_out_.back().append(event.raw);
      break;
    case Stage::server_login:
    case Stage::hello:
    case Stage::entering:
    case Stage::leaving: break;
    default: return malformed_peer("server", "it answers what nobody has asked");
  }
  if (!header) walk(event.raw);
  if (event.ends_message && stage_ != Stage::closing) server_message_ends(now);
}

void TdsSession::State::walk(std::string_view payload) {
  while (stage_ != Stage::closing) {
    const tds::TokenEvent event = tokens_.next(payload);
    payload.remove_prefix(event.used);
    if (event.kind == tds::TokenEvent::Kind::need_more) return;
    if (stage_ == Stage::server_login) login_token(event);
    on_token(event);
  }
}

void TdsSession::State::on_token(const tds::TokenEvent& event) {
  const bool ours = stage_ == Stage::hello || stage_ == Stage::entering || stage_ == Stage::leaving;
  switch (event.kind) {
    case tds::TokenEvent::Kind::return_value:
      if (ours) call_value(event.value);
      // The call's first parameter is the handle. What the statement itself gives back could be any number.
      if (stage_ == Stage::relaying && prepares_read_ && event.value.ordinal == 0) {
        prepares_read_ = false;
        const auto handle = event.value.integer();
        if (handle && read_handles_.size() < read_handles_max) read_handles_.insert(*handle);
      }
      return;
    case tds::TokenEvent::Kind::lost:
      // What came behind it may have begun a transaction.
      if (stage_ == Stage::relaying) server_inside_ = true;
      return;
    case tds::TokenEvent::Kind::need_more: return;
    case tds::TokenEvent::Kind::token: break;
  }
  if (event.token == tds::token::environment_change) return on_environment_change(event.body);
  if (event.token != tds::token::error) return;
  response_failed_ = true;
  if (!ours || !answer_.error.empty()) return;
  if (const auto report = tds::decode_report(event.token, event.body, tds_version_)) {
    answer_.error = std::to_string(report->number) + " " + tds::utf8_of(report->text);
    answer_.error_number = report->number;
  }
}

void TdsSession::State::on_environment_change(std::string_view body) {
  const auto change = tds::decode_environment_change(body);
  if (!change) return;
  bool for_client = false;
  switch (change->type) {
    case tds::environment::begin_transaction:
    case tds::environment::enlist_distributed:
      transaction_ = tds::transaction_of(change->now);
      server_inside_ = transaction_ == 0;
      for_client = true;
      break;
    case tds::environment::commit_transaction:
    case tds::environment::rollback_transaction:
    case tds::environment::defect_distributed:
    case tds::environment::transaction_ended: {
      transaction_ = 0;
      server_inside_ = false;
      for_client = true;
      conversation::Incident incident;
      incident.kind = conversation::Incident::Kind::transaction;
      happened(incident);
      break;
    }
    case tds::environment::reset_acknowledged:
      // That nobody has asked for by a packet's bit: by then the gate would not be held.
      if (stage_ == Stage::relaying && gate_ == Gate::held) gate_is(Gate::unsure);
      transaction_ = 0;
      server_inside_ = false;
      for_client = true;
      break;
    case tds::environment::packet_size: {
      const std::string text = tds::utf8_of(change->now);
      std::size_t size = 0;
      std::from_chars(text.data(), text.data() + text.size(), size);
      if (size >= tds::packet_bytes_min && size <= tds::packet_bytes_max) packet_size_ = size;
      break;
    }
    default: break;
  }
  if (for_client && (stage_ == Stage::entering || stage_ == Stage::leaving) && carry_.size() < carry_max) {
    append_token(carry_, tds::token::environment_change, body);
  }
}

void TdsSession::State::server_message_ends(Instant now) {
  const auto last = tokens_.end_of_message();
  switch (stage_) {
    case Stage::server_login: return login_message_ends(now);
    case Stage::hello: return hello_ends(now);
    case Stage::entering: return enter_ends(now);
    case Stage::leaving: return leave_ends(now);
    case Stage::relaying: return relayed_message_ends(last, now);
    default: return;
  }
}

void TdsSession::State::relayed_message_ends(std::optional<tds::Done> last, Instant now) {
  if (attentions_ > 0) {
    // Each attention is acknowledged once, perhaps behind the end of an answer that was on its way.
    if (last && (last->status & tds::done_status::attention) != 0) --attentions_;
    if (attentions_ > 0) return;
  }
  response_done_ = true;
  if (!streaming_) back_to_ready(now);
}

void TdsSession::State::back_to_ready(Instant now) {
  stage_ = Stage::ready;
  bulk_expected_ = bulk_sent_ && !response_failed_;
  bulk_sent_ = false;
  used_ = now;
  message_ = {};
  // A transaction that a batch has begun is not announced by every server, nor its end: the next leave asks.
  if (transaction_ == 0) server_inside_ = false;
  if (may_leave() && (draining_ || gate_wanted_)) return send_leave(AfterLeave::ready, now);
  if (drain_ends()) return;
  pump_client(now);
}

}  // namespace termgate::tds_session
