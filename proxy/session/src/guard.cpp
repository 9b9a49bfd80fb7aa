// The decision (docs/decisions/0010): from a unit, the transaction and the claim to an act. Pure
// functions without state; all that they know is in their arguments, so every combination can be
// tested. An unclear case gets a check.
#include "guard.hpp"

#include <algorithm>

#include <termgate/detail/plant.hpp>

#include "guard_faults.hpp"

namespace termgate::session {
namespace {

// Whether a check could pass with this claim, as far as the proxy knows.
constexpr bool may_pass(Standing claim) noexcept { return claim == Standing::current || claim == Standing::uncertain; }

constexpr Act refusal_of(Standing claim) noexcept { return claim == Standing::problem ? Act::refuse_claim : Act::refuse_known; }

constexpr bool is_refused(Standing claim) noexcept {
  return claim == Standing::problem || claim == Standing::stale || claim == Standing::untrusted;
}

// For a transaction that can write: what no passed check covers gets a check.
Act in_writable(const Unit& unit, const TransactionView& transaction, Standing claim) noexcept {
  if (covered(unit, transaction, claim)) return Act::pass;
  // The transaction was made writable for a declaration or a savepoint, and no claim could pass: it
  // continues as one that reads.
  const bool looks_like_read = unit.does == Does::reads || unit.does == Does::calls || unit.does == Does::fetch;
  const bool passed = transaction.session_passed || transaction.other_passed;
  // Where nothing was checked yet, a read needs no claim: if it writes after all, the server checks
  // what the session declares.
  const bool undeclared = claim == Standing::none || claim == Standing::uncertain;
  if (transaction.server_guards && looks_like_read && !unit.named && undeclared && !passed) return Act::pass;
  if (looks_like_read && !unit.named && (claim == Standing::none || is_refused(claim)) && !passed && !transaction.acted) return Act::lock;
  if (is_refused(claim)) return refusal_of(claim);
  const bool others_first = transaction.code_declared || (transaction.unnamed && !transaction.session_passed);
  if (unit.named) return !others_first ? Act::check : transaction.named_passed ? Act::recheck : Act::check_both;
  // A passed check still counts unless the session has declared something else since, or has
  // withdrawn what it had declared.
  if (transaction.session_passed) return unit.does >= Does::calls ? Act::check : Act::recheck;
  // A check of arguments or of a comment counts for a session that declares nothing; only the
  // server knows whether it does.
  if (transaction.other_passed && (claim == Standing::uncertain || claim == Standing::none)) return Act::recheck;
  return Act::check;
}

// For a transaction that the client wants READ ONLY, or whose mode is fixed so: what READ ONLY does
// not stop still needs a check.
Act in_read_only(const Unit& unit, const TransactionView& transaction, Standing claim) noexcept {
  switch (unit.does) {
    case Does::alone: return Act::refuse_no_term;
    case Does::code: break;
    case Does::writes:
    case Does::prepares:
    case Does::own_call:
      if (!unit.hole) return Act::pass;  // the server refuses it
      break;
    default:
      if (!unit.hole) return Act::pass;
      break;
  }
  if (!transaction.open) return Act::frame;
  if (covered(unit, transaction, claim)) return Act::pass;
  if (is_refused(claim)) return refusal_of(claim);
  return may_pass(claim) ? Act::check : Act::refuse_no_term;
}

}  // namespace

bool covered(const Unit& unit, const TransactionView& transaction, Standing claim) noexcept {
  if (unit.named) return transaction.named_passed && !transaction.code_declared && !(transaction.unnamed && !transaction.session_passed);
  if (transaction.redeclared) return false;
  if (transaction.session_passed) return true;
  return claim == Standing::none && transaction.other_passed;
}

namespace {

Act sound_before_commit(const TransactionView& transaction, const Policy& policy) noexcept {
  if (!policy.enforce || transaction.failed || !transaction.writable || !(transaction.acted || transaction.left_over)) return Act::pass;
  const bool passed = transaction.session_passed || transaction.other_passed;
  if (passed) return transaction.redeclared || (transaction.unnamed && !transaction.session_passed) ? Act::recheck : Act::pass;
  if (transaction.server_guards) return Act::pass;  // the server refuses a COMMIT of unchecked writes
  return transaction.acted ? Act::check : Act::lock;
}

Act sound(const Unit& unit, const TransactionView& transaction, Standing claim, const Policy& policy) noexcept {
  if (!policy.enforce || transaction.failed) return Act::pass;
  // Check before another claim replaces the one that code has declared and written under. A view, a
  // trigger or a cast can run code that the text does not show. A session without a complete claim
  // so far is exempt.
  const bool any_passed = transaction.session_passed || transaction.other_passed;
  if (unit.redeclares && transaction.writable && (transaction.code_declared || (transaction.acted_since && any_passed)))
    return Act::recheck;
  switch (unit.does) {
    case Does::quiet:
    case Does::begin:
    case Does::rollback: return Act::pass;
    case Does::commit: return sound_before_commit(transaction, policy);
    default: break;
  }
  if (transaction.read_only && !transaction.writable) return in_read_only(unit, transaction, claim);
  if (transaction.writable) {
    switch (unit.does) {
      case Does::declares:
      case Does::savepoint:
      case Does::own_call: return Act::pass;
      case Does::fetch:
      default: return in_writable(unit, transaction, claim);
    }
  }
  switch (unit.does) {
    case Does::declares: return transaction.open && !transaction.fixed ? Act::open_unchecked : Act::pass;
    case Does::fetch: return Act::pass;
    case Does::savepoint:
      // After a savepoint the transaction cannot be made writable any more, whatever is declared
      // then. The check waits for a statement that needs one, because the next one may declare
      // another claim.
      return transaction.open && !transaction.fixed ? Act::open_unchecked : Act::pass;
    case Does::reads: return transaction.open && !transaction.fixed && may_pass(claim) ? Act::open : Act::pass;
    case Does::calls: return !transaction.fixed && may_pass(claim) ? Act::open : Act::pass;
    case Does::own_call: return Act::open_unchecked;
    case Does::code:
    case Does::alone:
      if (is_refused(claim)) return refusal_of(claim);
      if (!transaction.open) return Act::hold;
      return Act::open;
    default: break;
  }
  return is_refused(claim) ? refusal_of(claim) : Act::open;
}

}  // namespace

#ifdef TERMGATE_PLANT
namespace {

Act with_planted_fault(const Unit& unit, const TransactionView& transaction, Standing claim, const Policy& policy) noexcept {
  static const Fault fault = [] {
    const auto* const found =
        std::find_if(planted_faults.begin(), planted_faults.end(), [](const auto& one) { return detail::planted(one.first); });
    return found == planted_faults.end() ? Fault::none : found->second;
  }();
  return decide_with(fault, unit, transaction, claim,
                     [&](const Unit& seen, const TransactionView& view, Standing of) { return sound(seen, view, of, policy); });
}

}  // namespace

Act decide(const Unit& unit, const TransactionView& transaction, Standing claim, const Policy& policy) noexcept {
  return with_planted_fault(unit, transaction, claim, policy);
}
Act before_commit(const TransactionView& transaction, const Policy& policy) noexcept {
  return with_planted_fault({Does::commit}, transaction, Standing::current, policy);
}
#else
Act decide(const Unit& unit, const TransactionView& transaction, Standing claim, const Policy& policy) noexcept {
  return sound(unit, transaction, claim, policy);
}
Act before_commit(const TransactionView& transaction, const Policy& policy) noexcept { return sound_before_commit(transaction, policy); }
#endif

}  // namespace termgate::session
