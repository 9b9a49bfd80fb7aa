#include <termgate/conversation/rule_claim.hpp>

#include <utility>

namespace termgate::conversation {

void RuleClaim::ask(const TermSource& rule) {
  const TermSource::Standing standing = rule.now();
  if (!standing.scope || !standing.term)
    return none(standing.problem_code, standing.why_not.empty()
                                           ? "the rule of this connection has none now"
                                           : standing.why_not);
  const ScopedTerm now{standing.scope->name(), standing.term->value()};
  if (bound_.empty()) bound_ = now;
  if (bound_ == now) {
    code_.clear();
    problem_.clear();
    return;
  }
  none("TG001", "this session was admitted under term " + std::to_string(bound_.term) +
                    " of scope \"" + bound_.scope + "\", and its rule now has term " +
                    std::to_string(now.term) + " of scope \"" + now.scope + "\": connect again");
}

void RuleClaim::none(std::string code, const std::string& why) {
  problem_ = code + (code == "TG001" ? " stale: " : " no term for a fenced write: ") + why;
  code_ = std::move(code);
}

}  // namespace termgate::conversation
