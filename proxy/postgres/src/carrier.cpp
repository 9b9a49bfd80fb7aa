#include "carrier.hpp"

#include <cassert>
#include <string>
#include <utility>

#include <termgate/pgwire/encode.hpp>

#include "names.hpp"

namespace termgate::pg_session {

using statements::Kind;
using Way = Effects::Way;

// If the PREPARE fails, a name in use keeps its old statement, so after that nothing is known of
// it.
void Carrier::note_prepared(const Effects& effects) {
  if (effects.prepares.name.empty()) return;
  Known known;
  known.effects = effects_of_unknown();
  using As = Effects::Prepares::As;
  const As as = effects.prepares.as;
  if (as == As::read || as == As::plain_write) {
    known.effects = Effects();
    known.effects.way = as == As::read ? Way::read : Way::write;
    known.effects.kind = as == As::read ? Kind::provably_read : Kind::write;
    known.effects.put(Effect::calls_functions | Effect::calls_unknown | Effect::changes_declaration,
                      effects.prepares.calls_functions);
  }
  if (effects.prepares.declaration()) {
    known.effects = Effects();
    known.effects.way = Way::neutral;
    known.effects.kind = Kind::write;
    known.effects.set(Effect::only_declares | Effect::changes_declaration |
                      Effect::calls_functions | Effect::by_name);
    known.effects.put(Effect::exactly_declares, as == As::exactly_declares);
  }
  if (effects.has(Effect::prepares_input)) {
    known.effects.set(Effect::input_runs_code | Effect::calls_functions | Effect::calls_unknown |
                      Effect::changes_declaration);
    known.effects.clear(Effect::exactly_declares);
  }
  known.declared = effects.prepares.declared;
  const std::string name(cut(effects.prepares.name));
  if (may_be_another(effects.prepares.name)) {
    names_.statements.clear();
    return;
  }
  const auto found = names_.statements.find(name);
  if (found != names_.statements.end()) {
    found->second = Known();
    found->second.effects = effects_of_unknown();
  } else if (names_.statements.size() < names_max) {
    names_.statements.emplace(name, known);
  }
}

void Carrier::note_sent(const Effects& effects, bool named) {
  note_prepared(effects);
  const bool may_declare =
      model_.apply(effects, does_of(effects, claims_.final_rule()), claims_.guards(), named);
  if (may_declare && !seating_.passes_under_seat())
    claims_.may_declare(effects.way == Way::neutral);
  const bool code = effects.kind == Kind::call || effects.kind == Kind::do_block;
  if (effects.has(Effect::unsettles)) texts_.outstanding.wait_for_all = true;
  if (effects.has(Effect::takes_snapshot))
    texts_.outstanding.functions = true;  // a view may call functions unseen
  if (effects.has(Effect::calls_unknown) || code) texts_.outstanding.unknown = true;
  if (effects.kind == Kind::unparsable) texts_.outstanding.unread = true;
  // The end of a transaction or of a savepoint undoes the SETs in it.
  const bool takes_back = effects.kind == Kind::commit || effects.kind == Kind::rollback ||
                          effects.kind == Kind::rollback_to ||
                          effects.kind == Kind::prepare_transaction;
  if (effects.kind == Kind::unparsable || code || takes_back ||
      (effects.has(Effect::unsettles) && effects.way == Way::neutral)) {
    texts_.settings.standard_conforming_strings = statements::ConformingStrings::unknown;
    texts_.settings.ascii_safe_encoding = false;
  }
  if (effects.has(Effect::forgets_prepared)) names_.statements.clear();
  // Code, or the client's own statement, may have replaced a portal by another cursor.
  const bool ends = effects.kind == Kind::commit || effects.kind == Kind::rollback ||
                    effects.kind == Kind::rollback_to;
  if (ends || code || effects.has(Effect::calls_unknown) || effects.kind == Kind::close ||
      effects.kind == Kind::declare_cursor || effects.kind == Kind::unparsable ||
      effects.kind == Kind::discard_all)
    ++names_.portals_made;
}

// Makes the transaction as writable as the model says, whatever mode the chained one before it has
// left.
bool Carrier::settle_mode() {
  if (!std::exchange(model_.tx.mode_unsure, false)) return false;
  model_.savepoint_over();
  own_.run(line_.server, ProxyStatement::writable, Purpose::writable);
  return true;
}

bool Carrier::guard_block(const Effects& effects, const Claim& claim, Step step) {
  if (!claims_.active() || model_.tx.failed) return false;
  const Unit unit = judgement_.unit_of(effects, claim, step);
  const Standing standing = judgement_.standing_of(claim);
  const bool runs = runs_now(unit, model_.tx.writable, standing);
  const bool ahead = !runs && unit.ahead != Does::quiet;
  if (unit.does == Does::commit && !ahead) return runs && add_before_commit();
  bool added =
      runs && unit.does != Does::savepoint && unit.does != Does::rollback && release_mark();
  added |= (runs || ahead) && unit.does >= Does::savepoint && settle_mode();
  added |= carry_out(
      decide(unit, judgement_.view_of(claim, Place::block), standing, judgement_.policy()), effects,
      claim);
  if (!runs) return added;
  if (unit.does == Does::own_call) own_.stand_before_raise(line_.server);
  if ((unit.does == Does::prepares || unit.unread) && !model_.tx.failed)
    added |= seating_.lock_what_was_seated();
  return (unit.does == Does::savepoint && mark()) || added;
}

// The server's guard or the seat covers a block that was handed over, so no check of ours passes in
// it. Its claim is recorded as passed all the same, so that a higher term ends the block.
void Carrier::note_handed_over(const Effects& effects) {
  if (!claims_.handed_over() || !model_.tx.in_block || model_.tx.failed ||
      does_of(effects) < Does::reads)
    return;
  const Claim claim = judgement_.claim_of(nullptr);
  if (!claim.certain) return;
  model_.tx.last = claim.pair;
  model_.tx.session_passed = true;
}

// What is READ ONLY only inside a savepoint of the client's is no longer so at the COMMIT, where
// the work deferred to it would write. A savepoint of ours ahead of the client's lets the proxy
// make the whole transaction READ ONLY later.
bool Carrier::mark() {
  const bool outside = model_.tx.was_unmarked && model_.tx.savepoints &&
                       model_.tx.savepoints->empty() && line_.server.replies.empty() &&
                       !model_.mark_there;
  if (!judgement_.may_write() || model_.tx.acted || model_.tx.failed || model_.tx.marked ||
      (model_.tx.savepoint && !outside))
    return false;
  model_.tx.marked = true;
  own_.run(line_.server, ProxyStatement::mark, Purpose::mode);
  return true;
}

// After the client's last savepoint is released, ours must go too: with it, SET TRANSACTION
// ISOLATION LEVEL would be refused and rows would get its transaction id.
bool Carrier::release_mark() {
  if (!model_.tx.marked || !model_.tx.savepoints || !model_.tx.savepoints->empty()) return false;
  own_.run(line_.server, ProxyStatement::unmark, Purpose::mode);
  model_.tx.marked = false;
  model_.savepoint_over();
  model_.tx.was_unmarked = true;
  // If a Parse or a Bind has locked the transaction inside our savepoint, the release restores the
  // mode from before it.
  model_.tx.locked = model_.tx.lock_stays = false;
  return true;
}

bool Carrier::lock_for_commit() {
  if (model_.locked_for_good || (model_.tx.locked && model_.tx.lock_stays)) return false;
  // After an error the savepoints are not known, so the end of the transaction is checked.
  if (!model_.tx.marked && !model_.tx.outside_savepoints())
    return own_.add_check(line_.server, judgement_.claim_of(nullptr), Purpose::check), true;
  if (std::exchange(model_.tx.marked, false))
    own_.run(line_.server, ProxyStatement::unmark, Purpose::mode);
  own_.run(line_.server, ProxyStatement::locked, Purpose::mode);
  model_.tx.locked = true;
  return true;
}

bool Carrier::carry_out(Act act, const Effects& effects, const Claim& claim) {
  if (is_refusal(act)) return refusals_.refuse(act, effects, claim), false;
  switch (act) {
    case Act::open_unchecked:
      // Ahead of a savepoint the opening leaves the mode unsettled: the client's SET TRANSACTION
      // may follow the savepoint.
      own_.add_opening(line_.server, claim, false, effects.kind != Kind::savepoint);
      return true;
    case Act::open: own_.add_opening(line_.server, claim, true); return true;
    case Act::check: own_.add_check(line_.server, claim, Purpose::check); return true;
    case Act::recheck: own_.add_recheck(line_.server); return true;
    case Act::check_both:
      own_.add_recheck(line_.server);
      own_.add_check(line_.server, claim, Purpose::check);
      return true;
    case Act::lock:
      model_.tx.locked = true;
      model_.tx.lock_stays = model_.tx.outside_savepoints();
      own_.run(line_.server, ProxyStatement::locked,
               model_.tx.lock_stays && model_.tx.in_block ? Purpose::lock : Purpose::mode);
      return true;
    default:
      assert((act == Act::pass || act == Act::wait) && "only the caller can do this");
      return false;
  }
}

bool Carrier::add_before_commit() {
  const Claim claim = judgement_.claim_of(nullptr);
  switch (before_commit(judgement_.view_of(claim, Place::block), judgement_.policy())) {
    case Act::check: own_.add_check(line_.server, claim, Purpose::check); return true;
    case Act::recheck: own_.add_recheck(line_.server); return true;
    case Act::lock: return lock_for_commit();
    default: return false;
  }
}

void Carrier::run_plain_query(std::string_view sql, Purpose role, Change change,
                              std::size_t read_hash) {
  pgwire::append_query(line_.server.bytes.back(), sql);
  line_.server.replies.push(
      {.request = Request::query, .role = role, .change = change, .read_hash = read_hash});
}

// Sends one statement of a simple query as Parse, Bind, Execute, in one transaction with the
// opening ahead of it, which the Sync commits. A simple query drops the unnamed statement and
// portal anyway, so these may be used. A Parse takes exactly one statement.
void Carrier::run_converted(std::string_view sql, const Effects& effects, std::size_t read_hash) {
  // The opening ahead of it belongs to this transaction; what the client pipelines next begins
  // another one.
  texts_.outstanding.wait_for_all = true;
  std::string& bytes = line_.server.bytes.back();
  PendingReplies& replies = line_.server.replies;
  pgwire::append_parse(bytes, "", sql);
  replies.push({.request = Request::parse, .hidden = true});
  pgwire::append_bind(bytes, "", "", {});
  replies.push({.request = Request::bind, .hidden = true});
  pgwire::append_describe_portal(bytes, "");
  replies.push({.request = Request::describe_portal,
                .hide_no_data = true,
                .late_description = !effects.has(Effect::describes_first)});
  pgwire::append_execute(bytes, "");
  replies.push({.request = Request::execute,
                .change = change_of(effects),
                .read_hash = read_hash,
                .late_complete = true});
  pgwire::append_close_statement(bytes, "");
  replies.push({.request = Request::close, .hidden = true});
  if (!model_.tx.in_block) add_before_commit();
  own_.add_client_sync();
  model_.end_implicit();
}

}  // namespace termgate::pg_session
