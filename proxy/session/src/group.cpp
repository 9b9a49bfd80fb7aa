// Groups: the extended messages up to a Sync, which are one implicit transaction. They are held
// until it is known whether they write. Then the opening is inserted where that transaction begins,
// and the rest goes straight through.
#include <algorithm>

#include <termgate/pgwire/encode.hpp>

#include "names.hpp"
#include "pipeline_runner.hpp"

namespace termgate::session {

using statements::Kind;
using Way = Effects::Way;

namespace {

// The most claims that the comments of one pipeline may name: each statement looks up all of them.
constexpr std::size_t claims_max = 256;

}  // namespace

void PipelineRunner::group_begins(bool declares) {
  if (!pipeline_.begun) seating_.unit_begins();
  if (declares && seat_.held()) seating_.leave_seat();
  if (declares) claims_.hand_over(false);
  if (pipeline_.handed_over && !claims_.handed_over()) {
    // From here on the messages are parsed before they are sent. What was sent needs no opening:
    // the server guards it.
    pipeline_.handed_over = false;
    pipeline_.direct = model_.tx.failed || model_.tx.in_block;
  }
  if (pipeline_.begun) return;
  pipeline_.handed_over = claims_.handed_over();
  pipeline_.begun = true;
  model_.opening_refused = false;
  pipeline_.direct = !claims_.active() || model_.tx.failed || model_.tx.in_block;
}

// Decides what the next statement means for the group, and inserts what it needs.
// Long: one case for each decision.
void PipelineRunner::guard_group(const Effects& effects, const Known& known, Step step, bool whole) {
  const bool runs = step == Step::runs;
  const Claim claim = judgement_.claim_for(known);
  if (const Refusal refusal = judgement_.refusal_of_prepared(effects); refusal && runs && !model_.tx.failed)
    return refusals_.refuse_from_memory(refusal, claim.pair);
  if (!claims_.active()) {
    if (runs) judgement_.observe(effects, claim), carrier_.note_handed_over(effects);
    return;
  }
  if (model_.tx.failed) return;
  if (pipeline_.needs_hold)
    return refusals_.refuse("0A000", "Termgate runs CALL, DO and what must run alone only as the one statement before a Sync", "");
  // DISCARD ALL commits what came before it, releases our check's lock, and resets READ ONLY, which
  // is restored only after the Sync.
  const bool discards = effects.kind == Kind::discard_all && runs && !model_.tx.in_block;
  if (pipeline_.discarded || (discards && (model_.tx.writable || pipeline_.touched_server || pipeline_.executed_here))) {
    return refusals_.refuse("0A000", discard_alone, "");
  }
  pipeline_.discarded = discards;
  // The server may not know a statement or portal that the proxy does not know. Its error (26000,
  // 34000) comes before a refusal.
  const bool unknown = effects.kind == Kind::unparsable && !judgement_.may_write() &&
                       (!claims_.may_write() || judgement_.standing_of(claim) > Standing::current);
  if (unknown && !runs) return;
  if (model_.tx.in_block) {
    const bool opens = effects.way == Way::write && !model_.tx.writable && judgement_.standing_of(claim) != Standing::none;
    carrier_.guard_block(effects, claim, opens ? Step::runs : step);
    return;
  }
  const bool code = effects.kind == Kind::call || effects.kind == Kind::do_block;
  // The lock is taken ahead of everything held, and READ ONLY is lifted with it, even for what an
  // already ended transaction has read.
  const bool follows = model_.tx.writable || pipeline_.touched_server || pipeline_.executed || pipeline_.planned;
  if (effects.way == Way::alone && runs && follows && !judgement_.reads_only()) {
    // Up to version 17 CALL and DO could commit our check's lock away in the middle of a pipeline,
    // and READ ONLY does not stop VACUUM.
    return refusals_.refuse("0A000",
                            code ? "Termgate runs CALL and DO only as the one statement before a Sync, or in a transaction block"
                                 : "Termgate runs what must run alone only as the one statement before a Sync, with no Flush before it",
                            "");
  }
  Unit unit = unit_of(effects, claim.named, claims_.final_rule());
  // A Bind runs the code of what does not look like a write; a write is decided completely at its
  // Bind.
  const bool plans = step == Step::plans && (effects.input_runs_code || unit.does == Does::reads || unit.does == Does::calls);
  if (plans && effects.input_runs_code) unit.does = Does::calls;
  if (plans) unit.hole = false;
  TransactionView view = judgement_.view_of(claim, true);
  view.open = unit.does != Does::reads && unit.does != Does::savepoint && unit.does != Does::code && unit.does != Does::alone;
  view.fixed = pipeline_.called || (!model_.tx.writable && !pipeline_.opening_possible);
  if (!view.open) view.writable &= claims_.guards() || (unit.does != Does::alone && unit.does != Does::code);
  const Act act = decide(unit, view, judgement_.standing_of(claim), judgement_.policy(unit));
  if (runs && unit.redeclares && !pipeline_.direct && pipeline_.acted_here && !model_.tx.writable && !judgement_.reads_only())
    return redeclares_after_reads(unit, claim);
  switch (act) {
    case Act::pass:
      if (unit.does == Does::own_call) break;
      if (runs || plans) pass_in_group(unit, claim);
      return;
    case Act::frame:
      // The client wants READ ONLY, and a pipeline cannot be put in a frame.
      return refusals_.refuse(
          "TG002",
          "TG002 this session is READ ONLY by its own word, which would not stop this statement: send it in a transaction block, "
          "with a scope and a term",
          "");
    case Act::hold:
      if (runs) hold_at_sync(effects, claim);
      return;
    case Act::refuse_claim:
    case Act::refuse_known:
    case Act::refuse_no_term:
      if (!runs && (unit.does == Does::alone || unit.does == Does::code)) return;
      if (unknown) held_.send_first();
      carrier_.carry_out(act, effects, claim);
      return;
    default: break;
  }
  if (plans && !view.writable) {
    // The transaction is opened when this statement runs, or with a later one.
    if (claim.named) note_named(claim);
    return;
  }
  if (!runs && !plans && unit.does != Does::writes && unit.does != Does::prepares) return;
  // An earlier member of the group may declare the claim that this one needs, so it is judged when
  // it runs.
  if (!runs && whole && !pipeline_.held.empty() && judgement_.standing_of(claim) != Standing::current) return;
  if (unit.does == Does::own_call) {
    if (const Refusal refusal = judgement_.refusal_of_own(effects)) return refusals_.refuse_from_memory(refusal, claim.pair);
    if (act == Act::pass) return;
    // Earlier reads would run writable and without a check.
    if (pipeline_.called)
      return refusals_.refuse("TG002",
                              "TG002 a call of Termgate's own functions after other calls in one pipeline: send a Sync between them", "");
  }
  if (model_.tx.writable || act == Act::check || act == Act::check_both || act == Act::recheck) {
    if (!pipeline_.direct) {
      // The transaction stays READ ONLY because the client wants that: the check comes here, and
      // earlier reads need none.
      held_.lock_reads();
      held_.flush_group();
      pipeline_.direct = true;
    }
    carrier_.carry_out(act, effects, claim);
    return;
  }
  open_held(effects, claim, act);
}

// The statement runs alone under the check's lock, once the Sync shows that nothing else comes with
// it.
void PipelineRunner::hold_at_sync(const Effects& effects, const Claim& claim) {
  pipeline_.needs_hold = true;
  pipeline_.effects = effects;
  pipeline_.claim = claim;
  if (effects.unlocks)
    refusals_.refuse("0A000", "Termgate cannot run this: it names pg_advisory_unlock, and would give up the lock that fences it", "");
}

// Earlier reads may have run code that declares a claim and, once the transaction is opened where
// it begins, writes. So that claim is checked before another one replaces it. If that is
// impossible, the transaction stays READ ONLY to its end.
void PipelineRunner::redeclares_after_reads(const Unit& unit, const Claim& claim) {
  const Standing standing = judgement_.standing_of(claim);
  const bool stale_members = std::any_of(pipeline_.named.begin(), pipeline_.named.end(),
                                         [&](const Claim& named) { return judgement_.standing_of(named) > Standing::current; });
  if (standing > Standing::current || stale_members || pipeline_.called || !pipeline_.opening_possible) {
    pipeline_.opening_possible = false;
    return pass_in_group(unit, claim);
  }
  if (standing != Standing::none && !pipeline_.touched_server) own_.raise_in_advance(claim);
  held_.open_group(claim, standing != Standing::none);
  own_.add_recheck(line_.server);
}

void PipelineRunner::note_named(const Claim& claim) {
  const auto same = [&](const Claim& one) { return one.given == claim.given && one.pair == claim.pair; };
  if (std::any_of(pipeline_.named.begin(), pipeline_.named.end(), same)) return;
  if (pipeline_.named.size() >= claims_max)
    return refusals_.refuse("54000", "Termgate takes no more than 256 different scopes and terms in comments of one pipeline", "");
  pipeline_.named.push_back(claim);
}

void PipelineRunner::pass_in_group(const Unit& unit, const Claim& claim) {
  if (unit.does == Does::calls) pipeline_.called = true;
  if (claim.named && unit.does >= Does::reads) note_named(claim);
  if (unit.does == Does::begin && !facts_.standby() && judgement_.standing_of(claim) == Standing::current && pipeline_.opening_possible &&
      !pipeline_.direct) {
    if (!pipeline_.touched_server && pipeline_.beginning.bytes == 0) own_.raise_in_advance(claim);
    // Earlier reads belong to the block's transaction and have fixed its mode, unless it is opened
    // ahead of them.
    if (pipeline_.executed_here || pipeline_.snapshot_here) held_.open_group(claim, true);
  }
}

// The group's transaction becomes writable with this statement, if the earlier reads allow it.
void PipelineRunner::open_held(const Effects& effects, const Claim& claim, Act act) {
  // The earlier reads could then write too. So none of them may call functions, and each of their
  // claims must be able to pass.
  for (const Claim& member : pipeline_.named) {
    const Standing of = judgement_.standing_of(member);
    if (of > Standing::current)
      return void(carrier_.carry_out(of == Standing::problem ? Act::refuse_claim : Act::refuse_known, effects, member));
  }
  if (pipeline_.called && act == Act::open) {
    refusals_.report_refusal("TG002", "TG002 a write after a call in one pipeline", claim.pair, 0, true);
    return refusals_.refuse(
        "TG002", "TG002 this write follows a call of a function in a pipeline, which had no claim to run under: send a Sync between them",
        "Declare a scope and a term (termgate.scope, termgate.term) before the transaction.");
  }
  if (!pipeline_.opening_possible) {
    refusals_.report_refusal("TG002", "TG002 a write after a read that ran without a check", claim.pair, 0, true);
    return refusals_.refuse("TG002",
                            claims_.may_speak()
                                ? "TG002 this write follows a read of its pipeline that ran without a check: send a Sync between them"
                                : "TG002 no term declared for a fenced write",
                            "Declare a scope and a term (termgate.scope, termgate.term) before the transaction.");
  }
  if (effects.kind == Kind::unparsable && !claims_.may_write()) {
    held_.send_first();
    refusals_.report_refusal("TG002", "TG002 no term declared", {}, 0, true);
    return refusals_.fail_in_server(refusals_.error_text("TG002", "TG002 no term declared, and Termgate cannot read this statement", ""));
  }
  if (act == Act::open && !pipeline_.touched_server && !model_.tx.redeclared) own_.raise_in_advance(claim);
  // A claim that a member of the group declared counts only from there on: the transaction is
  // opened where it begins, and checked here.
  if (act == Act::open && model_.tx.redeclared && pipeline_.executed_here) {
    held_.open_group(claim, false);
    own_.add_check(line_.server, claim, Purpose::check);
    return;
  }
  held_.open_group(claim, act == Act::open);
}

// Ends the holding: what may still be a write is opened, what has only read so far continues as a
// read.
void PipelineRunner::commit_to_group(bool flushed) {
  if (pipeline_.direct) return;
  const Claim claim = judgement_.claim_of(nullptr);
  if (pipeline_.needs_hold)
    return refusals_.refuse("0A000", "Termgate runs CALL, DO and what must run alone only before a Sync that follows at once", "");
  const bool writes_parsed = std::any_of(pipeline_.parsed.begin(), pipeline_.parsed.end(), [&](const std::string& name) {
    const Known* known = names_.known(name);
    if (known == nullptr) return false;
    const Effects effects = judgement_.resolved(known->effects, known->executes);
    return effects.way == Way::write || effects.calls_unknown;
  });
  const Standing standing = judgement_.standing_of(claim);
  const bool stale_members = std::any_of(pipeline_.named.begin(), pipeline_.named.end(),
                                         [&](const Claim& named) { return judgement_.standing_of(named) > Standing::current; });
  const bool acts = pipeline_.executed || writes_parsed;
  // A Flush sends what fixes the access mode, and a later member of the pipeline may write. A long
  // Bind of a read is no reason to expect a write.
  const bool opens = acts || (flushed && pipeline_.snapshot_here);
  if (!judgement_.reads_only() && !stale_members && (standing == Standing::current || standing == Standing::uncertain) && opens &&
      pipeline_.opening_possible && !pipeline_.called) {
    if (!pipeline_.touched_server) own_.raise_in_advance(claim);
    held_.open_group(claim, !model_.tx.redeclared || model_.tx.parsed || model_.tx.bound);
    return;
  }
  if (!pipeline_.held.empty() && (acts || pipeline_.snapshot_here)) {
    pipeline_.opening_possible = false;
    held_.lock_group();
  }
  held_.flush_group();
}

}  // namespace termgate::session
