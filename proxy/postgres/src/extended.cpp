// The messages of the extended protocol, one function each. This file follows the names; group.cpp
// decides what a message means for its pipeline.
#include <algorithm>
#include <functional>
#include <utility>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "names.hpp"
#include "pipeline_runner.hpp"

namespace termgate::pg_session {

using pgwire::Event;
using statements::Kind;
using Way = Effects::Way;

namespace {

// A longer Parse is not kept for sending it again: its statement counts as unknown, hence as a
// write.
constexpr std::size_t again_bytes_max = 4096;

// Whether the server may run a function, a cast or a trigger for this statement.
bool may_run_code(const Effects& effects) {
  const Does does = does_of(effects);
  return does != Does::quiet && !(does == Does::declares && effects.has(Effect::exactly_declares));
}

}  // namespace

void PipelineRunner::on_parse(const Event& event) {
  const auto parse = pgwire::decode_parse(event.body);
  if (!parse) return line_.end("08P01", parse.problem().reason());
  const std::string_view sql = parse->sql;
  const bool passes = seating_.has_peeked(sql);
  const Text text = passes ? seating_.take_peeked() : judgement_.classified(sql);
  // Before group_begins(), which depends on it: by this text a session that had declared nothing
  // may become one that is held to a claim.
  judgement_.learn(*text, sql);
  group_begins(judgement_.declares(*text));
  if (is_reserved(parse->statement)) return refusals_.refuse_reserved();
  judgement_.unit_is(sql);
  if (judgement_.names_ours(*text)) return refusals_.refuse_reserved();
  const statements::Statement& statement = text->statements.front();
  Effects effects = effects_of(*text, sql);
  const std::size_t hash = effects.way == Way::read ? judgement_.hash_of(sql) : 0;
  judgement_.learn_from_refusals(effects, hash);
  if (text->statements.size() > 1)
    effects = effects_of_unknown();  // the server refuses several statements in a Parse
  // The input function of a user-defined parameter type may run code.
  const std::vector<std::uint32_t> types = pgwire::decode_parse_types(event.body);
  const bool own_types = std::any_of(types.begin(), types.end(),
                                     [](std::uint32_t type) { return type >= first_user_oid; });
  if (own_types) {
    effects.set(Effect::input_runs_code);
    effects.clear(Effect::exactly_declares | Effect::own_check | Effect::own_check_passes);
  }

  if (!passes && seating_.passes_under_seat() && !seating_.passes_seated(*text, sql))
    group_begins(true);

  std::string rewritten, frame;
  if (claims_.active()) rewritten = rewritten_for(sql, effects, statement);

  const std::string name(cut(parse->statement));
  const std::size_t identity = std::hash<std::string_view>()(sql);
  const bool existed = !name.empty() && names_.statements.count(name) != 0;
  Known known{.effects = effects,
              .declared = statement.declared,
              .executes = effects.has(Effect::runs_prepared) ? std::string(cut(statement.name))
                                                             : std::string(),
              .identity = identity,
              .hash = hash};
  // A name that is not recorded is unknown at the Bind, and so counts as a write.
  if (!may_be_another(name) &&
      (names_.statements.size() < names_max || names_.statements.count(name) != 0)) {
    // A statement that passes because it runs no code is parsed again before each Bind, because
    // code can drop its name and give it to another statement.
    const bool asks = claims_.active() && asks_for_read_write(effects, statement);
    if ((!name.empty() || asks) && !effects.has(Effect::runs_prepared) &&
        does_of(effects) < Does::reads) {
      const auto parse_of = [&](std::string_view written) {
        std::string bytes;
        pgwire::append_parse(bytes, parse->statement, written, types);
        return std::make_shared<const std::string>(std::move(bytes));
      };
      known.again = parse_of(rewritten.empty() ? sql : std::string_view(rewritten));
      if (asks) known.as_it_is = parse_of(sql);
      if (known.again->size() > again_bytes_max) {
        known.effects = effects_of_unknown();
        known.again.reset();
        known.as_it_is.reset();
      }
      if (sql.find('\\') != std::string_view::npos || has_high_byte(sql))
        known.read = texts_.reported;
    }
    const auto [at, added] = names_.statements.try_emplace(name, known);
    // The server refuses a Parse of a name in use, unless the name was closed without our
    // knowledge.
    if (!added && (name.empty() || at->second.identity == identity)) at->second = known;
    else if (!added)
      at->second.effects = effects_of_unknown(), at->second.again.reset(),
      at->second.as_it_is.reset();
    // The unnamed statement is replaced by each Parse. If the group is refused, the server still
    // has the one from before it.
    if (added || name.empty()) pipeline_.parsed.push_back(name);
  }
  known.effects = judgement_.resolved(effects, statement.name);
  if (!guard_parse(parse->statement, std::move(known))) return;
  // A Describe that follows at once does not make the server analyze the text again.
  pipeline_.just_parsed = name;
  Event other = event;
  if (!rewritten.empty()) {
    pgwire::append_parse(frame, parse->statement, rewritten, types);
    other.frame = frame;
  }
  forward_extended(other, {.request = Request::parse, .existed = existed, .text = name});
}

// A Parse writes nothing itself, but it fixes the access mode of its transaction, and may run code.
// False: it was refused.
bool PipelineRunner::guard_parse(std::string_view name, Known known) {
  if (!claims_.active() || model_.tx.failed) return true;
  Effects& effects = known.effects;
  // A parameter's input function runs at the Bind, not now.
  effects.clear(Effect::input_runs_code);
  const bool code = ahead_of(effects, Step::parses) != Does::quiet;
  const Claim claim = judgement_.claim_for(known);
  if (model_.tx.in_block && pipeline_.direct()) {
    carrier_.guard_block(effects, claim, Step::parses);
    if (effects.has(Effect::takes_snapshot) && !model_.tx.writable) model_.tx.snapshot = true;
  } else if (code && judgement_.may_write()) {
    guard_group(effects, known, Step::parses, true);
  } else if (code) {
    // If the transaction is opened later, the opening is inserted ahead of this Parse.
    if (claim.named) note_named(claim);
    const Standing standing = judgement_.standing_of(claim);
    pipeline_.called |= does_of(effects) == Does::calls && standing != Standing::current &&
                        standing != Standing::uncertain;
    pipeline_.acted_here |= effects.has(Effect::calls_unknown);
    pipeline_.planned |= effects.way != Way::alone;
  }
  pipeline_.snapshot_here |= effects.has(Effect::takes_snapshot);
  if (code && !model_.tx.failed) model_.ran_ahead(Step::parses, name, effects, claim.named);
  return line_.stage == Stage::ready && !pipeline_.refused();
}

// A Describe may make the server analyze the statement again, literals included: then it counts as
// another Parse.
void PipelineRunner::on_describe(const Event& event) {
  const auto named = pgwire::decode_describe(event.body);
  if (!named) return line_.end("08P01", named.problem().reason());
  group_begins();
  if (!named->portal && pipeline_.just_parsed != cut(named->name)) {
    const Known* known = names_.known(named->name);
    Known described;
    if (known != nullptr) described = *known;
    else described.effects = effects_of_unknown();
    described.effects = judgement_.resolved(described.effects, described.executes);
    if (!guard_parse(named->name, std::move(described))) return;
  }
  if (named->portal && named->name.empty() && names_.portals.count("") == 0)
    close_unnamed_portal(event);
  forward_extended(
      event, {.request = named->portal ? Request::describe_portal : Request::describe_statement});
}

void PipelineRunner::on_bind(const Event& event) {
  std::string portal, statement;
  if (event.kind == Event::Kind::message) {
    const auto bind = pgwire::decode_bind(event.body);
    if (!bind) return line_.end("08P01", bind.problem().reason());
    portal = bind->portal;
    statement = bind->statement;
  } else {
    const auto names = pgwire::decode_bind_names(event.body);
    if (!names) return line_.end("08P01", names.problem().reason());
    portal = names->portal;
    statement = names->statement;
  }
  const Known* prepared = names_.known(statement);
  group_begins(prepared != nullptr &&
               (!prepared->declared.empty() || prepared->effects.has(Effect::only_declares)));
  if (seating_.passes_under_seat() && !seating_.passes_seated(prepared)) group_begins(true);
  model_.follows(Step::parses, statement);
  if (pipeline_.discarded)
    return refusals_.refuse(Act::refuse_discard, {},
                            {});  // a Bind plans, and planning runs functions
  if (is_reserved(statement) || is_reserved(portal)) {
    line_.client_parts = Line::Parts::drop;
    return refusals_.refuse_reserved();
  }
  const Known* known = names_.known(statement);
  Known bound;
  if (known != nullptr) bound = *known;
  else bound.effects = effects_of_unknown();
  // If the server would now read the text differently from how it was judged, it is unknown.
  if (bound.again && bound.read) {
    const Reading now{.strings = texts_.settings.standard_conforming_strings,
                      .encoding = texts_.reported.encoding,
                      .ascii_safe = texts_.settings.ascii_safe_encoding};
    if (reads_otherwise(*bound.again, *bound.read, now))
      bound = Known{.effects = effects_of_unknown()};
  }
  bound.made = names_.portals_made;
  if (!may_be_another(portal) &&
      (names_.portals.size() < names_max || names_.portals.count(portal) != 0 || portal.empty()))
    names_.portals[portal] = bound;
  // A write is decided here already, so that its values go straight through, however many there
  // are.
  const Effects effects = judgement_.resolved(bound.effects, bound.executes);
  if (effects.way == Way::write || model_.tx.in_block || !event.last ||
      ahead_of(effects, Step::plans) != Does::quiet) {
    guard_group(effects, bound, Step::plans, event.last);
    if (line_.stage != Stage::ready) return;
  }
  if (pipeline_.goes == Goes::held && !event.last) commit_to_group();
  if (pipeline_.refused()) {
    line_.client_parts = Line::Parts::drop;
    return;
  }
  pipeline_.acted_here |= may_run_code(effects);  // a Bind plans, and planning runs functions
  pipeline_.planned |= may_run_code(effects) && effects.way != Effects::Way::alone;
  const bool writable = model_.tx.in_block && judgement_.may_write();
  if (judgement_.shown_of(effects) == Shows::own && claims_.active() && !pipeline_.needs_hold)
    own_.look_at_own(pipeline_.direct() ? line_.server : pipeline_.held);
  if (bound.again)
    parse_again(event, statement, writable && bound.as_it_is ? *bound.as_it_is : *bound.again);
  pipeline_.just_parsed.reset();
  pipeline_.snapshot_here |= effects.has(Effect::takes_snapshot);
  model_.tx.ahead.reset();
  if (ahead_of(effects, Step::plans) != Does::quiet && !model_.tx.failed)
    model_.ran_ahead(Step::plans, portal, effects, judgement_.claim_for(bound).named);
  forward_extended(event, {.request = Request::bind, .read_hash = bound.hash, .text = portal});
}

// The client has no unnamed portal, but the proxy's own check, sent before this message, may have
// left one. It is closed, so that the server reports a missing portal, as without the proxy.
void PipelineRunner::close_unnamed_portal(const Event& event) {
  std::string close;
  pgwire::append_close_portal(close, "");
  Event other = event;
  other.last = true;
  other.frame = close;
  forward_extended(other, {.request = Request::close, .hidden = true});
}

// Lets the server report a missing portal or statement before a check reports anything.
void PipelineRunner::ask_whether_there(const Event& event, Request what, std::string_view name) {
  std::string describe;
  if (what == Request::describe_portal) pgwire::append_describe_portal(describe, name);
  else pgwire::append_describe_statement(describe, cut(name));
  Event other = event;
  other.last = true;
  other.frame = describe;
  forward_extended(other, {.request = what, .hidden = true});
}

// Replaces the server's prepared statement by the text that was judged: Close, then Parse of the
// same name, both hidden from the client. The client's code may have dropped the name and prepared
// another text under it, which the proxy would not have seen.
void PipelineRunner::parse_again(const Event& event, std::string_view name,
                                 std::string_view parse) {
  if (!claims_.active() || model_.tx.failed || pipeline_.needs_hold) return;
  std::string close;
  pgwire::append_close_statement(close, name);
  Event other = event;
  other.last = true;
  other.frame = close;
  forward_extended(other, {.request = Request::close, .hidden = true});
  other.frame = parse;
  forward_extended(other,
                   {.request = Request::parse, .hidden = true, .text = std::string(cut(name))});
}

// The last point at which a portal is decided about. What was recorded at its Bind counts only if
// no code has run since that could have opened a cursor of the same name (`made`).
void PipelineRunner::on_execute(const Event& event) {
  const auto execute = pgwire::decode_execute(event.body);
  if (!execute) return line_.end("08P01", execute.problem().reason());
  group_begins();
  if (is_reserved(execute->portal)) return refusals_.refuse_reserved();
  const auto found = names_.portals.find(execute->portal);
  Known known;
  const bool bound = found != names_.portals.end();
  if (bound) known = found->second;
  else known.effects = effects_of_unknown();
  Effects effects = judgement_.resolved(known.effects, known.executes);
  judgement_.learn_from_refusals(effects, known.hash);
  if (known.made != names_.portals_made) {
    // A cursor may have taken the portal's name since.
    if (effects.way == Way::read || effects.way == Way::write || effects.kind == Kind::fetch)
      effects.set(Effect::calls_functions | Effect::calls_unknown | Effect::changes_declaration);
    else if (effects.way != Way::alone) effects = effects_of_unknown();
    effects.clear(Effect::own_check | Effect::own_check_passes);
  }
  if (seating_.passes_under_seat() && !seating_.passes_seated(bound ? &known : nullptr))
    group_begins(true);
  pipeline_.just_parsed.reset();
  model_.follows(Step::plans, execute->portal);
  if (claims_.active() && !model_.tx.failed) {
    if (!bound && execute->portal.empty()) close_unnamed_portal(event);
    if (!bound) ask_whether_there(event, Request::describe_portal, execute->portal);
    else if (!known.executes.empty() && names_.known(known.executes) == nullptr)
      ask_whether_there(event, Request::describe_statement, known.executes);
  }
  guard_group(effects, known, Step::runs, true);
  if (line_.stage != Stage::ready || pipeline_.refused()) return;
  pipeline_.executed = pipeline_.executed_here = true;
  pipeline_.acted_here |= may_run_code(effects);
  const Shows shows = claims_.active() ? judgement_.shown_of(effects) : Shows::none;
  forward_extended(event, {.request = Request::execute,
                           .change = change_of(effects),
                           .read_hash = known.hash,
                           .shows = shows});

  const bool was_block = model_.tx.in_block;
  carrier_.note_sent(effects, judgement_.claim_for(known).named);
  // If an earlier message fails, the server skips this one and stays in the same transaction. So
  // what follows the Sync waits for the answer.
  if (effects.kind == Kind::commit || effects.kind == Kind::rollback ||
      effects.kind == Kind::prepare_transaction) {
    texts_.outstanding.wait_for_all = true;
    names_.portals.erase("");
  }
  if (model_.by_default.broken && !model_.by_default.reported) pipeline_.suspect = true;
  if (!claims_.active() || pipeline_.needs_hold) return;
  if (model_.tx.in_block && !was_block && !pipeline_.direct()) {
    // The rest of the group is in the client's block, and so is what was read before it: the lock
    // belongs ahead of that.
    held_.lock_group();
    held_.flush_group();
    pipeline_.go_direct();
  } else if (!model_.tx.in_block &&
             (was_block || (pipeline_.direct() &&
                            (effects.kind == Kind::commit || effects.kind == Kind::rollback ||
                             effects.kind == Kind::prepare_transaction)))) {
    // After its COMMIT another implicit transaction begins.
    pipeline_.goes = Goes::held;
    pipeline_.transaction_ended();
    pipeline_.opening_possible = true;
  } else if (!pipeline_.direct() && effects.way == Way::control) {
    held_.lock_group();
    pipeline_.transaction_ended();
    pipeline_.beginning = pipeline_.held.end();
  }
}

// In the protocol a Close of an unknown name is not an error, so it is forwarded like any other.
void PipelineRunner::on_close(const Event& event) {
  const auto named = pgwire::decode_close(event.body);
  if (!named) return line_.end("08P01", named.problem().reason());
  group_begins();
  if (is_reserved(named->name)) return refusals_.refuse_reserved();
  if (named->portal) {
    names_.portals.erase(std::string(named->name));
  } else {
    names_.statements.erase(std::string(cut(named->name)));
  }
  forward_extended(event, {.request = Request::close});
}

void PipelineRunner::on_flush() {
  group_begins();
  send_held();
}

// The client wants answers now, so what is held must be decided and sent, though its group is not
// complete.
void PipelineRunner::send_held() {
  commit_to_group(true);
  if (pipeline_.refused()) return;
  pgwire::append_bare(line_.server.bytes.back(), pgwire::frontend::flush);
  pipeline_.sent = pipeline_.touched_server = true;
}

// The end of the group. For a refused group the ReadyForQuery is made here. A group that needs a
// lock at session level waits for it in the session's SessionLock. Any other is sent with what the
// decision puts around it.
bool PipelineRunner::on_sync() {
  group_begins();
  if (pipeline_.refused()) {
    PendingReply reply{.request = Request::nothing};
    pgwire::append_ready_for_query(reply.text, pgwire::TransactionStatus::idle);
    pipeline_ = Pipeline();
    line_.server.replies.push(std::move(reply));
    line_.router.give_made_replies();
    return line_.server.replies.empty();
  }
  if (pipeline_.needs_hold) {
    lone_.run_held(pipeline_);
    return false;
  }
  if (!pipeline_.direct()) {
    held_.lock_reads();
    held_.flush_group();
  }
  // What was held may have run code, in a session that is not READ ONLY yet.
  if (!model_.tx.in_block && claims_.active()) carrier_.add_before_commit();
  if (!model_.tx.in_block) names_.portals.erase("");
  own_.add_client_sync();
  pipeline_ = Pipeline();
  // After own_.add_client_sync(): the implicit transaction ends with this Sync, not before.
  model_.end_implicit();
  return false;
}

// Sends the client's next message to the server, or holds it until it is known what the group does.
void PipelineRunner::forward_extended(const Event& event, PendingReply reply) {
  if (!pipeline_.direct() && event.last) {
    pipeline_.held.add(event.frame, std::move(reply));
    if (pipeline_.held.bytes.size() > line_.options.held_bytes_max) commit_to_group();
    return;
  }
  pipeline_.sent = true;
  pipeline_.touched_server |=
      reply.request != Request::close;  // a Close begins nothing and cannot fail
  pipeline_.bound |= reply.request == Request::bind;
  line_.client_mid_frame = !event.last;
  line_.server.add(event.frame, std::move(reply));
}

}  // namespace termgate::pg_session
