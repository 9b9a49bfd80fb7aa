// Which scope and term a session writes under: what the operator's rule gives, or what the session
// declares. The declaration wins unless there is a rule that is not overridable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/conversation/admission.hpp>
#include <termgate/conversation/rule_claim.hpp>
#include <termgate/statements/declaration.hpp>

namespace termgate::tds_session {

using conversation::ScopedTerm;

struct Claim {
  // Incomplete and without a code: only the server knows whether the session has a claim, and
  // which.
  ScopedTerm pair;
  // Why there can be no claim.
  std::string code, message;
};

// The error message for a client whose term is below the fence.
std::string stale_message(const ScopedTerm& pair, std::int64_t fence);

class Claims {
 public:
  void admit(const conversation::Admission& admission) { admission_ = admission; }
  // Declared by the application name of the login. A malformed declaration is a reason to refuse
  // the login.
  void declare_at_login(const statements::Declaration& declaration);
  // Declared by EXEC termgate.set_term. Lasts until the session is reset.
  void set(ScopedTerm pair) { set_ = std::move(pair); }
  // SESSION_CONTEXT has a scope or a term, or a message was sent that sets one.
  void server_knows() noexcept { server_ = ServerKnows::a_claim; }
  // Something ran that may have declared: a procedure, a trigger, a text with a variable in it.
  void server_may_know() noexcept {
    if (server_ == ServerKnows::nothing) server_ = ServerKnows::perhaps;
  }
  // The gate has reported that the session has declared nothing.
  void server_knows_nothing() noexcept { server_ = ServerKnows::nothing; }
  void reset() { set_ = {}; }

  const conversation::Admission& admission() const noexcept { return admission_; }
  bool enforces() const noexcept { return admission_.enforce == conversation::Enforce::on; }
  bool final_rule() const noexcept { return admission_.rule != nullptr && !admission_.overridable; }
  // Whether the session may write without a term if SESSION_CONTEXT has no claim. Only the gate
  // knows whether it has one.
  bool allows_silence() const noexcept;
  // The session may write without a term, and is not known to have declared anything.
  bool is_silent() const noexcept { return allows_silence() && server_ != ServerKnows::a_claim; }
  // The session may write without a term and has declared nothing: since the gate reported that,
  // nothing has run that may declare.
  bool may_go_without() const noexcept {
    return allows_silence() && server_ == ServerKnows::nothing;
  }

  // The claim that applies now. Queries the rule, if its claim is the one that counts.
  Claim now();

 private:
  // What is known of a claim in SESSION_CONTEXT, which only the server sees.
  enum class ServerKnows : std::uint8_t { nothing, perhaps, a_claim };

  // Declared by set_term, else at the login.
  const ScopedTerm& declared() const noexcept { return set_.empty() ? at_login_ : set_; }

  conversation::Admission admission_;
  conversation::RuleClaim by_rule_;
  ScopedTerm at_login_, set_;
  ServerKnows server_ = ServerKnows::nothing;
};

}  // namespace termgate::tds_session
