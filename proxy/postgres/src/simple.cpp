// Simple queries: one statement as docs/decisions/0006 lists them; a text of several goes to
// script.cpp. Also the fast path for function calls, which is answered like a simple query.
#include <algorithm>
#include <array>
#include <utility>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "names.hpp"
#include "script_runner.hpp"

namespace termgate::pg_session {

using pgwire::Event;
using statements::Kind;
using Way = Effects::Way;

namespace {

// The OIDs in pg_proc of PostgreSQL's large-object functions: lo_create, loread, lo_open and the
// like.
bool is_large_object_function(std::uint32_t oid) noexcept {
  static constexpr std::array<std::uint32_t, 17> all{
      715, 764, 765, 767, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172, 3457};
  return std::find(all.begin(), all.end(), oid) != all.end();
}

}  // namespace

void ScriptRunner::on_query(std::string_view sql) {
  if (pipeline_.begun()) {
    // Inside a block pgjdbc sends a simple query before the Sync, for its savepoints. Outside of a
    // block, after messages of ours, version 18 would lose the client's work.
    if (!model_.tx.in_block)
      return line_.end("0A000",
                       "Termgate takes no simple query before the Sync of an extended one, but in "
                       "a transaction block");
    pipeline_ = Pipeline();
  }
  seating_.unit_begins();
  names_.statements.erase("");
  names_.portals.erase("");
  const bool passes = seating_.has_peeked(sql);
  const Text text = passes ? seating_.take_peeked() : judgement_.classified(sql);
  judgement_.unit_is(sql);
  judgement_.learn(*text, sql);
  if (judgement_.names_ours(*text)) return refusals_.refuse_reserved();
  const statements::Statement& first = text->statements.front();
  if (!passes && seating_.passes_under_seat() && !seating_.passes_seated(*text, sql))
    seating_.leave_seat();
  if (claims_.active() && text->statements.size() > 1) return start_script(sql, text);
  const Effects written = effects_of(*text, sql);
  const Effects effects = judgement_.resolved(written, first.name);
  const Claim claim = judgement_.claim_for(first.declared, written, first.name);
  if (claim.named || effects.has(Effect::only_declares))
    claims_.hand_over(false);  // also for an EXECUTE of what was prepared so
  if (!claims_.active()) {
    if (const Refusal refusal = judgement_.refusal_of_prepared(effects);
        refusal && !model_.tx.failed)
      return refusals_.refuse_from_memory(refusal, claim.pair);
    judgement_.observe(effects, claim);
    carrier_.note_handed_over(effects);
    carrier_.note_sent(effects, claim.named);
    return carrier_.run_plain_query(sql, Purpose::client, change_of(effects));
  }
  run_statement(sql, effects, claim, *text);
}

// Runs one statement as the decision requires.
// Long: one case for each decision.
void ScriptRunner::run_statement(std::string_view sql, Effects effects, const Claim& claim,
                                 const statements::Classified& text) {
  if (model_.tx.failed) {
    carrier_.note_sent(effects, claim.named);
    return effects.kind == Kind::unparsable
               ? carrier_.run_converted(sql, effects)
               : carrier_.run_plain_query(sql, Purpose::client, change_of(effects));
  }
  const statements::Statement& statement = text.statements.front();
  // The statement would go to a standby as READ ONLY, which the standby would accept.
  if (facts_.standby() && asks_for_read_write(effects, statement))
    return refusals_.refuse("0A000", "cannot set transaction read-write mode during recovery", "");
  if (const Shows shows = judgement_.shown_of(effects); shows != Shows::none) {
    if (shows == Shows::own) {
      own_.look_at_own(line_.server);
      own_.add_sync(Purpose::silent);
    }
    carrier_.note_sent(effects, claim.named);
    carrier_.run_plain_query(sql);
    line_.server.replies.at(line_.server.replies.size() - 1).shows = shows;
    return;
  }
  std::size_t read_hash = 0;
  if (effects.way == Way::read) {
    read_hash = judgement_.hash_of(sql);
    judgement_.learn_from_refusals(effects, read_hash);
  }
  // In a READ ONLY transaction of the client's the server decides whether READ WRITE is still
  // possible; only the check makes the transaction writable. In a transaction that can write
  // already, READ WRITE does not change what is checked.
  const bool asks = model_.tx.in_block && asks_for_read_write(effects, statement);
  const bool as_it_is = asks && judgement_.may_write();
  const bool server_says = asks && !as_it_is && effects.kind != Kind::begin &&
                           model_.mode_now() == Mode::read_only && !model_.tx.writable;
  const std::string rewritten = server_says
                                    ? std::string(sql) + "\n;SET transaction_read_only TO on"
                                : as_it_is ? std::string()
                                           : rewritten_for(sql, effects, statement);
  // A script puts pg_catalog in front of set_config() itself.
  const std::string_view for_script =
      effects.has(Effect::only_declares) || effects.prepares.declaration() ? sql
      : rewritten.empty()                                                  ? sql
                          : std::string_view(rewritten);
  if (!rewritten.empty()) sql = rewritten;
  if (const Refusal refusal = judgement_.refusal_of_prepared(effects))
    return refusals_.refuse_from_memory(refusal, claim.pair);
  const Unit unit = judgement_.unit_of(effects, claim, Step::runs);
  const Standing standing = judgement_.standing_of(claim);
  const TransactionView view = judgement_.view_of(claim, Place::alone);
  if (const Act act = at_sight(unit, view, standing, judgement_.policy()); is_refusal(act))
    return refusals_.refuse_unless_unknown(sql, statement,
                                           refusals_.refusal_of(act, effects, claim), claim.pair);
  if (model_.tx.in_block) {
    const bool added = carrier_.guard_block(effects, claim, Step::runs);
    if (model_.tx.failed) return;  // refused
    if (added) own_.add_sync(Purpose::silent);
    carrier_.note_sent(effects, claim.named);
    if (effects.kind == Kind::unparsable) return carrier_.run_converted(sql, effects);
    carrier_.run_plain_query(sql, Purpose::client, change_of(effects), read_hash);
    if (server_says) {
      line_.server.replies.at(line_.server.replies.size() - 1).read_only_behind = true;
      texts_.outstanding.wait_for_all = true;
    }
    return;
  }

  const Act act = decide(unit, view, standing, judgement_.policy());
  if (is_refusal(act)) return refusals_.refuse(act, effects, claim);
  switch (act) {
    case Act::pass:
      if (unit.does == Does::begin && standing == Standing::current) own_.raise_in_advance(claim);
      // The statement is a transaction of its own. In a session that is not READ ONLY by default it
      // may declare and write, so a check precedes its COMMIT.
      if (!claims_.guards() && effects.has(Effect::changes_declaration) &&
          (unit.does >= Does::calls || effects.has(Effect::by_name)) && !script_.running &&
          text.single)
        break;
      carrier_.note_sent(effects, claim.named);
      return carrier_.run_plain_query(sql, Purpose::client, change_of(effects), read_hash);
    case Act::frame:
      return start_script(for_script, std::make_shared<statements::Classified>(text));
    case Act::hold: return lone_.run_held(sql, effects, claim);
    default: break;
  }
  if (effects.kind == Kind::lock_table && !script_.running)
    // Outside of a block this is an error, which a pipeline would hide on 18.
    return carrier_.run_plain_query(sql);
  const bool with_check = act != Act::open_unchecked && act != Act::pass;
  if (with_check) own_.raise_in_advance(claim);
  // What a rewrite rule (CREATE RULE) returns in addition would be lost if Parse and Execute
  // replaced the simple query.
  const bool by_rule = facts_.has_rules && unit.does == Does::writes &&
                       effects.kind == Kind::write && !script_.running;
  // For a text with a parameter, Parse would expect a value, but a simple query must fail.
  if (effects.kind == Kind::unparsable ||
      (text.single && !effects.has(Effect::is_copy_in | Effect::parameters) && !by_rule)) {
    own_.add_opening(line_.server, claim, with_check);
    carrier_.note_sent(effects, claim.named);
    return carrier_.run_converted(sql, effects, read_hash);
  }
  start_script(for_script, std::make_shared<statements::Classified>(text));
}

// The fast path of libpq, for large objects or any function that a client names. Calls that only
// read large objects count as reads.
void ScriptRunner::on_function_call(const Event& event) {
  const auto head = pgwire::decode_function_call_head(event.body);
  if (!head) return line_.end("08P01", head.problem().reason());
  if (pipeline_.begun()) {
    if (!model_.tx.in_block)
      return line_.end("0A000",
                       "Termgate takes no function call before the Sync of an extended query, but "
                       "in a transaction block");
    pipeline_ = Pipeline();
  }
  seating_.unit_begins();
  if (seating_.passes_under_seat()) seating_.leave_seat();
  Effects effects;
  effects.kind = Kind::write;
  effects.set(Effect::read_only_hole | Effect::calls_functions);
  switch (head->function_oid) {
    case 953:   // lo_close
    case 954:   // loread
    case 956:   // lo_lseek
    case 958:   // lo_tell
    case 3170:  // lo_lseek64
    case 3171:  // lo_tell64
      effects.way = Way::read;
      break;
    // lo_open opens for writing if the second of its two arguments has 0x20000.
    case 952: effects.way = opens_for_reading(event.body) ? Way::read : Way::write; break;
    default: break;
  }
  if (effects.way == Way::write) effects.set(Effect::calls_unknown | Effect::changes_declaration);
  else effects.clear(Effect::read_only_hole);
  // Any other function may declare, just as in a text.
  if (!is_large_object_function(head->function_oid)) claims_.learn({.calls_unknown = true});
  const Claim claim = judgement_.claim_of(nullptr);
  judgement_.observe(effects, claim);
  if (claims_.active() && !model_.tx.failed) {
    if (!model_.tx.in_block) {
      const Act act = decide(judgement_.unit_of(effects, claim, Step::runs),
                             judgement_.view_of(claim, Place::call), judgement_.standing_of(claim),
                             judgement_.policy());
      if (is_refusal(act)) {
        line_.client_parts = Line::Parts::drop;
        return refusals_.refuse(act, effects, claim);
      }
    } else {
      const bool added = carrier_.guard_block(effects, claim, Step::runs);
      if (model_.tx.failed) {
        line_.client_parts = Line::Parts::drop;
        return;
      }
      if (added) own_.add_sync(Purpose::silent);
    }
  }
  carrier_.note_sent(effects, claim.named);
  line_.server.add(event.frame, {.request = Request::function_call});
  line_.client_mid_frame = !event.last;
}

// Parses a FunctionCall of lo_open(oid, mode): OID, argument formats, arguments.
bool ScriptRunner::opens_for_reading(std::string_view body) noexcept {
  const auto u16 = [&](std::size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(body[at])) << 8 |
           static_cast<unsigned char>(body[at + 1]);
  };
  if (body.size() < 6) return false;
  const unsigned formats = u16(4);
  std::size_t at = 6 + 2 * static_cast<std::size_t>(formats);
  if (formats != 1 || u16(6) != 1 || body.size() != at + 2 + 8 + 8 + 2 || u16(at) != 2)
    return false;
  at += 2;
  const auto u32 = [&](std::size_t from) { return u16(from) << 16 | u16(from + 2); };
  if (u32(at) != 4 || u32(at + 8) != 4) return false;
  return (u32(at + 12) & 0x20000u) == 0;
}

}  // namespace termgate::pg_session
