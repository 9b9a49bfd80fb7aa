// Scripts: texts whose statements cannot all be sent at once, or that need BEGIN and COMMIT around
// them. A script is sent piece by piece, each when the one before it has succeeded, and ends with
// one ReadyForQuery.
#include <utility>

#include <termgate/pgwire/encode.hpp>

#include "names.hpp"
#include "script_runner.hpp"

namespace termgate::pg_session {

using statements::Kind;
using Way = Effects::Way;

namespace {

// Whether the statement must be sent by itself.
bool stands_apart(const Effects& effects) noexcept {
  return effects.way == Way::control || ours_to_keep(effects) ||
         effects.shown != Effects::Shown::nothing || effects.kind == Kind::discard_all ||
         effects.kind == Kind::prepare_transaction;
}

// The server reads a whole text by the settings at its beginning; the rest of this one would be
// read by other settings.
constexpr std::string_view read_anew =
    "Termgate cannot run the rest of this text: client_encoding or standard_conforming_strings has "
    "changed in it, by which it was read; "
    "send the rest by itself";

}  // namespace

bool reads_otherwise(std::string_view text, const Reading& before, const Reading& now) noexcept {
  if ((before.strings != now.strings || now.strings == statements::ConformingStrings::unknown) &&
      text.find('\\') != std::string_view::npos)
    return true;
  if (before.encoding == now.encoding && before.ascii_safe == now.ascii_safe) return false;
  return has_high_byte(text);
}

void ScriptRunner::start_script(std::string_view sql, Text text) {
  std::string whole(sql);  // `sql` may be part of the script that runs
  script_ = Script();
  script_.running = true;
  script_.sql = std::move(whole);
  script_.text = std::move(text);
  script_.read = texts_.reported;
  next_piece();
}

// Whether a statement from `from` on, up to the end of its transaction, needs a frame around it.
bool ScriptRunner::frame_needed(std::size_t from) const {
  const auto& all = script_.text->statements;
  for (std::size_t i = from; i < all.size(); ++i) {
    const Effects one = resolved_statement(all[i]);
    if (one.way == Way::control) return false;
    // PostgreSQL runs a text of several statements in an implicit block. A SET TRANSACTION in it
    // must hold for what follows, even if that is sent as a separate piece.
    const bool in_implicit_block =
        one.kind == Kind::set_transaction ||
        (one.kind == Kind::set_local && !one.has(Effect::changes_declaration)) ||
        one.kind == Kind::declare_cursor;
    if (all.size() > 1 && (one.has(Effect::sets_access) ||
                           (in_implicit_block && i == from &&
                            (i + 1 == all.size() || stands_apart(resolved_statement(all[i + 1]))))))
      return true;
    const Act act = decided_in_script(all[i], one);
    if (act == Act::frame || refuses_claim(act)) return true;
  }
  return false;
}

void ScriptRunner::next_piece() {
  while (true) {
    if (line_.client_mid_frame) {
      line_.settle_after_frame = true;
      return;
    }
    Script& script = script_;
    const auto& all = script.text->statements;
    if (std::exchange(script.becomes_block, false) && !script.failed) {
      // The statements before the client's BEGIN belong to its block from here on.
      script.frame = false;
      model_.begin_block();
    }
    if (script.failed || script.next >= all.size()) return finish_script();

    const statements::Statement& first = all[script.next];
    if (reads_otherwise(std::string_view(script.sql).substr(first.offset), script.read,
                        texts_.reported)) {
      const bool in_block = model_.tx.in_block && !model_.tx.failed;
      if (in_block) refusals_.refuse("0A000", read_anew, "");
      else line_.to_client.back() += refusals_.error_text("0A000", read_anew, "");
      if (!in_block) script_refused();
      return;
    }
    Effects effects = resolved_statement(first);
    script.offset = first.offset;
    script.inserted = 0;
    script.claim = judgement_.claim_for(first.declared, effects_of(first, script.sql),
                                        first.name);  // an earlier piece may have declared
    if (effects.has(Effect::sets_access) && effects.kind != Kind::begin && !model_.tx.in_block &&
        !model_.tx.failed && frame_needed(script.next))
      return begin_frame();
    if (stands_apart(effects)) {
      ++script.next;
      if (run_apart(first, effects)) continue;
      return;
    }

    if (!model_.tx.in_block && !model_.tx.failed && frame_needed(script.next)) {
      if (const Act act = decided_in_script(first, effects); refuses_claim(act)) {
        refusals_.refuse(act, effects, script.claim);
        return script_refused();
      }
      if (judgement_.standing_of(script.claim) == Standing::current &&
          model_.by_default.believed != Mode::read_only)
        own_.raise_in_advance(script.claim);
      return begin_frame();
    }

    line_.router.release_framed();
    bool added = !model_.tx.failed && carrier_.release_mark();
    const Act act = decided_in_script(first, effects);
    added |= !model_.tx.failed && effects.has(Effect::takes_snapshot) && carrier_.settle_mode();
    const bool was_failed = model_.tx.failed;
    added |= carrier_.carry_out(act, effects, script.claim);
    if (!model_.tx.in_block && is_refusal(act)) return script_refused();
    if (model_.tx.failed && !was_failed) return;  // refused
    if (added) own_.add_sync(Purpose::silent);
    carrier_.note_sent(effects, script.claim.named);

    return send_piece(effects);
  }
}

// Runs a statement that must be sent by itself. True: it is done, and the next may follow.
bool ScriptRunner::run_apart(const statements::Statement& statement, const Effects& effects) {
  if (script_.frame && statement.bare_begin) {
    // As without the proxy, the statements before this BEGIN belong to the client's block.
    script_.frame = false;
    model_.begin_block();
    line_.router.release_framed();
    const char first = script_.sql[statement.offset];
    pgwire::append_command_complete(line_.to_client.back(),
                                    first == 's' || first == 'S' ? "START TRANSACTION" : "BEGIN");
    return true;
  }
  line_.router.release_framed();
  if (script_.frame && frame_refuses(effects)) {
    script_refused();
    return false;
  }
  if (effects.kind == Kind::commit || effects.kind == Kind::rollback ||
      effects.kind == Kind::prepare_transaction) {
    // Because of our BEGIN the server does not give this warning itself. What was written so far
    // ends with this statement, as it does without the proxy.
    if (script_.frame)
      pgwire::append_notice_response(
          line_.to_client.back(),
          pgwire::report("WARNING", "25P01", "there is no transaction in progress"));
    script_.frame = false;
  }
  const std::string sql = script_.sql.substr(statement.offset, statement.length);
  statements::Classified one;
  one.statements.push_back(statement);
  one.statements.front().offset = 0;
  for (std::size_t& at : one.statements.front().set_config_at) {
    if (at != std::string::npos) at -= statement.offset;
  }
  for (std::size_t& at : one.statements.front().write_words) at -= statement.offset;
  one.single = true;
  const bool begins = script_.frame && effects.kind == Kind::begin;
  run_statement(sql, effects, script_.claim, one);
  if (begins && !line_.server.replies.empty() && !script_.failed) {
    // The server sets the modes of the open transaction, or refuses, as in its own implicit block.
    // It also warns because of our BEGIN.
    line_.server.replies.at(line_.server.replies.size() - 1).hide_warning = true;
    script_.becomes_block = true;
  }
  return line_.server.replies.empty();  // answered here
}

Act ScriptRunner::decided_in_script(const statements::Statement& statement,
                                    const Effects& effects) const {
  const Claim claim =
      judgement_.claim_for(statement.declared, effects_of(statement, script_.sql), statement.name);
  return decide(judgement_.unit_of(effects, claim, Step::runs),
                judgement_.view_of(claim, Place::text), judgement_.standing_of(claim),
                judgement_.policy());
}

// Sends the next statement, whose effects are recorded, and all those after it that can go with it.
// SET and the like are sent separately, because the server must apply them first.
void ScriptRunner::send_piece(const Effects& effects) {
  const auto& all = script_.text->statements;
  const statements::Statement& first = all[script_.next];
  std::size_t end = script_.next + 1;
  const auto declares = [](const Effects& one) {
    return one.has(Effect::changes_declaration) && one.way == Way::neutral;
  };
  if (!declares(effects)) {
    for (; end < all.size(); ++end) {
      const Effects one = resolved_statement(all[end]);
      if (stands_apart(one) || declares(one) || one.has(Effect::unsettles) ||
          !all[end].declared.empty())
        break;
      if (decided_in_script(all[end], one) != Act::pass ||
          does_of(one, claims_.final_rule()) == Does::own_call)
        break;
      carrier_.note_sent(one, false);
    }
  }
  const statements::Statement& last = all[end - 1];
  // A server that guards the session reads the comments itself, including those ahead of the first
  // token.
  if (claims_.server_guarded() && !first.declared.empty() && !effects.has(Effect::only_declares) &&
      !effects.prepares.declaration())
    script_.offset =
        script_.next == 0 ? 0 : all[script_.next - 1].offset + all[script_.next - 1].length;
  std::string sql =
      end == all.size()
          ? script_.sql.substr(script_.offset)
          : script_.sql.substr(script_.offset, last.offset + last.length - script_.offset);
  script_.next = end;
  script_.bytes = sql.size();
  if ((effects.has(Effect::only_declares) || effects.prepares.declaration()) &&
      !first.set_config_at.empty()) {
    sql = with_own_set_config(sql, first, first.offset);
    script_.inserted = sql.size() - script_.bytes;
  }
  carrier_.run_plain_query(sql, script_.frame ? Purpose::framed : Purpose::client, Change::none,
                           effects.way == Way::read ? judgement_.hash_of(sql) : 0);
}

// The rest is sent when BEGIN has succeeded: if a cancel request stops the BEGIN, nothing of the
// text may run.
void ScriptRunner::begin_frame() {
  line_.router.release_framed();
  own_.add_hidden_query("BEGIN", Purpose::begin);
  script_.frame = true;
  model_.begin_block();
  model_.tx.mode = model_.by_default.believed;
}

// A statement that needs a block of the client's must not find ours: gives the server's error,
// which the frame would suppress.
bool ScriptRunner::frame_refuses(const Effects& effects) {
  std::string what;
  switch (effects.kind) {
    case Kind::savepoint: what = "SAVEPOINT"; break;
    case Kind::release: what = "RELEASE SAVEPOINT"; break;
    case Kind::rollback_to: what = "ROLLBACK TO SAVEPOINT"; break;
    case Kind::commit:
      if (!effects.has(Effect::and_chain)) return false;
      what = "COMMIT AND CHAIN";
      break;
    case Kind::rollback:
      if (!effects.has(Effect::and_chain)) return false;
      what = "ROLLBACK AND CHAIN";
      break;
    default: return false;
  }
  line_.to_client.back() +=
      refusals_.error_text("25P01", what + " can only be used in transaction blocks", "");
  return true;
}

Effects ScriptRunner::resolved_statement(const statements::Statement& statement) const {
  Effects effects = judgement_.resolved(effects_of(statement, script_.sql), statement.name);
  if (effects.way == Way::read)
    judgement_.learn_from_refusals(
        effects, judgement_.hash_of(
                     std::string_view(script_.sql).substr(statement.offset, statement.length)));
  return effects;
}

void ScriptRunner::script_refused() {
  script_.failed = true;
  finish_script();
}

void ScriptRunner::finish_script() {
  if (script_.frame && !script_.ending) {
    script_.ending = true;
    if (!script_.failed && !model_.tx.failed && carrier_.add_before_commit())
      own_.add_sync(Purpose::silent);
    return own_.add_hidden_query(script_.failed ? "ROLLBACK" : "COMMIT",
                                 script_.failed ? Purpose::rollback : Purpose::commit);
  }
  line_.router.release_framed();
  model_.on_text_done(script_.failed);
  script_ = Script();
  pgwire::append_ready_for_query(line_.to_client.back(), model_.status);
}

}  // namespace termgate::pg_session
