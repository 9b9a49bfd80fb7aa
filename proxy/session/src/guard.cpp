// The decision (decision 0010): a unit, the transaction and the claim in, an act out. Pure functions without
// state; everything they may know is in their arguments, so all combinations can be tested. In doubt the act
// is the one that checks.
#include "guard.hpp"

#include <algorithm>

#include <termgate/detail/plant.hpp>

#include "guard_faults.hpp"

namespace termgate::session {
namespace {

// A check could pass with it, as far as is known here.
constexpr bool may_pass(Standing claim) noexcept { return claim == Standing::current || claim == Standing::uncertain; }

constexpr Act refusal_of(Standing claim) noexcept { return claim == Standing::problem ? Act::refuse_claim : Act::refuse_known; }

constexpr bool is_refused(Standing claim) noexcept {
  return claim == Standing::problem || claim == Standing::stale || claim == Standing::untrusted;
}

// In a transaction that can write: nothing but a check comes before what is not covered.
Act in_writable(const Unit& unit, const TransactionView& transaction, Standing claim) noexcept {
  if (covered(unit, transaction, claim)) return Act::pass;
  // Made writable for a declaration or a savepoint, and no claim is there that could pass: it goes on as a transaction that reads.
  const bool looks_like_read = unit.does == Does::reads || unit.does == Does::calls || unit.does == Does::fetch;
  const bool passed = transaction.session_passed || transaction.other_passed;
  // Where nothing was checked yet, a read needs no claim: should it write after all, the server checks what the session declares.
  const bool undeclared = claim == Standing::none || claim == Standing::uncertain;
  if (transaction.server_guards && looks_like_read && !unit.named && undeclared && !passed) return Act::pass;
  if (looks_like_read && !unit.named && (claim == Standing::none || is_refused(claim)) && !passed && !transaction.acted) return Act::lock;
  if (is_refused(claim)) return refusal_of(claim);
  const bool others_first = transaction.code_declared || (transaction.unnamed && !transaction.session_passed);
  if (unit.named) return !others_first ? Act::check : transaction.named_passed ? Act::recheck : Act::check_both;
  // What was passed is still passed unless the session has declared something else since, or takes back what it had declared.
  if (transaction.session_passed) return unit.does >= Does::calls ? Act::check : Act::recheck;
  // A check by arguments or by a comment counts for a session that declares nothing; whether it does, the server knows.
  if (transaction.other_passed && (claim == Standing::uncertain || claim == Standing::none)) return Act::recheck;
  return Act::check;
}

// In a transaction that the client itself wants READ ONLY, or whose mode is fixed so: what READ ONLY does not stop needs a check all the
// same.
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
  if (transaction.server_guards) return Act::pass;  // where anything was written without a check, the server refuses the COMMIT
  return transaction.acted ? Act::check : Act::lock;
}

Act sound(const Unit& unit, const TransactionView& transaction, Standing claim, const Policy& policy) noexcept {
  if (!policy.enforce || transaction.failed) return Act::pass;
  // Before another claim takes the place of the one that code has declared and written under. A view, a trigger or a cast runs code without
  // a word of it. A session that has declared nothing so far, or half a claim, is spared.
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
      // After it no transaction can be made writable any more, whatever is declared then. The check waits for what needs one: the next
      // statement may declare another claim.
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
