// The two halves of the model, prediction and observation (transaction_model.hpp has the owner and
// the invariants). An uncertain prediction counts as "not checked": a flag that allows something is
// dropped as soon as it may be wrong, and a flag that requires a check is kept.
#include "transaction_model.hpp"

#include <algorithm>
#include <cassert>

#include <termgate/detail/plant.hpp>

#include "names.hpp"

namespace termgate::pg_session {

using pgwire::TransactionStatus;
using statements::Access;
using statements::Kind;
using Way = Effects::Way;

bool TransactionModel::apply(const Effects& effects, Does does, bool guarded, bool named) {
  // A Parse or Bind that ran code is no longer directly followed by its own statement.
  tx.ahead.reset();
  // The end of a block undoes what was declared in it, and nothing else.
  const bool ends = effects.kind == Kind::commit || effects.kind == Kind::rollback ||
                    effects.kind == Kind::rollback_to || effects.kind == Kind::release;
  // The declaration may hold for this transaction alone.
  if (effects.has(Effect::changes_declaration) && !ends) tx.declared_inside = tx.redeclared = true;
  const bool declares = effects.has(Effect::changes_declaration) &&
                        (!ends || tx.declared_inside || effects.has(Effect::and_chain));
  if (effects.has(Effect::own_check_acts) && does == Does::own_call && !tx.failed) ran(true, named);
  if (!tx.failed && does >= Does::fetch && does != Does::own_call &&
      !(does == Does::declares && effects.has(Effect::exactly_declares) &&
        !effects.has(Effect::by_name))) {
    ran(effects.has(Effect::changes_declaration) &&
            (does != Does::declares || effects.has(Effect::by_name)),
        named);
  }
  if (effects.has(Effect::opens_calling_cursor)) tx.calling_cursor = true;
  // At the end of a savepoint the server restores the access mode that the transaction had there.
  if (effects.kind == Kind::release && !tx.lock_stays) tx.locked = false;
  if (effects.kind == Kind::release || effects.kind == Kind::rollback_to) savepoint_over();
  if (effects.kind == Kind::unparsable) {
    // It may have been COMMIT AND CHAIN, or ROLLBACK TO, so no lock can be relied on.
    tx.forget_checks();
    tx.failed = false;  // a failed block may have ended
  }
  if (effects.has(Effect::own_check_passes) && does == Does::own_call) tx.other_passed = true;
  apply_to_access_mode(effects, ends, guarded);
  apply_control(effects);
  assert_consistent();
  return declares;
}

namespace {

// In a transaction with more savepoints than this, their names are not followed.
constexpr std::size_t savepoints_max = 256;

Mode mode_of(Access access) noexcept {
  return access == Access::read_only ? Mode::read_only : Mode::read_write;
}

std::optional<Mode> mode_of(Change change) noexcept {
  switch (change) {
    case Change::on: return Mode::read_only;
    case Change::off: return Mode::read_write;
    case Change::back: return Mode::servers;
    default: return std::nullopt;
  }
}

bool may_declare_ahead(const Effects& effects) {
  return effects.has(Effect::input_runs_code) ||
         (effects.has(Effect::changes_declaration) && !effects.has(Effect::exactly_declares));
}

}  // namespace

// While the transaction is READ ONLY again nothing can write, so nothing needs a check. Only what
// is left for the COMMIT (deferred triggers) has to be remembered.
void TransactionModel::ran(bool declares, bool named) {
  tx.unnamed |= !named;
  // The code may have opened a cursor, and a portal is one too.
  if (declares) tx.calling_cursor = true;
  if (declares) tx.redeclared = tx.declared_inside = true;
  if (tx.locked || locked_for_good) {
    tx.left_over = true;
    return;
  }
  tx.acted = tx.acted_since = true;
  tx.code_declared |= declares;
}

// `alone`: since the last check only this Parse or Bind may have declared anything. If its own Bind
// and Execute follow at once, the three are one unit and need one check.
void TransactionModel::ran_ahead(Step step, std::string_view name, const Effects& effects,
                                 bool named) {
  const bool declares = may_declare_ahead(effects);
  const bool alone = declares && !tx.redeclared && !tx.code_declared;
  tx.ahead.reset();
  if (alone) tx.ahead = Transaction::Ahead{step, std::string(name)};
  ran(declares, named);
}

void TransactionModel::follows(Step step, std::string_view name) {
  if (!tx.ahead || tx.ahead->step != step) return;
  if (tx.ahead->name == name) tx.redeclared = tx.code_declared = false;
  tx.ahead.reset();
}

// Predicts default_transaction_read_only, and whether the server's own value of it may be off
// afterwards.
void TransactionModel::apply_to_access_mode(const Effects& effects, bool ends, bool guarded) {
  if (!by_default.reported && guarded) {
    // The end of a transaction or savepoint may undo our restore of the default.
    if (tx.suspect && (ends || effects.kind == Kind::prepare_transaction) &&
        effects.kind != Kind::release)
      by_default.broken = true;
    if (effects.has(Effect::calls_functions) || effects.way == Way::write ||
        effects.way == Way::alone)
      by_default.broken = tx.suspect = true;
  }
  const Change change = change_of(effects);
  if (const auto mode = mode_of(change)) by_default.believed = *mode;
  // RESET and DISCARD restore the server's own default.
  const bool comes_back = effects.kind == Kind::reset || effects.kind == Kind::reset_all ||
                          effects.kind == Kind::discard_all;
  if (ours_to_keep(effects) && guarded && comes_back) by_default.broken = true;
}

// Remembers the transaction as it was: if an error comes before its end, the server skips the end
// and stays in that transaction (settle).
void TransactionModel::end_sent() {
  ended.push_back(tx);
  locked_for_good = false;
  ++ends_sent;
}

void TransactionModel::follow_savepoints(const Effects& effects) {
  if (!tx.savepoints || tx.failed) return tx.savepoints.reset();
  // Without a list it is not known which savepoints are open, so nothing may be concluded from
  // their names.
  if (tx.savepoints->size() >= savepoints_max) return tx.savepoints.reset();
  if (effects.kind == Kind::unparsable || may_be_another(effects.savepoint))
    return tx.savepoints.reset();
  if (effects.kind == Kind::savepoint) return tx.savepoints->push_back(effects.savepoint);
  if (effects.kind != Kind::release && effects.kind != Kind::rollback_to) return;
  const auto last = std::find(tx.savepoints->rbegin(), tx.savepoints->rend(), effects.savepoint);
  if (last == tx.savepoints->rend()) return tx.savepoints.reset();
  tx.savepoints->erase(last.base() - (effects.kind == Kind::release ? 1 : 0), tx.savepoints->end());
}

void TransactionModel::apply_control(const Effects& effects) {
  follow_savepoints(effects);
  // The client sets the mode itself, so the server's own default need not be applied any more.
  if (effects.has(Effect::sets_access) && tx.in_block && tx.writable && tx.mode == Mode::servers)
    tx.mode = Mode::asked;
  switch (effects.kind) {
    case Kind::begin:
      if (!tx.in_block) {
        tx.mode =
            effects.access == Access::unspecified ? by_default.believed : mode_of(effects.access);
        begin_block();
      } else if (effects.has(Effect::sets_access) && !effects.has(Effect::access_refused) &&
                 !tx.writable) {
        tx.mode =
            mode_of(effects.access);  // the server warns, and sets the modes of the open block
      }
      break;
    case Kind::commit:
    case Kind::rollback: {
      // A COMMIT rolls a failed block back.
      if ((effects.kind == Kind::rollback || tx.failed) && tx.in_block)
        by_default.believed = by_default.before_block;
      const bool chained = effects.has(Effect::and_chain) && tx.in_block,
                 locked = tx.locked || locked_for_good;
      end_sent();
      const Transaction& before = ended.back();
      tx = Transaction();
      if (chained) {
        // A chained transaction keeps its modes, writable among them, and has passed no check.
        tx.in_block = true;
        tx.writable = before.writable;
        // An error may have undone what made it writable, and the end of a savepoint what locked it
        // there.
        tx.mode_unsure = before.writable && (locked || before.failed || before.mode_unsure);
        tx.mode = before.mode;
      }
      break;
    }
    case Kind::prepare_transaction:
      end_sent();
      tx = Transaction();
      break;
    case Kind::rollback_to:
      // The lock was rolled back too.
      if (TERMGATE_PLANTED(proxy_savepoint)) {
        tx.last = ScopedTerm();  // otherwise the news of a raise would still end the block
        tx.passed.clear();
      } else {
        tx.forget_checks();
      }
      tx.locked = tx.lock_stays =
          false;  // SET is rolled back too; after an error the server has not run it
      tx.failed = false;
      break;
    default:
      if (effects.has(Effect::sets_access) && !effects.has(Effect::access_refused) && tx.in_block &&
          !tx.writable)
        tx.mode = mode_of(effects.access);
      if ((effects.has(Effect::takes_snapshot) || effects.kind == Kind::savepoint) && tx.in_block &&
          !tx.writable)
        tx.snapshot = true;
      if (effects.kind == Kind::savepoint && !tx.failed) tx.savepoint = true;
      break;
  }
}

void TransactionModel::begin_block() {
  tx.in_block = true;
  by_default.before_block = by_default.believed;
}

// Ends of transactions are answered in the order in which they were sent, so the first of `ended`
// is the one that is over.
void TransactionModel::on_command_complete(Change change, std::string_view tag) {
  if (change == Change::commit || change == Change::rollback || change == Change::prepared) {
    if (!ended.empty()) ended.pop_front();
    mark_there = false;
  }
  switch (change) {
    case Change::none:
    case Change::prepared: break;
    case Change::on:
    case Change::off:
    case Change::back: by_default.answered = *mode_of(change); break;
    case Change::commit:
    case Change::rollback:
      // A COMMIT of a failed block returns the tag ROLLBACK.
      if (tag.starts_with("COMMIT")) by_default.committed = by_default.answered;
      else by_default.answered = by_default.committed;
      break;
  }
}

void TransactionModel::on_ready(TransactionStatus now, bool in_text, bool text_failed) {
  status = now;
  if (status == TransactionStatus::idle) {
    if (in_text ? text_failed : by_default.unit_failed) by_default.answered = by_default.committed;
    if (!in_text) by_default.committed = by_default.answered;
  }
  by_default.unit_failed = false;
}

void TransactionModel::on_text_done(bool failed) {
  if (!failed && status == TransactionStatus::idle) by_default.committed = by_default.answered;
}

void TransactionModel::on_mode_done(std::string_view tag, std::optional<std::size_t> locks) {
  if (tag.starts_with("SAVEPOINT")) mark_there = true;
  else if (tag.starts_with("RELEASE")) mark_there = false;
  else if (locks == ends_sent) locked_for_good = true;
}

// Drops predictions that were not confirmed: from here on the server's report counts.
void TransactionModel::settle() {
  if (status == TransactionStatus::idle) {
    tx = Transaction();
    mark_there = locked_for_good = false;
  } else {
    const bool skipped = !ended.empty();
    if (skipped) {
      // An error came before that end, so the server has skipped it.
      tx = ended.front();
      tx.forget_checks();
    }
    if (skipped || status == TransactionStatus::failed) {
      tx.savepoints.reset();
      tx.marked = mark_there;
      tx.savepoint |= mark_there;
      tx.locked = tx.lock_stays = false;
    }
    tx.in_block = true;
    tx.failed = status == TransactionStatus::failed;
  }
  ended.clear();
  by_default.believed = by_default.answered;
  assert_consistent();
}

void TransactionModel::assert_consistent() const noexcept {
  assert((!tx.code_declared || tx.acted) && "what declares by code has acted");
  assert((!tx.acted_since || tx.acted) && "what has acted since the check has acted");
  assert((tx.passed.empty() || tx.other_passed) && "the claim of a comment was passed");
}

// The mode of the open transaction, or of the next one.
Mode TransactionModel::mode_now() const noexcept {
  return tx.in_block || tx.writable ? tx.mode : by_default.believed;
}

void TransactionModel::default_is(bool on, bool lent) {
  const bool before = lent ? by_default.read_only(by_default.answered) : true;
  // It was a RESET, which restores the server's own default.
  if (on == before || (!lent && on == by_default.own)) return;
  by_default.answered = by_default.believed = on ? Mode::read_only : Mode::read_write;
}

}  // namespace termgate::pg_session
