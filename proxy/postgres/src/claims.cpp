// Which scope and term a session writes under (claims.hpp has the owner, the thread and the
// invariant). The claim has three sources, in this order of precedence: a final rule of the
// operator, the comment of the statement, what the session has declared. An overridable rule counts
// only where the other two are silent.
#include "claims.hpp"

#include <cassert>

#include "numbers.hpp"

namespace termgate::pg_session {

void Claims::declare(const statements::Declaration& at_start) {
  if (at_start.scope) known_.scope = at_start.scope->name();
  if (at_start.term) known_.term = at_start.term->value();
  spoke_ = !known_.empty();
}

void Claims::admit(const Admission& admission, bool replication) {
  admission_ = admission;
  replication_ = replication;
}

void Claims::server_declares(std::string_view scope, std::string_view term) {
  const ScopedTerm declared{std::string(scope), term.empty() ? 0 : number(term)};
  if (!term.empty() && declared.term < 1) {
    certain_ = false;  // malformed: the check in the server reports it
    spoke_ = true;
    return;
  }
  known_ = declared;
  at_login_ = declared;
  spoke_ |= !declared.empty();
}

void Claims::discarded() {
  if (!at_login_) return;
  known_ = *at_login_;
  certain_ = true;
  by_its_text_ = false;
}

bool Claims::enforces() const noexcept { return admission_.enforce == Enforce::on; }

// The guard extension reads only the settings of the server's session, so it knows nothing of a
// rule of the proxy. It refuses every write without a term, so it fits the policy read_only and no
// other.
bool Claims::may_be_server_guarded() const noexcept {
  return admission_.enforce == Enforce::on && !replication_ && !rule() &&
         admission_.without_term == WithoutTerm::read_only;
}

// Under `allow` a session may write without a term until it declares one. So it is READ ONLY by
// default only from then on (guard_from_here): from its login on, if it has a rule or its start-up
// message declares.
bool Claims::guards() const noexcept {
  if (server_guarded_ || seated_) return false;
  return admission_.enforce == Enforce::on && !replication_ &&
         (admission_.without_term != WithoutTerm::allow || guarded_);
}
// `perhaps_` counts: a function with an unknown body may have declared, and then the session's
// later writes need the check.
bool Claims::active() const noexcept {
  if (handed_over_) return false;
  return admission_.enforce == Enforce::on &&
         (admission_.without_term != WithoutTerm::allow || may_speak() || perhaps_);
}
bool Claims::final_rule() const noexcept { return rule() && !admission_.overridable; }
bool Claims::asks_at_login(bool pooler) const noexcept {
  return guards() || (!replication_ && !pooler);
}

bool Claims::guard_from_here() {
  if (guarded_ || admission_.without_term != WithoutTerm::allow || !(spoke_ || perhaps_) ||
      !active())
    return false;
  return guarded_ = true;
}

void Claims::transaction_begins() {
  if (rule()) by_rule_.ask(*admission_.rule);
}

bool Claims::may_write() const noexcept {
  return may_speak() || admission_.without_term == WithoutTerm::allow;
}

void Claims::learn(const Learned& learned) {
  spoke_ |= learned.speaks_of_terms;
  perhaps_ |= learned.calls_unknown;
}

void Claims::may_declare(bool by_its_text) {
  certain_ = false;
  by_its_text_ |= by_its_text;
  ++declarations_;
}

// The answer is about the declarations that had been sent before the check. If the client has sent
// another since, the answer is old and says nothing about the session as it is now.
void Claims::check_passed(const ScopedTerm& pair, std::uint32_t declarations) {
  if (declarations != declarations_) return;
  known_ = pair;
  certain_ = true;
  by_its_text_ = false;
}

// A refusal names the scope and term that the server compared, so the next write of the session can
// be refused without a query to the server.
void Claims::check_refused(const ScopedTerm& pair, std::uint32_t declarations) {
  if (declarations != declarations_) return;
  known_ = pair;
  certain_ = true;
}

void Claims::none_by_rule(Claim& claim) const {
  claim.code = by_rule_.code();
  claim.problem = by_rule_.problem();
}

Claim Claims::claim_of(const statements::Declaration* named) const {
  Claim claim;
  if (final_rule()) {
    const ScopedTerm& bound = by_rule_.bound();
    assert((bound.empty() || bound.complete()) && "a rule binds a scope and a term together");
    claim.pair = claim.given = bound;
    claim.certain = bound.complete();
    if (!by_rule_.stands()) none_by_rule(claim);
    return claim;
  }
  if (certain_) claim.pair = known_;
  if (by_rule_.stands()) claim.otherwise = by_rule_.bound();
  if (named != nullptr && !named->empty()) {
    claim.named = true;
    if (!named->problem.empty()) {
      claim.code = "TG005";
      claim.problem = named->problem;
      return claim;
    }
    // A comment may name only one half. The other half is then what the session declares.
    if (named->scope) claim.pair.scope = claim.given.scope = named->scope->name();
    if (named->term) claim.pair.term = claim.given.term = named->term->value();
  } else if (claim.pair.empty() && certain_ && rule()) {
    claim.pair = by_rule_.bound();
    if (!by_rule_.stands()) none_by_rule(claim);
  }
  claim.certain = claim.pair.complete();
  return claim;
}

Standing Claims::standing_of(const Claim& claim, const Refusal& known) const {
  // The order matters: a claim with a problem is refused for that, whatever fences are remembered.
  if (!claim.problem.empty()) return Standing::problem;
  if (known) return known.code == "TG001" ? Standing::stale : Standing::untrusted;
  if (claim.certain) return Standing::current;
  // A session that is not known to have declared anything has no claim: it reads, and the server
  // refuses its writes. With the policy `allow` only the server's session knows whether it has
  // declared (check_again); if not, it may write.
  const bool silent = admission_.without_term != WithoutTerm::allow &&
                      (certain_ ? claim.pair.empty() : !may_speak());
  return silent ? Standing::none : Standing::uncertain;
}

}  // namespace termgate::pg_session
