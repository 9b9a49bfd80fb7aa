#include "held_messages.hpp"

#include <utility>

namespace termgate::pg_session {

// Lets the server report a malformed statement or an unknown name before a check reports anything.
void HeldMessages::send_first() {
  lock_reads();
  flush_group();
  pipeline_.go_direct();
  pipeline_.sent = pipeline_.touched_server = true;
}

// The opening goes where the group's implicit transaction begins, ahead of anything in it that
// takes a snapshot.
void HeldMessages::open_group(const Claim& claim, bool with_check) {
  const Transaction before = model_.tx;
  Batch opening;
  own_.add_opening(opening, claim, with_check);
  // A check of a comment's claim, or of arguments, does not cover earlier reads under what the
  // session declares.
  const bool read_before = model_.tx.unnamed && !model_.tx.session_passed &&
                           judgement_.standing_of(judgement_.claim_of(nullptr)) != Standing::none;
  if (read_before && !before.redeclared) own_.add_recheck(opening);
  // Earlier reads may write now, so the claim that each of them names is checked.
  for (const Claim& named : pipeline_.named) own_.add_check(opening, named, Purpose::check);
  pipeline_.named.clear();
  pipeline_.held.insert_at(pipeline_.beginning, std::move(opening));
  // What now follows the opening counts as run after it.
  model_.tx.redeclared = before.redeclared || (model_.tx.redeclared && !with_check);
  model_.tx.acted = before.acted;
  model_.tx.acted_since = before.acted_since;
  model_.tx.code_declared = before.code_declared;
  model_.tx.unnamed = false;
  flush_group();
  pipeline_.go_direct();
  if (read_before && before.redeclared) own_.add_recheck(line_.server);
}

// While an answer is outstanding, the next transaction may begin writable, because something
// running may change the session's default.
void HeldMessages::lock_group() {
  if (!claims_.guards() || (line_.server.replies.empty() && !pipeline_.ended_one)) return;
  Batch lock;
  own_.run(lock, ProxyStatement::locked, Purpose::mode);
  pipeline_.held.insert_at(pipeline_.beginning, std::move(lock));
}

// For a group that is sent without an opening: what it has read begins a transaction of its own.
void HeldMessages::lock_reads() {
  if (!pipeline_.direct() && pipeline_.executed_here && pipeline_.opening_possible) lock_group();
}

void HeldMessages::flush_group() {
  if (pipeline_.held.empty()) return;
  Batch held = pipeline_.take_held();
  for (std::size_t i = 0; i < held.replies.size(); ++i)
    pipeline_.bound |= held.replies.at(i).request == Request::bind && !held.replies.at(i).hidden;
  line_.server.append(std::move(held));
  if (pipeline_.suspect)
    model_.by_default.broken = true;  // runs only now, perhaps after a restore already sent
  pipeline_.sent = pipeline_.touched_server = true;
}

}  // namespace termgate::pg_session
