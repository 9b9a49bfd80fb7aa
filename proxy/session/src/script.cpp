// Scripts: a text whose statements cannot all be sent at once, or that needs BEGIN and COMMIT around it. It goes a piece at a time, the next
// when the last has succeeded, and shows one ReadyForQuery.
#include "state.hpp"

namespace termgate::session {

using statements::Access;
using statements::Kind;
using Way = Effects::Way;

void Session::State::start_script(std::string_view sql, Text text, const Claim& claim) {
  script_ = Script();
  script_.running = true;
  script_.sql = sql;
  script_.text = std::move(text);
  script_.claim = claim;
  next_piece();
}

void Session::State::next_piece() {
  while (true) {
    if (client_mid_frame_) {
      act_after_frame_ = true;
      return;
    }
    Script& script = script_;
    const auto& all = script.text->statements;
    if (script.failed || script.next >= all.size()) return finish_script();

    const auto barrier = [&](const Effects& effects) { return effects.way == Way::control || ours_to_keep(effects) || effects.kind == Kind::discard_all || effects.kind == Kind::prepare_transaction; };
    const statements::Statement& first = all[script.next];
    Effects effects = resolved_statement(first);
    script.offset = first.offset;
    script.claim = claim_of(script.text.get());  // a piece before may have declared
    const auto declares = [](const Effects& one) { return one.changes_declaration && one.way == Way::neutral; };
    if (barrier(effects)) {
      ++script.next;
      const std::string sql = script.sql.substr(first.offset, first.length);
      if (script.frame && effects.kind == Kind::begin && effects.access == Access::unspecified && first.isolation == statements::Isolation::unspecified) {
        // The statements before it belong to the client's block from here on, as they do without us.
        script.frame = false;
        note_block_begun();
        release_complete();
        pgwire::append_command_complete(to_client_.back(), "BEGIN");
        continue;
      }
      release_complete();
      if (script.frame && frame_refuses(effects)) return script_refused();
      if (effects.kind == Kind::commit || effects.kind == Kind::rollback || effects.kind == Kind::prepare_transaction) {
        // Our BEGIN keeps the server from saying it. What was written so far ends with this statement, as it does without us.
        if (script.frame) pgwire::append_notice_response(to_client_.back(), pgwire::report("WARNING", "25P01", "there is no transaction in progress"));
        script.frame = false;
      }
      statements::Classified one;
      one.statements.push_back(first);
      one.statements.front().offset = 0;
      one.single = true;
      run_statement(sql, effects, script.claim, one);
      if (answers_.empty()) continue;  // answered here
      return;
    }

    if (declares(effects)) {
      // By itself, for the server must know it before what follows is checked; in one transaction with that, as a text is.
      if (!tx_.in_block && !tx_.failed) {
        bool writes_follow = false;
        for (std::size_t i = script.next + 1; i < all.size() && !writes_follow; ++i) {
          const Effects one = resolved_statement(all[i]);
          if (barrier(one)) break;
          writes_follow = one.way == Way::write || one.way == Way::alone;
        }
        if (writes_follow) {
          add_hidden_query("BEGIN", Role::begin);
          script.frame = true;
          note_block_begun();
        }
      }
      ++script.next;
      release_complete();
      note_sent(effects);
      return run_plain_query(script.sql.substr(first.offset, first.length), script.frame ? Role::framed : Role::client);
    }

    // A run of statements that stay in one transaction.
    std::size_t end = script.next;
    bool writes = false, snapshot = false, own_check = true, passes = false;
    Effects sum = effects;
    for (; end < all.size(); ++end) {
      const Effects one = resolved_statement(all[end]);
      if (barrier(one) || (end > script.next && declares(one))) break;
      const bool write = one.way == Way::write || one.way == Way::alone;
      writes |= write;
      snapshot |= one.takes_snapshot;
      if (write && !one.own_check) own_check = false;
      passes |= one.own_check_passes;
      sum.own_check_writes |= one.own_check_writes;
      note_prepared(one);
      sum.changes_declaration |= one.changes_declaration;
      sum.calls_functions |= one.calls_functions;
      sum.calls_unknown |= one.calls_unknown;
      if (write) {
        sum.read_only_hole |= one.read_only_hole;
        if (one.way == Way::alone && one.kind != Kind::call && one.kind != Kind::do_block) sum.read_only_hole = true;
      }
      sum.unsettles |= one.unsettles;
      sum.forgets_prepared |= one.forgets_prepared;
    }
    const statements::Statement& last = all[end - 1];
    const std::string sql = end == all.size() ? script.sql.substr(first.offset) : script.sql.substr(first.offset, last.offset + last.length - first.offset);
    script.next = end;
    script.bytes = sql.size();
    if (!writes && snapshot && known_writer(sql)) {
      writes = true;
      own_check = false;
    }
    sum.prepares.clear();
    sum.way = writes ? Way::write : snapshot ? Way::read : Way::neutral;
    sum.kind = writes ? Kind::write : snapshot ? Kind::provably_read : Kind::show;
    sum.takes_snapshot = snapshot;
    sum.own_check = own_check && writes;
    sum.own_check_passes = passes;
    release_complete();
    if (tx_.failed || (!tx_.in_block && !writes)) {
      note_sent(sum);
      return run_plain_query(sql);
    }
    if (!tx_.in_block && default_.believed) {
      add_hidden_query("BEGIN", Role::begin);
      script.frame = true;
      note_block_begun();
      tx_.client_read_only = true;
    } else if (!tx_.in_block) {
      const bool own = sum.own_check && !final_rule();
      if (!own && !script.claim.problem.empty()) return refuse_claim(script.claim), script_refused();
      if (const Refusal refusal = own ? refusal_of_own(sum) : refusal_from_memory(script.claim)) {
        refuse_from_memory(refusal, script.claim.pair);
        return script_refused();
      }
      if (!own) raise_in_advance(script.claim.pair);
      add_hidden_query("BEGIN", Role::begin);
      script.frame = true;
      note_block_begun();
    }
    const bool added = guard_block(sum, script.claim, true);
    if (tx_.failed) return;
    if (added) add_sync(Role::silent);
    note_sent(sum);
    return run_plain_query(sql, script.frame ? Role::framed : Role::client);
  }
}

// What needs a block of the client's own does not find one in ours: the server's errors, where the frame would let it pass.
bool Session::State::frame_refuses(const Effects& effects) {
  std::string what;
  switch (effects.kind) {
    case Kind::savepoint: what = "SAVEPOINT"; break;
    case Kind::release: what = "RELEASE SAVEPOINT"; break;
    case Kind::rollback_to: what = "ROLLBACK TO SAVEPOINT"; break;
    case Kind::commit:
      if (!effects.and_chain) return false;
      what = "COMMIT AND CHAIN";
      break;
    case Kind::rollback:
      if (!effects.and_chain) return false;
      what = "ROLLBACK AND CHAIN";
      break;
    default: return false;
  }
  to_client_.back() += error_text("25P01", what + " can only be used in transaction blocks", "");
  return true;
}

Effects Session::State::resolved_statement(const statements::Statement& statement) const {
  statements::Classified one;
  one.statements.push_back(statement);
  return resolved(effects_of(statement, script_.sql), &one);
}

void Session::State::release_complete() {
  to_client_.back() += script_.complete;
  script_.complete.clear();
}

void Session::State::script_refused() {
  script_.failed = true;
  finish_script();
}

void Session::State::finish_script() {
  if (script_.frame && !script_.ending) {
    script_.ending = true;
    return add_hidden_query(script_.failed ? "ROLLBACK" : "COMMIT", script_.failed ? Role::rollback : Role::commit);
  }
  release_complete();
  if (!script_.failed && status_ == pgwire::TransactionStatus::idle) default_.committed = default_.answered;
  script_ = Script();
  pgwire::append_ready_for_query(to_client_.back(), status_);
}

}  // namespace termgate::session
