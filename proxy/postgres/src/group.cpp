// Groups: the extended messages up to a Sync, which outside of a block are one implicit
// transaction. They are held until it is known whether they write. Then the opening (guard.hpp) is
// inserted where that transaction begins, and the rest goes straight through.
#include <algorithm>

#include <termgate/pgwire/encode.hpp>

#include "names.hpp"
#include "pipeline_runner.hpp"

namespace termgate::pg_session {

using Way = Effects::Way;

namespace {

// The most claims that the comments of one pipeline may name: each statement looks up all of them.
constexpr std::size_t claims_max = 256;

}  // namespace

void PipelineRunner::group_begins(bool declares) {
  if (!pipeline_.begun()) seating_.unit_begins();
  if (declares && seat_.held()) seating_.leave_seat();
  if (declares) claims_.hand_over(false);
  const bool through = model_.tx.failed || model_.tx.in_block;
  // From here on the messages are judged before they are sent. What was sent needs no opening: the
  // server's guard or the seat covers it.
  if (pipeline_.goes == Goes::handed_over && !claims_.handed_over())
    pipeline_.goes = through ? Goes::direct : Goes::held;
  if (pipeline_.begun()) return;
  model_.opening_refused = false;
  pipeline_.goes = claims_.handed_over()          ? Goes::handed_over
                   : through || !claims_.active() ? Goes::direct
                                                  : Goes::held;
}

// What the decision has to know. `whole`: the message has arrived completely, so it can be held.
TransactionView PipelineRunner::view_of(const Claim& claim, bool whole) const {
  TransactionView view = judgement_.view_of(claim, Place::group);
  view.pipeline = pipeline_;
  view.can_wait = whole && !pipeline_.held.empty();
  for (const Claim& named : pipeline_.named)
    view.members = std::max(view.members, judgement_.standing_of(named));
  return view;
}

// Decides what the next statement means for the group, and inserts what it needs.
void PipelineRunner::guard_group(const Effects& effects, const Known& known, Step step,
                                 bool whole) {
  const bool runs = step == Step::runs;
  const Claim claim = judgement_.claim_for(known);
  if (const Refusal refusal = judgement_.refusal_of_prepared(effects);
      refusal && runs && !model_.tx.failed)
    return refusals_.refuse_from_memory(refusal, claim.pair);
  if (!claims_.active()) {
    if (runs) judgement_.observe(effects, claim), carrier_.note_handed_over(effects);
    return;
  }
  if (model_.tx.failed) return;
  const Unit unit = judgement_.unit_of(effects, claim, step);
  const Standing standing = judgement_.standing_of(claim);
  const TransactionView view = view_of(claim, whole);
  const Act first = at_sight(unit, view, standing, judgement_.policy());
  if (is_refusal(first)) return refusals_.refuse(first, effects, claim);
  pipeline_.discarded = unit.discards && runs && !model_.tx.in_block;
  if (first == Act::wait) return;
  if (model_.tx.in_block) return void(carrier_.guard_block(effects, claim, step));
  const Act act = decide(unit, view, standing, judgement_.policy());
  switch (act) {
    case Act::wait: return;
    case Act::open_later:
      if (claim.named) note_named(claim);
      return;
    case Act::stay_read_only: pipeline_.opening_possible = false; [[fallthrough]];
    case Act::pass: return pass_in_group(unit, claim);
    case Act::hold:
    case Act::refuse_unlocks:
      // It runs alone under the check's lock, once the Sync shows that nothing else comes with it.
      pipeline_.needs_hold = true;
      pipeline_.effects = effects;
      pipeline_.claim = claim;
      break;
    case Act::refuse_claim:
    case Act::refuse_known:
    case Act::refuse_no_term:
      // First the server reports a statement or portal that it does not know.
      if (unit.unread && !judgement_.may_write() &&
          (!claims_.may_write() || standing > Standing::current))
        held_.send_first();
      break;
    default: break;
  }
  if (act != Act::hold) carry_out_in_group(act, effects, claim);
}

void PipelineRunner::note_named(const Claim& claim) {
  const auto same = [&](const Claim& one) {
    return one.given == claim.given && one.pair == claim.pair;
  };
  if (std::any_of(pipeline_.named.begin(), pipeline_.named.end(), same)) return;
  if (pipeline_.named.size() >= claims_max)
    return refusals_.refuse(
        "54000",
        "Termgate takes no more than 256 different scopes and terms in comments of one pipeline",
        "");
  pipeline_.named.push_back(claim);
}

void PipelineRunner::pass_in_group(const Unit& unit, const Claim& claim) {
  if (unit.now() == Does::own_call) return;
  if (unit.now() == Does::calls) pipeline_.called = true;
  if (claim.named && unit.now() >= Does::reads) note_named(claim);
  if (unit.now() == Does::begin && !facts_.standby() &&
      judgement_.standing_of(claim) == Standing::current && pipeline_.opening_possible &&
      !pipeline_.direct()) {
    if (!pipeline_.touched_server && pipeline_.beginning.bytes == 0) own_.raise_in_advance(claim);
    // Earlier reads belong to the block's transaction and have fixed its mode, unless it is opened
    // ahead of them.
    if (pipeline_.executed_here || pipeline_.snapshot_here) held_.open_group(claim, true);
  }
}

// Does what the decision says: in the open transaction, or by opening it where it begins.
void PipelineRunner::carry_out_in_group(Act act, const Effects& effects, const Claim& claim) {
  const Standing standing = judgement_.standing_of(claim);
  const bool opens = act == Act::open || act == Act::open_unchecked || act == Act::open_then_check;
  if (act == Act::open_then_recheck) {
    if (standing != Standing::none && !pipeline_.touched_server) own_.raise_in_advance(claim);
    held_.open_group(claim, standing != Standing::none);
    return own_.add_recheck(line_.server);
  }
  if (opens && !model_.tx.writable) {
    if (act == Act::open && !pipeline_.touched_server && !model_.tx.redeclared)
      own_.raise_in_advance(claim);
    held_.open_group(claim, act == Act::open);
    if (act == Act::open_then_check) own_.add_check(line_.server, claim, Purpose::check);
    return;
  }
  if (!is_refusal(act) && !pipeline_.direct()) {
    // The transaction stays READ ONLY because the client wants that: the check comes here, and
    // earlier reads need none.
    held_.lock_reads();
    held_.flush_group();
    pipeline_.go_direct();
  }
  carrier_.carry_out(act, effects, claim);
}

// Ends the holding: what may still be a write is opened, what has only read so far continues as a
// read.
void PipelineRunner::commit_to_group(bool flushed) {
  if (pipeline_.direct()) return;
  const Claim claim = judgement_.claim_of(nullptr);
  const bool writes =
      std::any_of(pipeline_.parsed.begin(), pipeline_.parsed.end(), [&](const std::string& name) {
        const Known* known = names_.known(name);
        if (known == nullptr) return false;
        const Effects effects = judgement_.resolved(known->effects, known->executes);
        return effects.way == Way::write || effects.has(Effect::calls_unknown);
      });
  const Act act = before_flush(view_of(claim), judgement_.standing_of(claim), writes, flushed);
  if (is_refusal(act)) return refusals_.refuse(act, {}, claim);
  if (act == Act::open || act == Act::open_unchecked) {
    if (!pipeline_.touched_server) own_.raise_in_advance(claim);
    return held_.open_group(claim, act == Act::open);
  }
  if (act == Act::stay_read_only) {
    pipeline_.opening_possible = false;
    held_.lock_group();
  }
  held_.flush_group();
}

}  // namespace termgate::pg_session
