#include "claims.hpp"

namespace termgate::tds_session {

void Claims::declare_at_login(const statements::Declaration& declaration) {
  if (declaration.scope) at_login_.scope = declaration.scope->name();
  if (declaration.term) at_login_.term = declaration.term->value();
}

bool Claims::allows_silence() const noexcept {
  return admission_.without_term == conversation::WithoutTerm::allow && !admission_.rule && set_ == Pair{} && at_login_ == Pair{};
}

bool Claims::is_silent() const noexcept { return allows_silence() && !server_knows_; }

Claim Claims::now() {
  Claim claim;
  const auto own = [&]() -> const Pair& { return set_ == Pair{} ? at_login_ : set_; };
  if (!final_rule()) {
    if (own().complete()) {
      claim.pair = own();
      return claim;
    }
    if (own() != Pair{}) {
      claim.code = "TG002";
      claim.message = own().scope.empty() ? "TG002 a term is declared, and no scope" : "TG002 a scope is declared, and no term";
      return claim;
    }
    if (server_knows_ || allows_silence()) return claim;
  }
  if (!admission_.rule) {
    claim.code = "TG002";
    claim.message = admission_.without_term == conversation::WithoutTerm::read_only
                        ? "TG002 no term: without one a session may only read, and this is not surely a read. "
                        : "TG002 no term: through this proxy every statement needs one. ";
    claim.message +=
        "Declare it in the application name "
        "(termgate.scope=NAME;termgate.term=N;), by EXEC termgate.set_term N'NAME', N, or by a rule of the proxy";
    return claim;
  }
  const conversation::TermSource::Standing standing = admission_.rule->now();
  if (!standing.scope || !standing.term) {
    claim.code = standing.problem_code;
    claim.message = claim.code + " no term for a fenced write: " +
                    (standing.why_not.empty() ? std::string("the rule of this connection has none now") : standing.why_not);
    return claim;
  }
  const Pair given{standing.scope->name(), standing.term->value()};
  if (bound_ == Pair{}) bound_ = given;
  if (bound_ == given) {
    claim.pair = bound_;
    return claim;
  }
  claim.code = "TG001";
  claim.message = "TG001 stale: this session was admitted under term " + std::to_string(bound_.term) + " of scope \"" + bound_.scope +
                  "\", and its rule now says term " + std::to_string(given.term) + " of scope \"" + given.scope + "\": connect anew";
  return claim;
}

}  // namespace termgate::tds_session
