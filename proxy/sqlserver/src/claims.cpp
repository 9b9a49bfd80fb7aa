#include "claims.hpp"

namespace termgate::tds_session {

std::string stale_message(const ScopedTerm& pair, std::int64_t fence) {
  return "TG001 stale term " + std::to_string(pair.term) + " for scope \"" + pair.scope +
         "\": the fence stands at " + std::to_string(fence);
}

void Claims::declare_at_login(const statements::Declaration& declaration) {
  if (declaration.scope) at_login_.scope = declaration.scope->name();
  if (declaration.term) at_login_.term = declaration.term->value();
}

bool Claims::allows_silence() const noexcept {
  return admission_.without_term == conversation::WithoutTerm::allow && !admission_.rule &&
         declared().empty();
}

Claim Claims::now() {
  if (!final_rule()) {
    const ScopedTerm& own = declared();
    if (own.complete()) return {own, {}, {}};
    if (!own.empty())
      return {{},
              "TG002",
              own.scope.empty() ? "TG002 a term is declared, and no scope"
                                : "TG002 a scope is declared, and no term"};
    if (server_ == ServerKnows::a_claim || allows_silence()) return {};
  }
  if (!admission_.rule) {
    const std::string why =
        admission_.without_term == conversation::WithoutTerm::read_only
            ? "TG002 no term: without one a session may only read, and this is not surely a read. "
            : "TG002 no term: through this proxy every statement needs one. ";
    return {{},
            "TG002",
            why +
                "Declare it in the application name (termgate.scope=NAME;termgate.term=N;), by "
                "EXEC termgate.set_term N'NAME', N, or "
                "by a rule of the proxy"};
  }
  by_rule_.ask(*admission_.rule);
  if (by_rule_.stands()) return {by_rule_.bound(), {}, {}};
  return {{}, by_rule_.code(), by_rule_.problem()};
}

}  // namespace termgate::tds_session
