// The decision (docs/decisions/0010): from a unit, the transaction and the claim to an act. Pure
// functions without state; all that they know is in their arguments, so every combination can be
// tested. An unclear case gets a check.
#include "guard.hpp"

#include <algorithm>

#include <termgate/detail/plant.hpp>

#include "guard_faults.hpp"

namespace termgate::pg_session {
namespace {

// Whether a check could pass with this claim, as far as the proxy knows.
constexpr bool may_pass(Standing claim) noexcept {
  return claim == Standing::current || claim == Standing::uncertain;
}

constexpr Act refusal_of(Standing claim) noexcept {
  return claim == Standing::problem ? Act::refuse_claim : Act::refuse_known;
}

constexpr bool is_refused(Standing claim) noexcept {
  return claim == Standing::problem || claim == Standing::stale || claim == Standing::untrusted;
}

constexpr bool runs_apart(const Unit& unit) noexcept {
  return unit.does == Does::code || unit.does == Does::alone;
}

constexpr bool is_write(const Unit& unit) noexcept {
  return unit.does == Does::writes || unit.does == Does::prepares || unit.does == Does::own_call;
}

// The Parse or Bind of the unit, which runs only code ahead of it: that code is `does`.
Unit as_ahead(Unit unit, Does does) noexcept {
  unit.does = does;
  unit.hole = false;
  return unit;
}

// A standby refuses every write itself. But what READ ONLY does not stop (advisory locks, programs)
// has effects there too, so it is refused without a term.
bool enforces(const Unit& unit, const Policy& policy) noexcept {
  return policy.active &&
         !(policy.standby && (policy.may_speak || !unit.hole || unit.does == Does::alone));
}

// Whether more statements of the unit's transaction may follow: a block or a frame is open. In a
// pipeline false for reads, savepoints and what runs apart: another unit opens it, if one needs to.
bool is_open(const Unit& unit, const TransactionView& view) noexcept {
  if (view.place != Place::group) return view.place == Place::block;
  return unit.does != Does::reads && unit.does != Does::savepoint && !runs_apart(unit);
}

// The transaction is READ ONLY and must stay so. One that is held can still be opened at its
// beginning.
bool is_fixed(const TransactionView& view) noexcept {
  if (view.place != Place::group) return view.tx.snapshot || view.tx.locked;
  return view.pipeline.called || (!view.tx.writable && !view.pipeline.opening_possible);
}

// In a session that is not READ ONLY by default (`guards` is false) every transaction can write.
// But what runs apart begins its own, so no check can have passed in that.
bool is_writable(const Unit& unit, const TransactionView& view) noexcept {
  const bool by_itself =
      runs_apart(unit) && (view.place == Place::alone || view.place == Place::group);
  return view.may_write() && (view.guards || !by_itself);
}

// Whether the transaction may go on with the unit without another check.
bool covered(const Unit& unit, const TransactionView& view, Standing claim) noexcept {
  if (unit.named)
    return view.named_passed && !view.tx.code_declared &&
           !(view.tx.unnamed && !view.tx.session_passed);
  if (view.tx.redeclared) return false;
  if (view.tx.session_passed) return true;
  return claim == Standing::none && view.tx.other_passed;
}

// For a transaction that can write: what no passed check covers gets a check.
Act in_writable(const Unit& unit, const TransactionView& view, Standing claim) noexcept {
  if (covered(unit, view, claim)) return Act::pass;
  const bool looks_like_read =
      unit.does == Does::reads || unit.does == Does::calls || unit.does == Does::fetch;
  const bool passed = view.tx.passed_any();
  // With the guard in the server a read needs no claim while nothing was checked: if it writes
  // after all, the guard checks what the session declares.
  const bool undeclared = claim == Standing::none || claim == Standing::uncertain;
  if (view.server_guards && looks_like_read && !unit.named && undeclared && !passed)
    return Act::pass;
  // The transaction was made writable for a declaration or a savepoint, and no claim could pass: it
  // continues as one that reads.
  if (looks_like_read && !unit.named && (claim == Standing::none || is_refused(claim)) && !passed &&
      !view.tx.acted)
    return Act::lock;
  if (is_refused(claim)) return refusal_of(claim);
  const bool others_first = view.tx.code_declared || (view.tx.unnamed && !view.tx.session_passed);
  if (unit.named)
    return !others_first ? Act::check : view.named_passed ? Act::recheck : Act::check_both;
  // The session may have declared something else since its check passed, or withdrawn its claim.
  // What is certainly a read needs no claim then, so the session is only rechecked.
  if (view.tx.session_passed) return unit.does >= Does::calls ? Act::check : Act::recheck;
  // A check of arguments or of a comment counts for a session that declares nothing; only the
  // server knows whether it does.
  if (view.tx.other_passed && (claim == Standing::uncertain || claim == Standing::none))
    return Act::recheck;
  return Act::check;
}

// For a transaction that the client wants READ ONLY, or whose mode is fixed so: what READ ONLY does
// not stop still needs a check.
Act in_read_only(const Unit& unit, const TransactionView& view, Standing claim) noexcept {
  if (unit.does == Does::alone) return Act::refuse_no_term;
  if (unit.does != Does::code && !unit.hole)
    return Act::pass;  // the server refuses it, if it writes
  if (!is_open(unit, view)) return Act::frame;
  if (covered(unit, view, claim)) return Act::pass;
  if (is_refused(claim)) return refusal_of(claim);
  return may_pass(claim) ? Act::check : Act::refuse_no_term;
}

// `writable`: the transaction can write, or could until it was made READ ONLY inside a savepoint.
Act for_commit(const TransactionView& view, bool writable) noexcept {
  if (view.tx.failed || !writable || !(view.tx.acted || view.tx.left_over)) return Act::pass;
  const bool passed = view.tx.passed_any();
  if (passed)
    return view.tx.redeclared || (view.tx.unnamed && !view.tx.session_passed) ? Act::recheck
                                                                              : Act::pass;
  if (view.server_guards) return Act::pass;  // the server refuses a COMMIT of unchecked writes
  return view.tx.acted ? Act::check : Act::lock;
}

// For a unit that runs, whatever its place.
Act for_run(const Unit& unit, const TransactionView& view, Standing claim,
            const Policy& policy) noexcept {
  if (!enforces(unit, policy) || view.tx.failed) return Act::pass;
  const bool open = is_open(unit, view), fixed = is_fixed(view), writable = is_writable(unit, view);
  // Check before another claim replaces the one that code has declared and written under. A view, a
  // trigger or a cast can run code that the text does not show. Until a check has passed, only code
  // that may have declared counts.
  const bool any_passed = view.tx.passed_any();
  if (unit.redeclares && writable && (view.tx.code_declared || (view.tx.acted_since && any_passed)))
    return Act::recheck;
  switch (unit.does) {
    case Does::quiet:
    case Does::begin:
    case Does::rollback: return Act::pass;
    case Does::commit: return for_commit(view, writable);
    default: break;
  }
  if (view.read_only && !writable) return in_read_only(unit, view, claim);
  const bool harmless =
      unit.does == Does::declares || unit.does == Does::savepoint || unit.does == Does::own_call;
  if (writable) return harmless ? Act::pass : in_writable(unit, view, claim);
  switch (unit.does) {
    case Does::fetch: return Act::pass;
    case Does::declares:
    case Does::savepoint:
      // After a savepoint the transaction cannot be made writable any more, whatever is declared
      // then. The check waits for a statement that needs one, because the next one may declare
      // another claim.
      return open && !fixed ? Act::open_unchecked : Act::pass;
    case Does::reads: return open && !fixed && may_pass(claim) ? Act::open : Act::pass;
    case Does::calls: return !fixed && may_pass(claim) ? Act::open : Act::pass;
    case Does::own_call: return Act::open_unchecked;
    default: break;
  }
  if (is_refused(claim)) return refusal_of(claim);
  return runs_apart(unit) && !open ? Act::hold : Act::open;
}

// For a Parse or a Bind in a block.
Act ahead_in_block(const Unit& unit, const TransactionView& view, Standing claim,
                   const Policy& policy) noexcept {
  if (unit.ahead != Does::quiet && view.may_write()) {
    // The claim may be declared only after the Parse and the Bind. Whatever these have run is then
    // checked with the next statement, or before the COMMIT.
    const bool undeclared = !unit.named && !view.tx.passed_any() && claim == Standing::none;
    if (undeclared && (unit.does >= Does::writes || view.tx.acted)) return Act::wait;
    // The Parse or Bind runs this code even if there is no Execute.
    return for_run(as_ahead(unit, unit.ahead), view, claim, policy);
  }
  if (unit.does == Does::declares || unit.does == Does::own_call)
    return for_run(unit, view, claim, policy);
  // A Parse writes nothing, but it fixes the access mode of its transaction as a read does.
  if (unit.does < Does::savepoint || unit.does == Does::commit || unit.does == Does::fetch)
    return Act::pass;
  // The claim may be declared before the statement runs, and by then the transaction could not be
  // made writable any more.
  if (unit.does >= Does::writes && !view.tx.writable && !view.tx.snapshot && !view.read_only &&
      claim == Standing::none)
    return Act::open_unchecked;
  if (view.tx.writable) return Act::pass;
  Unit seen = as_ahead(unit, unit.snapshot ? Does::reads : Does::quiet);
  seen.named = false;
  return for_run(seen, view, claim, policy);
}

// A text is one transaction: if one of its statements must be checked, the frame begins with the
// first one.
Act in_text(const Unit& unit, const TransactionView& view, Standing claim,
            const Policy& policy) noexcept {
  TransactionView framed = view;
  framed.place = Place::block;
  const Act act = for_run(unit, view, claim, policy);
  if (unit.does == Does::declares || is_write(unit) ||
      (act != Act::pass && for_run(unit, framed, claim, policy) != Act::pass))
    return is_write(unit) && !unit.own && is_refused(claim) ? refusal_of(claim) : Act::frame;
  // Only a statement that needs no frame runs outside of one.
  return act == Act::frame ? Act::refuse_no_term : act;
}

// Earlier reads may have run code that declares a claim and, once the transaction is opened at its
// beginning, writes. So that claim is checked before another one replaces it. If that is
// impossible, the transaction stays READ ONLY to its end.
Act redeclares_after_reads(const TransactionView& view, Standing claim) noexcept {
  const PipelineView& pipeline = view.pipeline;
  const bool possible = !is_refused(claim) && !is_refused(view.members) && !pipeline.called &&
                        pipeline.opening_possible;
  return possible ? Act::open_then_recheck : Act::stay_read_only;
}

// The transaction of a pipeline would be opened at its beginning. Its earlier reads could then
// write too, so none of them may call functions of unknown effect, and each of their claims must be
// able to pass.
Act opened_where_it_begins(Act act, const Unit& unit, const TransactionView& view,
                           const Policy& policy) noexcept {
  const PipelineView& pipeline = view.pipeline;
  if (is_refused(view.members)) return Act::refuse_member;
  if (pipeline.called && act == Act::open) return Act::refuse_after_call;
  if (!pipeline.opening_possible) return Act::refuse_after_read;
  if (unit.unread && !policy.may_speak && !policy.allows) return Act::refuse_unread;
  // `lock` comes only from a session that is not READ ONLY by default. The transaction goes on
  // without a check, and gets one before its COMMIT.
  if (act != Act::open) return Act::open_unchecked;
  return view.tx.redeclared && pipeline.executed_here ? Act::open_then_check : Act::open;
}

Act in_group(const Unit& unit, const TransactionView& view, Standing claim,
             const Policy& policy) noexcept {
  const PipelineView& pipeline = view.pipeline;
  const bool runs = unit.step == Step::runs;
  // What runs apart needs the check's lock at session level, which would be taken ahead of
  // everything held, and READ ONLY is lifted with it, even for what an already ended transaction
  // has read. Up to version 17 CALL and DO could commit our check's lock away in the middle of a
  // pipeline, and READ ONLY does not stop VACUUM.
  const bool follows =
      view.tx.writable || pipeline.touched_server || pipeline.executed || pipeline.planned;
  if (runs && runs_apart(unit) && follows && !view.reads_only)
    return unit.does == Does::code ? Act::refuse_code_after : Act::refuse_alone_after;
  if (runs && unit.redeclares && !pipeline.direct() && pipeline.acted_here && !view.tx.writable &&
      !view.reads_only)
    return redeclares_after_reads(view, claim);
  // A Bind runs the code of what does not look like a write; a write is decided completely at its
  // Bind.
  const bool ahead = !runs && (unit.input || unit.does == Does::reads || unit.does == Does::calls);
  const Unit seen = ahead ? as_ahead(unit, unit.ahead) : unit;
  const Act act = for_run(seen, view, claim, policy);
  switch (act) {
    case Act::pass:
      if (!runs && !ahead) return Act::wait;
      return seen.does == Does::own_call && unit.untrusted ? Act::refuse_own : Act::pass;
    case Act::frame: return Act::refuse_own_word;
    case Act::hold: return !runs ? Act::wait : unit.unlocks ? Act::refuse_unlocks : Act::hold;
    case Act::refuse_claim:
    case Act::refuse_known:
    case Act::refuse_no_term: return !runs && runs_apart(seen) ? Act::wait : act;
    default: break;
  }
  if (ahead && !is_writable(seen, view)) return Act::open_later;
  if (!runs && !ahead && unit.does != Does::writes && unit.does != Does::prepares) return Act::wait;
  // An earlier statement may declare the claim that this one needs, so it is judged when it runs.
  if (!runs && view.can_wait && claim != Standing::current) return Act::wait;
  if (seen.does == Does::own_call && unit.untrusted) return Act::refuse_own;
  if (seen.does == Does::own_call && pipeline.called) return Act::refuse_own_after_call;
  if (view.tx.writable || act == Act::check || act == Act::check_both || act == Act::recheck)
    return act;
  return opened_where_it_begins(act, unit, view, policy);
}

Act sound(const Unit& unit, const TransactionView& view, Standing claim,
          const Policy& policy) noexcept {
  // The server refuses it.
  if (view.tx.failed && view.place != Place::group) return Act::pass;
  switch (view.place) {
    case Place::call: return unit.does == Does::writes ? Act::refuse_call : Act::pass;
    case Place::text: return in_text(unit, view, claim, policy);
    case Place::group: return in_group(unit, view, claim, policy);
    case Place::alone:
    case Place::block: break;
  }
  const bool ahead = view.place == Place::block && !runs_now(unit, view.tx.writable, claim);
  const Act act =
      ahead ? ahead_in_block(unit, view, claim, policy) : for_run(unit, view, claim, policy);
  if (act == Act::hold && unit.unlocks) return Act::refuse_unlocks;
  if (unit.does == Does::own_call && (act == Act::pass || act == Act::open_unchecked)) {
    if (unit.untrusted) return Act::refuse_own;
    // By itself it runs writable even where its transaction would be READ ONLY.
    if (view.place == Place::alone) return Act::open_unchecked;
  }
  return act;
}

// The decision, with the fault that a build for tests has planted.
template <class Decide>
Act perhaps_planted(const Unit& unit, const TransactionView& view, Standing claim,
                    Decide judge) noexcept {
#ifdef TERMGATE_PLANT
  static const Fault fault = [] {
    const auto* const found =
        std::find_if(planted_faults.begin(), planted_faults.end(),
                     [](const auto& one) { return detail::planted(one.first); });
    return found == planted_faults.end() ? Fault::none : found->second;
  }();
  return decide_with(fault, unit, view, claim, judge);
#else
  return judge(unit, view, claim);
#endif
}

}  // namespace

bool runs_now(const Unit& unit, bool writable, Standing claim) noexcept {
  return unit.step == Step::runs ||
         (unit.step == Step::plans && is_write(unit) && !writable && claim != Standing::none);
}

Act at_sight(const Unit& unit, const TransactionView& view, Standing claim,
             const Policy& policy) noexcept {
  const PipelineView& pipeline = view.pipeline;
  const bool runs = unit.step == Step::runs, may_claim = policy.may_speak || policy.allows;
  const bool unread = unit.unread && !view.may_write();
  if (!pipeline.begun()) {
    if (!unread || policy.standby) return Act::pass;
    if (is_refused(claim)) return refusal_of(claim);
    if (view.read_only && !view.tx.writable) return Act::refuse_unread_read_only;
    return may_claim ? Act::pass : Act::refuse_unread;
  }
  if (pipeline.needs_hold) return Act::refuse_after_held;
  // DISCARD ALL commits what came before it, releases our check's lock, and resets READ ONLY, which
  // is restored only after the Sync.
  const bool discards = unit.discards && runs && view.place != Place::block;
  if (pipeline.discarded ||
      (discards && (view.tx.writable || pipeline.touched_server || pipeline.executed_here)))
    return Act::refuse_discard;
  // The server may not know a statement or portal that the proxy does not know. Its error (26000,
  // 34000) comes before a refusal.
  return unread && !runs && (!may_claim || is_refused(claim)) ? Act::wait : Act::pass;
}

Act before_flush(const TransactionView& view, Standing claim, bool writes, bool flushed) noexcept {
  const PipelineView& pipeline = view.pipeline;
  if (pipeline.needs_hold) return Act::refuse_flush;
  const bool acts = pipeline.executed || writes;
  // A Flush sends what fixes the access mode, and a later statement of the pipeline may write. A
  // long Bind of a read is no reason to expect a write.
  if (!view.reads_only && !is_refused(view.members) && may_pass(claim) &&
      (acts || (flushed && pipeline.snapshot_here)) && pipeline.opening_possible &&
      !pipeline.called)
    return !view.tx.redeclared || view.redeclared_ahead ? Act::open : Act::open_unchecked;
  return view.can_wait && (acts || pipeline.snapshot_here) ? Act::stay_read_only : Act::pass;
}

Act decide(const Unit& unit, const TransactionView& view, Standing claim,
           const Policy& policy) noexcept {
  return perhaps_planted(unit, view, claim,
                         [&](const Unit& one, const TransactionView& seen, Standing of) {
                           return sound(one, seen, of, policy);
                         });
}

Act before_commit(const TransactionView& view, const Policy& policy) noexcept {
  return perhaps_planted({.does = Does::commit}, view, Standing::current,
                         [&](const Unit& one, const TransactionView& seen, Standing) {
                           return enforces(one, policy)
                                      ? for_commit(seen, seen.tx.writable || !seen.guards)
                                      : Act::pass;
                         });
}

}  // namespace termgate::pg_session
