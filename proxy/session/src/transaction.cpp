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
  Known known{effects_of_unknown(), nullptr, 0};
  if (effects.prepares_read || effects.prepares_plain_write) {
    known.effects = Effects();
    known.effects.way = effects.prepares_read ? Way::read : Way::write;
    known.effects.kind = effects.prepares_read ? Kind::provably_read : Kind::write;
    known.effects.calls_functions = known.effects.changes_declaration = effects.prepares_calls;
  }
  const std::string name(cut(effects.prepares));
  const auto found = statements_.find(name);
  if (found != statements_.end()) {
    found->second = Known{effects_of_unknown(), nullptr, 0};
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
  if (effects.changes_declaration && !ends && tx_.in_block) tx_.declared_inside = true;
  if (effects.changes_declaration && (!ends || tx_.declared_inside || effects.and_chain)) {
    declared_.certain = false;
    declared_.changing = true;
    // What is in force for the next write is the session's to say.
    if (tx_.in_block && effects.way == Way::neutral) tx_.fenced = false;
  }
  if (effects.takes_snapshot) outstanding_.functions = true;  // a view may hide them
  if (effects.calls_unknown || effects.kind == Kind::call || effects.kind == Kind::do_block) outstanding_.unknown = true;
  if (effects.kind == Kind::unparsable) {
    // It may have been COMMIT AND CHAIN, or ROLLBACK TO: whatever lock there was may be gone.
    tx_.fenced = false;
    tx_.passed.clear();
    tx_.failed = false;  // nor is a failed block one still, for certain
    outstanding_.unread = true;
  }
  // Code that we cannot see may have put something else in the place of ours.
  if (effects.calls_unknown || effects.kind == Kind::call || effects.kind == Kind::do_block || effects.kind == Kind::unparsable) prepared_.fill(false);
  // What is undone may have been our putting it back. A COMMIT undoes a failed block.
  if (!default_.reported && guards() && tx_.suspect && (ends || effects.kind == Kind::prepare_transaction) && effects.kind != Kind::release) default_.broken = true;
  if (!default_.reported && guards() && (effects.calls_functions || effects.way == Way::write || effects.way == Way::alone)) default_.broken = tx_.suspect = true;
  if (effects.forgets_prepared) {
    statements_.clear();
    prepared_.fill(false);
  }
  if (effects.own_check_passes) tx_.fenced = true;
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
        tx_.client_read_only = before.client_read_only;
      }
      break;
    }
    case Kind::prepare_transaction: tx_ = Transaction(); break;
    case Kind::rollback_to:
      // The lock went with what was rolled back.
      tx_.fenced = TERMGATE_PLANTED(proxy_savepoint) && tx_.fenced;
      if (TERMGATE_PLANTED(proxy_savepoint)) tx_.last = Pair();  // else the news of a raise would end the block all the same
      tx_.failed = false;
      tx_.passed.clear();
      break;
    default:
      if (effects.sets_access && !effects.access_refused && tx_.in_block && !tx_.writable) tx_.client_read_only = effects.access == Access::read_only;
      if (effects.takes_snapshot && tx_.in_block && !tx_.writable) tx_.snapshot = true;
      break;
  }
}

void Session::State::note_block_begun() {
  tx_.in_block = true;
  default_.before_block = default_.believed;
}

bool Session::State::guard_block(const Effects& effects, const Claim& claim, bool runs) {
  if (effects.way == Way::control && effects.kind != Kind::savepoint) return false;
  if (!active() || tx_.failed) return false;
  const bool writes = (effects.way == Way::write || effects.way == Way::alone) && runs;
  if (tx_.client_read_only && !tx_.writable) {
    if (writes) left_to_read_only(effects);
    return false;
  }
  if (!writes && !effects.takes_snapshot && effects.kind != Kind::savepoint) return false;
  const bool own_check = effects.own_check && !final_rule();

  if (tx_.writable) {
    // Writable and without a check, after a ROLLBACK TO or a chain: not even a read is left to itself, for READ ONLY does not stop it.
    const bool named_elsewhere = writes && claim.certain && tx_.fenced && !tx_.passed.empty() && std::find(tx_.passed.begin(), tx_.passed.end(), claim.pair) == tx_.passed.end();
    if (tx_.fenced && !named_elsewhere) return false;
    if (const Refusal refusal = writes && own_check ? refusal_of_own(effects) : Refusal()) return refuse_from_memory(refusal, claim.pair), false;
    if (own_check) return false;
    if (!claim.problem.empty()) return refuse_claim(claim), false;
    if (const Refusal refusal = doubt_of(claim)) return refuse_from_memory(refusal, claim.pair), false;
    add_opening(claim.pair, true);
    return true;
  }
  if (writes) {
    if (!claim.problem.empty()) return refuse_claim(claim), false;
    if (const Refusal refusal = own_check ? refusal_of_own(effects) : refusal_from_memory(claim)) return refuse_from_memory(refusal, claim.pair), false;
    add_opening(claim.pair, !own_check);
    return true;
  }
  // A transaction's access mode is fixed by its first snapshot and by its first savepoint, so one that may write later is opened before.
  if (may_speak() && !tx_.snapshot && claim.problem.empty() && !refused_from_memory(claim)) {
    add_opening(claim.pair, true);
    return true;
  }
  return false;
}

bool Session::State::left_to_read_only(const Effects& effects) {
  const bool code_of_the_clients = effects.kind == Kind::call || effects.kind == Kind::do_block;
  if (code_of_the_clients && tx_.in_block) return true;
  if (effects.way == Way::write && !effects.read_only_hole) return true;
  const std::string_view message = "TG002 this transaction is READ ONLY, which would not stop this statement: it needs a transaction that may write, a scope and a term";
  report_refusal("TG002", message, {}, 0, true);
  refuse("TG002", message, "");
  return false;
}

}  // namespace termgate::session
