// Which scope and term a session writes under: by the operator's rule, else by what it declares itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/conversation/admission.hpp>
#include <termgate/statements/declaration.hpp>

namespace termgate::tds_session {

struct Pair {
  std::string scope;
  std::int64_t term = 0;
  bool complete() const noexcept { return !scope.empty() && term > 0; }
  bool operator==(const Pair&) const = default;
};

struct Claim {
  Pair pair;                  // incomplete and without a code: the server's session knows
  std::string code, message;  // why there can be none
};

class Claims {
 public:
  void admit(const conversation::Admission& admission) { admission_ = admission; }
  // By the application name of the login. What is malformed there is a reason not to let in.
  void declare_at_login(const statements::Declaration& declaration);
  // By EXEC termgate.set_term. Lasts until the session is reset.
  void set(Pair pair) { set_ = std::move(pair); }
  // The session's own SESSION_CONTEXT speaks of terms, or may.
  void server_knows() noexcept { server_knows_ = true; }
  // Something ran that can have declared: a procedure, a trigger, a text with a variable in it.
  void server_may_know() noexcept { server_may_know_ = true; }
  // The gate was asked, and nothing is declared.
  void server_knows_nothing() noexcept { server_knows_ = server_may_know_ = false; }
  void reset() { set_ = {}; }

  const conversation::Admission& admission() const noexcept { return admission_; }
  bool enforces() const noexcept { return admission_.enforce == conversation::Enforce::on; }
  bool final_rule() const noexcept { return admission_.rule != nullptr && !admission_.overridable; }
  // Whether the session may do as it likes for want of a claim, as far as we know.
  bool is_silent() const noexcept;
  // The same for certain: nothing has run since the gate was asked that can have declared.
  bool may_go_without() const noexcept { return is_silent() && !server_may_know_; }
  // Whether one that has declared nothing may: the gate must be asked.
  bool allows_silence() const noexcept;

  // For a message outside a transaction, or the first one inside.
  Claim now();

 private:
  conversation::Admission admission_;
  Pair bound_;           // by the rule, for good
  Pair at_login_, set_;  // its own
  bool server_knows_ = false, server_may_know_ = false;
};

}  // namespace termgate::tds_session
