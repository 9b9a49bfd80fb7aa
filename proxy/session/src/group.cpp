// Groups: the extended messages up to a Sync, which are one implicit transaction. They are held until it is known whether they write; then
// the opening is put where that transaction begins, and the rest goes straight through.
#include <algorithm>
#include <iterator>

#include "state.hpp"

namespace termgate::session {

using statements::Kind;
using Way = Effects::Way;

void Session::State::group_begins() {
  if (group_.begun) return;
  unit_begins();
  group_.begun = true;
  again_ = Again();
  opening_refused_ = false;
  group_.direct = !active() || tx_.failed || tx_.in_block;
}

// What a statement is about to run means for the group; puts what is needed before it.
void Session::State::decide(const Effects& effects, const Known& known, bool runs) {
  const Claim claim = claim_of(known.text.get());
  if (!active()) {
    if (runs) observe(effects, claim);
    return;
  }
  if (tx_.failed) return;
  if (group_.needs_hold) return refuse("0A000", "Termgate runs CALL, DO and what must run alone only as the one statement before a Sync", "");
  if (default_.believed && !tx_.in_block) {
    if (runs && (effects.way == Way::write || effects.way == Way::alone)) left_to_read_only(effects);
    return;
  }
  if (tx_.in_block || tx_.writable) {
    if (!tx_.in_block && runs && (effects.kind == Kind::call || effects.kind == Kind::do_block)) {
      // Up to 17 it could commit our check's lock away in the middle of a pipeline.
      return refuse("0A000", "Termgate runs CALL and DO only as the one statement before a Sync, or in a transaction block", "");
    }
    // The server refuses it in a pipeline, but for early minor releases, which would run it, commit our check's lock away, and go on.
    if (!tx_.in_block && runs && effects.way == Way::alone) return refuse("0A000", "Termgate runs what must run alone only as the one statement before a Sync", "");
    guard_block(effects, claim, true);
    return;
  }
  if (group_.direct) return;
  switch (effects.way) {
    case Way::read:
    case Way::neutral: return;
    case Way::control:
      if (runs && effects.kind == Kind::begin && group_.opening_possible && may_speak() && claim.problem.empty() && !refused_from_memory(claim)) {
        if (!group_.touched_server && group_.opening_at == 0) raise_in_advance(claim.pair);
        // What was read before belongs to the block's transaction, and has fixed its mode unless it is opened before that.
        if (group_.executed) open_group(claim.pair, true);
      }
      return;
    case Way::alone:
      if (!runs) return;
      if (!group_.touched_server && !group_.executed && !group_.needs_hold) {
        group_.needs_hold = true;
        group_.effects = effects;
        group_.claim = claim;
        if (!claim.problem.empty()) return refuse_claim(claim);
        if (const Refusal refusal = refusal_from_memory(claim)) return refuse_from_memory(refusal, claim.pair);
        if (effects.unlocks) refuse("0A000", "Termgate cannot run this: it names pg_advisory_unlock, and would give up the lock that fences it", "");
        return;
      }
      // Behind a Flush the server would run it, and READ ONLY does not stop VACUUM.
      if (effects.kind != Kind::call && effects.kind != Kind::do_block) return refuse("0A000", "Termgate runs what must run alone only as the one statement before a Sync, with no Flush before it", "");
      return refuse("0A000", "Termgate runs CALL and DO only as the one statement before a Sync, or in a transaction block", "");
    case Way::write: break;
  }
  group_.reads_only = false;
  const bool own_check = effects.own_check && !final_rule();
  if (!own_check && !claim.problem.empty()) return refuse_claim(claim);
  if (const Refusal refusal = own_check ? refusal_of_own(effects) : refusal_from_memory(claim)) return refuse_from_memory(refusal, claim.pair);
  if (!group_.opening_possible) {
    report_refusal("TG002", "TG002 a write behind a read that was flushed", claim.pair, 0, true);
    return refuse("TG002", may_speak() ? "TG002 this write follows a read in a pipeline that was flushed before it was known: send a Sync between them" : "TG002 no term declared for a fenced write",
                  "Declare a scope and a term (termgate.scope, termgate.term) before the transaction.");
  }
  if (effects.kind == Kind::unparsable && !may_speak()) {
    // Whether it is a statement at all the server says first, at its Parse.
    lock_reads();
    flush_group();
    group_.direct = group_.touched_server = true;
    report_refusal("TG002", "TG002 no term declared", {}, 0, true);
    return fail_in_server(error_text("TG002", "TG002 no term declared, and Termgate cannot read this statement", ""));
  }
  if (!own_check && !group_.touched_server) raise_in_advance(claim.pair);
  open_group(claim.pair, !own_check);
}

// Held long enough: what can still be a write is opened, what reads so far goes on as a read.
void Session::State::commit_to_group() {
  if (group_.direct) return;
  const Claim claim = claim_of(nullptr);
  if (group_.needs_hold) return refuse("0A000", "Termgate runs CALL, DO and what must run alone only before a Sync that follows at once", "");
  const bool writes_parsed = std::any_of(group_.parsed.begin(), group_.parsed.end(), [&](const std::string& name) {
    const Known* known = known_statement(name);
    return known != nullptr && resolved(known->effects, known->text.get()).way == Way::write;
  });
  if (may_speak() && (group_.executed || writes_parsed) && group_.opening_possible && claim.problem.empty() && !refused_from_memory(claim)) {
    if (!group_.touched_server) raise_in_advance(claim.pair);
    open_group(claim.pair, true);
    return;
  }
  if (!group_.held.empty()) {
    group_.opening_possible = false;
    lock_group();
  }
  flush_group();
}

// What `add` adds goes where the group's implicit transaction begins, before anything of it that takes a snapshot.
template <class Add>
void Session::State::at_beginning(Add add) {
  std::string behind = group_.held.substr(group_.opening_at);
  group_.held.resize(group_.opening_at);
  std::vector<Expected> asked_behind(std::make_move_iterator(group_.asked.begin() + static_cast<std::ptrdiff_t>(group_.opening_asked)), std::make_move_iterator(group_.asked.end()));
  group_.asked.resize(group_.opening_asked);
  into_group_ = true;
  add();
  into_group_ = false;
  group_.held += behind;
  for (Expected& expected : asked_behind) group_.asked.push_back(std::move(expected));
}

void Session::State::open_group(const Pair& pair, bool with_check) {
  at_beginning([&] { add_opening(pair, with_check); });
  flush_group();
  group_.direct = true;
}

// A transaction that begins before all answers are here may begin writable: something that runs yet may change the session's default.
void Session::State::lock_group() {
  if (!guards() || (answers_.empty() && !group_.ended_one)) return;
  at_beginning([&] { run_ours(ours_locked, Role::put_back, {}); });
}

// Before a group goes that will not be opened: what it has read so far begins a transaction of its own.
void Session::State::lock_reads() {
  if (!group_.direct && group_.executed_here && group_.opening_possible) lock_group();
}

void Session::State::flush_group() {
  if (group_.held.empty()) return;
  to_server_.back() += group_.held;
  for (Expected& expected : group_.asked) answers_.push(std::move(expected));
  if (group_.suspect) default_.broken = true;  // it runs only now, maybe behind a restore that was on its way
  group_.held.clear();
  group_.asked.clear();
  group_.opening_at = group_.opening_asked = 0;
  group_.touched_server = true;
}

}  // namespace termgate::session
