// When our own calls on the client's session enter and leave the gate, and what follows from their
// answers.
#include <utility>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/tds/request.hpp>

#include "state.hpp"

namespace termgate::tds_session {
namespace {

constexpr std::int64_t nothing_declared = 50002;

// The server has a transaction that the proxy has not seen, and has not run the call.
bool is_wrong_transaction(std::uint32_t number) noexcept {
  return number == 3988 || number == 3989;
}

}  // namespace

// --- calls sent ---

void TdsSession::State::send_hello(Instant now) {
  channel_.stage = Stage::hello;
  channel_.call(gate_.hello(now));
}

void TdsSession::State::send_enter(const ScopedTerm& pair, Instant now) {
  // The call belongs to the transaction that the client's message names in its headers.
  const auto headers = tds::decode_headers(message_.payload, channel_.tds_version);
  const bool names =
      headers && message_.type != tds::packet::bulk && (resets_ & tds::status::reset) == 0;
  channel_.stage = Stage::entering;
  const std::string call = gate_.enter(pair, names ? headers->transaction : 0, now);
  const std::uint8_t resets = std::exchange(resets_, std::uint8_t{0});
  on_the_way_.outlived_reset = resets == tds::status::reset_keep_transaction;
  if ((resets & tds::status::reset) != 0) transaction_.ended();
  channel_.call(call, resets);
}

void TdsSession::State::send_leave(AfterLeave after, Instant now) {
  after_leave_ = after;
  channel_.stage = Stage::leaving;
  channel_.call(gate_.leave(transaction_.descriptor(), now));
}

// --- answers ---

void TdsSession::State::hello_ends(Instant now) {
  const Gate::Answer& answer = gate_.answer();
  if (!answer.proven) no_layer1_ = answer.error.empty() ? "the gate did not answer" : answer.error;
  if (answer.declared != 0) claims_.server_knows();
  if (answer.grace_ms > 0) gate_.set_grace(std::chrono::milliseconds(answer.grace_ms));
  login_.pass_answer_on();
  channel_.stage = Stage::ready;
  pump_client(now);
}

void TdsSession::State::enter_ends(Instant now) {
  const Gate::Answer& answer = gate_.answer();
  // If no pair was passed, the gate used what the session has declared.
  const bool given = gate_.pair().complete();
  if (answer.proven) {
    gate_.learn_pair();
    transaction_.counted(answer.trancount);
    if (answer.trancount == 0) transaction_.ended();
    if (answer.fence > 0) channel_.host.saw_fence(gate_.pair().scope, answer.fence);
  }
  if (!given && answer.proven && answer.code == nothing_declared && answer.scope.empty() &&
      claims_.allows_silence()) {
    claims_.server_knows_nothing();
    gate_.becomes(Gate::Is::open);
    if (!on_the_way_.cancelled) {
      Verdict verdict;
      verdict.does = does_;
      return forward(verdict, now);
    }
  } else if (!given && answer.proven) {
    claims_.server_knows();
  }
  if (answer.proven && answer.code == 0 && gate_.pair().complete()) return entered(now);
  if (answer.proven && answer.raise && !on_the_way_.raised && gate_.pair().complete()) {
    on_the_way_.raised = true;
    gate_.becomes(Gate::Is::open);
    channel_.stage = Stage::raising;
    return channel_.act(conversation::Action::Kind::raise);
  }
  not_entered(now);
}

void TdsSession::State::entered(Instant now) {
  gate_.becomes(Gate::Is::held);
  gate_.used(now);
  conversation::Incident incident;
  incident.kind = conversation::Incident::Kind::fenced;
  incident.scope = gate_.pair().scope;
  incident.term = gate_.pair().term;
  incident.fence = gate_.answer().fence;
  incident.took = now - gate_.called_at();
  channel_.happened(incident);
  if (ends_cancelled(now)) return;
  Verdict verdict;
  if (does_ == Verdict::Does::announces_bulk) verdict.does = does_;
  forward(verdict, now);
}

void TdsSession::State::not_entered(Instant now) {
  const Gate::Answer& answer = gate_.answer();
  refusal_code_ = "TG006";
  if (answer.proven) {
    // A refusal leaves the gate as it was before, which is open.
    gate_.becomes(Gate::Is::open);
    if (std::string code = detail::tg_code_of(answer.code); !code.empty())
      refusal_code_ = std::move(code);
    refusal_message_ = answer.message.empty()
                           ? "TG006 the gate refused with " + std::to_string(answer.code)
                           : answer.message;
    if (!refusal_message_.starts_with(refusal_code_))
      refusal_message_ = refusal_code_ + " " + refusal_message_;
  } else {
    refusal_message_ = "TG006 the gate of layer 1 gave no proof, and nothing was run" +
                       (answer.error.empty() ? std::string(" (SET NOEXEC, FMTONLY or SHOWPLAN?)")
                                             : ": " + answer.error);
    if (gate_.pair().complete()) return send_leave(AfterLeave::refuse, now);
    // Without an error nothing ran at all, so the gate cannot be held.
    if (!answer.error.empty() || !claims_.is_silent())
      return end(number_of(refusal_code_), refusal_message_);
    gate_.becomes(Gate::Is::open);
  }
  if (ends_cancelled(now)) return;
  refuse(refusal_code_, refusal_message_, false, answer.fence);
  pump_client(now);
}

void TdsSession::State::leave_ends(Instant now) {
  const Gate::Answer& answer = gate_.answer();
  if (answer.proven && answer.code == 0) {
    gate_.becomes(Gate::Is::open);
    transaction_.counted(answer.trancount);
  } else if ((answer.proven && answer.code == 1) || is_wrong_transaction(answer.error_number)) {
    transaction_.may_be_open();
    gate_.used(now);
    if (gate_.is() == Gate::Is::unsure) return end(50006, refusal_message_);
  } else {
    return end(50006, "TG006 the gate could not be given back: " +
                          (answer.error.empty() ? answer.message : answer.error));
  }
  if (ends_cancelled(now)) return;
  channel_.stage = Stage::ready;
  switch (after_leave_) {
    case AfterLeave::ready:
      if (drain_ends()) return;
      break;
    case AfterLeave::enter:
      if (gate_.is() == Gate::Is::open) return send_enter(next_pair_, now);
      refuse("TG005",
             "TG005 a transaction is open that writes under term " +
                 std::to_string(gate_.pair().term) + " of scope \"" + gate_.pair().scope +
                 "\": its claim is fixed until it ends",
             false);
      break;
    case AfterLeave::refuse: refuse(refusal_code_, refusal_message_, false, answer.fence); break;
  }
  pump_client(now);
}

void TdsSession::State::raised(const conversation::Raised& event, Instant now) {
  if (channel_.stage != Stage::raising) return;
  if (ends_cancelled(now)) return;
  channel_.stage = Stage::ready;
  if (event.code.empty()) return send_enter(ScopedTerm(gate_.pair()), now);
  refuse(event.code, event.message, false);
  pump_client(now);
}

bool TdsSession::State::ends_cancelled(Instant now) {
  if (!std::exchange(on_the_way_.cancelled, false)) return false;
  channel_.stage = Stage::ready;
  message_ = {};
  channel_.acknowledge_attention();
  pump_client(now);
  return true;
}

// The gate may also be left while a message has partly arrived and the server has seen nothing of
// it, so a client that stops there does not block a raise.
bool TdsSession::State::may_leave() const noexcept {
  return channel_.stage == Stage::ready && gate_.held() && !rows_may_come_ &&
         !transaction_.is_open();
}

void TdsSession::State::wanted(bool certain, Instant now) {
  if (channel_.stage == Stage::closing || gate_.is() == Gate::Is::open) return;
  gate_.wanted(certain, now);
  if (may_leave()) return send_leave(AfterLeave::ready, now);
  // Only while the raise is seen to wait: a raise that has given up ends no session.
  if (certain && gate_.grace_is_over(now)) end_for_raise();
}

}  // namespace termgate::tds_session
