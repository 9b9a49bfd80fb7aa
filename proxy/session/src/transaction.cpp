// The transaction as it will be when everything sent has run: what each statement makes of it, and what must stand before a statement in a
// block that is open already.
#include <algorithm>

#include <termgate/detail/plant.hpp>

#include "names.hpp"
#include "state.hpp"

namespace termgate::session {

using statements::Access;
using statements::Kind;
using Way = Effects::Way;

// A name that stands for something already keeps standing for it where the PREPARE fails, so nothing is known of it then.
void Session::State::note_prepared(const Effects& effects) {
  if (effects.prepares.empty()) return;
  Known known;
  known.effects = effects_of_unknown();
  if (effects.prepares_read || effects.prepares_plain_write) {
    known.effects = Effects();
    known.effects.way = effects.prepares_read ? Way::read : Way::write;
    known.effects.kind = effects.prepares_read ? Kind::provably_read : Kind::write;
    known.effects.calls_functions = known.effects.calls_unknown = known.effects.changes_declaration = effects.prepares_calls;
  }
  if (effects.prepares_declares) {
    known.effects = Effects();
    known.effects.way = Way::neutral;
    known.effects.kind = Kind::write;
    known.effects.only_declares = known.effects.changes_declaration = known.effects.calls_functions = true;
    known.effects.exactly_declares = effects.prepares_exactly;
  }
  known.declared = effects.prepares_declared;
  const std::string name(cut(effects.prepares));
  const auto found = statements_.find(name);
  if (found != statements_.end()) {
    found->second = Known();
    found->second.effects = effects_of_unknown();
  } else if (statements_.size() < names_max) {
    statements_.emplace(name, known);
  }
}

void Session::State::note_sent(const Effects& effects) {
  note_prepared(effects);
  if (effects.unsettles) outstanding_.wait_for_all = true;
  if (effects.kind == Kind::unparsable || (effects.unsettles && effects.way == Way::neutral) || effects.kind == Kind::call || effects.kind == Kind::do_block) {
    settings_.standard_conforming_strings = statements::ConformingStrings::unknown;
  }
  // The end of a block takes back what was declared in it, and nothing else.
  const bool ends = effects.kind == Kind::commit || effects.kind == Kind::rollback || effects.kind == Kind::rollback_to || effects.kind == Kind::release;
  // What is declared in it may be so for this transaction alone.
  if (effects.changes_declaration && !ends) tx_.declared_inside = true;
  if (effects.changes_declaration && (!ends || tx_.declared_inside || effects.and_chain)) {
    declared_.certain = false;
    declared_.changing = true;
    ++declared_.changes;
    // What is in force for what comes next is the session's to say.
    if (!ends) tx_.redeclared = true;
  }
  const Does does = unit_of(effects, false, final_rule()).does;
  if (does >= Does::fetch && does != Does::own_call && !(does == Does::declares && effects.exactly_declares)) {
    tx_.acted = true;
    tx_.code_declared |= effects.changes_declaration && does != Does::declares;
  }
  if (effects.opens_calling_cursor) tx_.calling_cursor = true;
  if (effects.kind == Kind::declare_cursor) tx_.cursor = true;
  // The server gives a transaction back the access mode that it had at the savepoint.
  if (effects.kind == Kind::release) tx_.locked = false;
  if (effects.takes_snapshot) outstanding_.functions = true;  // a view may hide them
  if (effects.calls_unknown || effects.kind == Kind::call || effects.kind == Kind::do_block) outstanding_.unknown = true;
  if (effects.kind == Kind::unparsable) {
    // It may have been COMMIT AND CHAIN, or ROLLBACK TO: whatever lock there was may be gone.
    tx_.forget_checks();
    tx_.failed = false;  // nor is a failed block one still, for certain
    outstanding_.unread = true;
  }
  // What is undone may have been our putting it back. A COMMIT undoes a failed block.
  if (!default_.reported && guards() && tx_.suspect && (ends || effects.kind == Kind::prepare_transaction) && effects.kind != Kind::release) default_.broken = true;
  if (!default_.reported && guards() && (effects.calls_functions || effects.way == Way::write || effects.way == Way::alone)) default_.broken = tx_.suspect = true;
  if (effects.forgets_prepared) statements_.clear();
  if (effects.own_check_passes && does == Does::own_call) tx_.other_passed = true;
  const Change change = change_of(effects);
  if (change == Change::on || change == Change::off) default_.believed = change == Change::on;
  if (effects.sets_default_access) {
    // A pooler behind us may have kept our start-up parameter from the server, to which RESET and DISCARD come back.
    if (guards() && (effects.kind == Kind::reset || effects.kind == Kind::reset_all || effects.kind == Kind::discard_all)) default_.broken = true;
  }
  switch (effects.kind) {
    case Kind::begin:
      if (!tx_.in_block) {
        tx_.in_block = true;
        tx_.client_read_only = effects.access == Access::read_only || (effects.access == Access::unspecified && default_.believed);
        default_.before_block = default_.believed;
      }
      break;
    case Kind::commit:
    case Kind::rollback: {
      if (effects.kind == Kind::rollback && tx_.in_block) default_.believed = default_.before_block;
      const bool chained = effects.and_chain && tx_.in_block;
      const Transaction before = tx_;
      tx_ = Transaction();
      if (chained) {
        // A chained transaction keeps its modes, writable among them, and has passed no check.
        tx_.in_block = true;
        tx_.writable = before.writable;
        tx_.locked = before.locked;
        tx_.client_read_only = before.client_read_only;
      }
      break;
    }
    case Kind::prepare_transaction: tx_ = Transaction(); break;
    case Kind::rollback_to:
      // The lock went with what was rolled back.
      if (TERMGATE_PLANTED(proxy_savepoint)) {
        tx_.last = Pair();  // else the news of a raise would end the block all the same
        tx_.passed.clear();
      } else {
        tx_.forget_checks();
      }
      tx_.locked = false;  // SET is undone with the rest
      tx_.failed = false;
      break;
    default:
      if (effects.sets_access && !effects.access_refused && tx_.in_block && !tx_.writable) tx_.client_read_only = effects.access == Access::read_only;
      if ((effects.takes_snapshot || effects.kind == Kind::savepoint) && tx_.in_block && !tx_.writable) tx_.snapshot = true;
      break;
  }
}

void Session::State::note_block_begun() {
  tx_.in_block = true;
  default_.before_block = default_.believed;
}

bool Session::State::guard_block(const Effects& effects, const Claim& claim, bool runs) {
  if (!active() || tx_.failed) return false;
  Unit unit = unit_of(effects, claim.named, final_rule());
  if (unit.does == Does::commit) return runs && add_before_commit();
  if (!runs && unit.does != Does::declares && unit.does != Does::own_call) {
    // A Parse writes nothing, but it fixes the access mode of its transaction as a read does.
    if (unit.does < Does::savepoint || unit.does == Does::commit || unit.does == Does::fetch) return false;
    if (unit.does >= Does::writes && !tx_.writable && !tx_.snapshot && !tx_.client_read_only && standing_of(claim) == Standing::none) {
      // What it will run under may be declared before it runs, and then it is too late to make the transaction writable.
      tx_.acted = true;
      add_opening(claim, false);
      return true;
    }
    unit.does = effects.takes_snapshot ? Does::reads : Does::quiet;
    unit.named = unit.hole = false;
    if (tx_.writable) return false;
  }
  return carry_out(decide(unit, view_of(claim, true), standing_of(claim), policy()), effects, claim);
}

bool Session::State::carry_out(Act act, const Effects& effects, const Claim& claim) {
  const Unit unit = unit_of(effects, claim.named, final_rule());
  switch (act) {
    case Act::pass:
      if (unit.does != Does::own_call) return false;
      [[fallthrough]];
    case Act::open_unchecked:
      if (unit.does == Does::own_call) {
        if (const Refusal refusal = refusal_of_own(effects)) return refuse_from_memory(refusal, claim.pair), false;
      }
      if (act == Act::pass) return false;
      add_opening(claim, false);
      return true;
    case Act::open: add_opening(claim, true); return true;
    case Act::check: add_check(claim, Role::check); return true;
    case Act::recheck: add_recheck(); return true;
    case Act::check_both:
      add_recheck();
      add_check(claim, Role::check);
      return true;
    case Act::lock:
      run_ours(ours_locked, Role::put_back, {});
      tx_.locked = true;
      return true;
    case Act::refuse_claim: refuse_claim(claim); return false;
    case Act::refuse_known: refuse_from_memory(refusal_from_memory(claim), claim.pair); return false;
    case Act::refuse_no_term: {
      const std::string_view message = "TG002 this transaction is READ ONLY, which would not stop this statement: it needs a transaction that may write, a scope and a term";
      report_refusal("TG002", message, {}, 0, true);
      refuse("TG002", message, "");
      return false;
    }
    case Act::frame:
    case Act::hold: break;
  }
  assert(false && "frame and hold are the caller's");
  return false;
}

bool Session::State::add_before_commit() {
  const Claim claim = claim_of(nullptr);
  TransactionView view = view_of(claim, true);
  view.writable |= tx_.writable && tx_.cursor;
  switch (before_commit(view, policy())) {
    case Act::check: add_check(claim, Role::check); return true;
    case Act::recheck: add_recheck(); return true;
    default: return false;
  }
}

}  // namespace termgate::session
