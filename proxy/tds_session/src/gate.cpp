// Our own calls on the client's session: how the gate is entered and left, and what its answers mean.
#include <termgate/tds/text.hpp>

#include "state.hpp"

namespace termgate::tds_session {
namespace {

using conversation::Action;

std::string bracketed(std::string_view name) {
  std::string result = "[";
  for (const char c : name) {
    result += c;
    if (c == ']') result += c;
  }
  return result + "]";
}

// A raise that waits is seen again and again; one that is not seen for so long has given up.
constexpr std::chrono::milliseconds raise_seen_again{500};
// The server ends whom it can, and a raise that may end nobody gives up: both with the grace, and before the proxy acts.
constexpr std::chrono::milliseconds server_first{250};

constexpr std::int64_t nothing_declared = 50002;

// The server found a transaction that we had not seen, and has done nothing.
bool is_wrong_transaction(std::uint32_t number) noexcept { return number == 3988 || number == 3989; }

}  // namespace

std::string TdsSession::State::gate_name(std::string_view procedure) const {
  const std::string name = bracketed(options_.schema) + "." + bracketed(procedure);
  return options_.database.empty() ? name : bracketed(options_.database) + "." + name;
}

// --- what is sent ---

void TdsSession::State::send_call(std::string_view payload, Instant now) {
  answer_ = {};
  sent_ = now;
  std::uint8_t bits = 0;
  if (stage_ == Stage::entering) bits = std::exchange(resets_, std::uint8_t{0});
  if (stage_ == Stage::entering) outlived_reset_ = bits == tds::status::reset_keep_transaction;
  if ((bits & tds::status::reset) != 0) {
    transaction_ = 0;
    server_inside_ = false;
  }
  tds::append_message(server_out_.back(), tds::packet::rpc, payload, packet_size_, bits);
}

void TdsSession::State::send_hello(Instant now) {
  std::string payload;
  tds::CallWriter call(payload, tds_version_, 0, gate_name("gate_hello"));
  ++proof_;
  call.integer("@proof", &proof_, true);
  for (const char* name : {"@declared", "@grace_ms"}) call.integer(name, nullptr, true);
  send_call(payload, now);
}

void TdsSession::State::send_enter(const ScopedTerm& pair, Instant now) {
  gate_is(Gate::open);
  pair_ = pair;
  // Where the client's request says that it belongs: its own headers were read when it was judged.
  const auto headers = tds::decode_headers(message_.payload, tds_version_);
  const std::uint64_t transaction =
      headers && message_.type != tds::packet::bulk && (resets_ & tds::status::reset) == 0 ? headers->transaction : 0;
  std::string payload;
  tds::CallWriter call(payload, tds_version_, transaction, gate_name("gate_enter"));
  ++proof_;
  const std::string_view scope = pair.scope;
  call.text("@scope", pair.complete() ? &scope : nullptr, true);
  call.integer("@term", pair.complete() ? &pair.term : nullptr, true);
  call.binary("@secret", peer_.secret);
  call.integer("@proof", &proof_, true);
  for (const char* name : {"@code", "@fence", "@raise", "@trancount"}) call.integer(name, nullptr, true);
  call.text("@message", nullptr, true);
  stage_ = Stage::entering;
  gate_is(Gate::unsure);
  send_call(payload, now);
}

void TdsSession::State::send_leave(AfterLeave after, Instant now) {
  std::string payload;
  tds::CallWriter call(payload, tds_version_, transaction_, gate_name("gate_leave"));
  ++proof_;
  const std::string_view scope = pair_.scope;
  call.text("@scope", &scope);
  call.binary("@secret", peer_.secret);
  call.integer("@proof", &proof_, true);
  for (const char* name : {"@code", "@trancount"}) call.integer(name, nullptr, true);
  call.text("@message", nullptr, true);
  after_leave_ = after;
  stage_ = Stage::leaving;
  send_call(payload, now);
}

// --- what is answered ---

void TdsSession::State::call_value(const tds::ReturnValue& value) {
  const std::string name = tds::utf8_of(value.name);
  const auto number = value.integer();
  if (name == "@proof") answer_.proven = number == -proof_ - 1;
  else if (name == "@code") answer_.code = number.value_or(-1);
  else if (name == "@fence") answer_.fence = number.value_or(0);
  else if (name == "@raise") answer_.raise = number.value_or(0) == 1;
  else if (name == "@trancount") answer_.trancount = number.value_or(0);
  else if (name == "@declared") answer_.declared = number.value_or(0);
  else if (name == "@grace_ms") answer_.grace_ms = number.value_or(0);
  else if (name == "@term") answer_.term = number.value_or(0);
  else if (name == "@scope") answer_.scope = tds::utf8_of(value.data);
  else if (name == "@message") answer_.message = tds::utf8_of(value.data);
}

void TdsSession::State::enter_ends(Instant now) {
  const bool passed = answer_.proven && answer_.code == 0;
  // What the session has declared, which only the server knows.
  const bool asked = !pair_.complete();
  if (answer_.proven) {
    if (!pair_.complete() && !answer_.scope.empty() && answer_.term > 0) pair_ = {answer_.scope, answer_.term};
    server_inside_ = answer_.trancount > 0;
    if (answer_.trancount == 0) transaction_ = 0;
    if (answer_.fence > 0) host_.saw_fence(pair_.scope, answer_.fence);
  }
  if (asked && answer_.proven && answer_.code == nothing_declared && answer_.scope.empty() && claims_.allows_silence()) {
    claims_.server_knows_nothing();
    gate_is(Gate::open);
    if (!cancelled_) {
      Verdict verdict;
      verdict.bulk = bulk_sent_;
      verdict.only_reads = reads_sent_;
      return forward(verdict, now);
    }
  } else if (asked && answer_.proven) {
    claims_.server_knows();
  }
  if (passed && pair_.complete()) {
    gate_is(Gate::held);
    used_ = now;
    conversation::Incident incident;
    incident.kind = conversation::Incident::Kind::fenced;
    incident.scope = pair_.scope;
    incident.term = pair_.term;
    incident.fence = answer_.fence;
    incident.took = now - sent_;
    happened(incident);
    if (cancelled_) {
      message_ = {};
      cancelled_ = false;
      stage_ = Stage::ready;
      answer_attention();
      return pump_client(now);
    }
    Verdict verdict;
    verdict.bulk = bulk_sent_;
    return forward(verdict, now);
  }
  if (answer_.proven && answer_.raise && !raised_ && pair_.complete()) {
    raised_ = true;
    gate_is(Gate::open);
    stage_ = Stage::raising;
    return act(Action::Kind::raise);
  }
  after_code_ = "TG006";
  if (answer_.proven) {
    // A refusal leaves nothing held that was not held before, and before it was open.
    gate_is(Gate::open);
    if (answer_.code > 50000 && answer_.code <= 50006) after_code_ = "TG00" + std::to_string(answer_.code - 50000);
    after_message_ = answer_.message.empty() ? "TG006 the gate refused with " + std::to_string(answer_.code) : answer_.message;
    if (!after_message_.starts_with(after_code_)) after_message_ = after_code_ + " " + after_message_;
  } else {
    after_message_ = "TG006 the gate of layer 1 gave no proof, and nothing was run" +
                     (answer_.error.empty() ? std::string(" (SET NOEXEC, FMTONLY or SHOWPLAN?)") : ": " + answer_.error);
    if (pair_.complete()) return send_leave(AfterLeave::refuse, now);
    // Without an error nothing ran at all, so no gate can be held.
    if (!answer_.error.empty() || !claims_.is_silent()) return end(number_of(after_code_), after_message_);
    gate_is(Gate::open);
  }
  stage_ = Stage::ready;
  if (cancelled_) {
    cancelled_ = false;
    message_ = {};
    answer_attention();
  } else {
    refuse(after_code_, after_message_, false, now, answer_.fence);
  }
  pump_client(now);
}

void TdsSession::State::leave_ends(Instant now) {
  if (answer_.proven && answer_.code == 0) {
    gate_is(Gate::open);
    server_inside_ = answer_.trancount > 0;
  } else if ((answer_.proven && answer_.code == 1) || is_wrong_transaction(answer_.error_number)) {
    server_inside_ = true;
    used_ = now;
    if (gate_ == Gate::unsure) return end(50006, after_message_);
  } else {
    return end(50006, "TG006 the gate could not be given back: " + (answer_.error.empty() ? answer_.message : answer_.error));
  }
  stage_ = Stage::ready;
  if (cancelled_) {
    cancelled_ = false;
    message_ = {};
    answer_attention();
    return pump_client(now);
  }
  switch (after_leave_) {
    case AfterLeave::ready:
      if (drain_ends()) return;
      break;
    case AfterLeave::enter:
      if (gate_ == Gate::open) return send_enter(wanted_, now);
      refuse("TG005",
             "TG005 a transaction is open that writes under term " + std::to_string(pair_.term) + " of scope \"" + pair_.scope +
                 "\": its claim is fixed until it ends",
             false, now);
      break;
    case AfterLeave::refuse: refuse(after_code_, after_message_, false, now); break;
  }
  pump_client(now);
}

// In the middle of a message that the server has seen nothing of, too: whoever stops there holds nobody up.
bool TdsSession::State::may_leave() const noexcept {
  return stage_ == Stage::ready && gate_ == Gate::held && !bulk_expected_ && !in_transaction();
}

// --- who else wants it ---

void TdsSession::State::gate_is(Gate gate) {
  gate_ = gate;
  if (gate == Gate::open) {
    gate_wanted_ = false;
    raise_waits_.reset();
  }
  host_.holds_gate(gate == Gate::open ? std::string_view() : pair_.scope);
}

void TdsSession::State::wanted(bool certain, Instant now) {
  if (stage_ == Stage::closing || gate_ == Gate::open) return;
  gate_wanted_ = true;
  if (certain) {
    if (!raise_waits_ || now - raise_seen_ > raise_seen_again) raise_waits_ = now;
    raise_seen_ = now;
  }
  if (may_leave()) return send_leave(AfterLeave::ready, now);
  // Only as long as it is seen to wait: one that has given up ends nobody.
  if (certain && now - *raise_waits_ >= grace_ + server_first) end_for_raise();
}

}  // namespace termgate::tds_session
