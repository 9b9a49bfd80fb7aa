#include "seating.hpp"

#include <algorithm>
#include <array>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/types.hpp>

#include "names.hpp"

namespace termgate::pg_session {

using statements::Kind;
using Way = Effects::Way;
namespace frontend = pgwire::frontend;

bool Seating::at_rest() const noexcept {
  return line_.stage == Stage::ready && line_.server.replies.empty() && !pipeline_.begun() &&
         !line_.client_mid_frame && !script_.running &&
         session_lock_.stage == SessionLock::Stage::none &&
         model_.status == pgwire::TransactionStatus::idle && !model_.tx.in_block &&
         !login_.keeps_ready();
}

// Between two transactions: gives the seat back, checks what the session declares, or takes a seat,
// if one of these is due.
void Seating::mind_seat() {
  if (!at_rest()) return;
  if (seat_.due(line_.now)) return stand();
  if (seat_.to_be_looked_at(line_.now)) return look_at_seat();
  if (!seat_.may_be_wished(line_.now)) return;
  const Claim claim = judgement_.claim_of(nullptr);
  const SeatOffer offer = line_.host.seat_offer();
  if (offer.secret.empty() || !claim.certain || !seat_.wished(claim.pair, offer.checks, line_.now))
    return;
  if (judgement_.standing_of(claim) != Standing::current || !claims_.guards() ||
      line_.options.server_pooler || facts_.standby() || line_.draining || model_.by_default.own ||
      model_.by_default.believed != Mode::servers || !judgement_.is_known_by(claim.pair.scope))
    return;
  sit(claim.pair, offer);
}

// Takes a seat in a transaction of its own, like a raise in advance. Nothing else is sent before it
// is answered.
void Seating::sit(const ScopedTerm& pair, const SeatOffer& offer) {
  own_.run(line_.server, ProxyStatement::writable, Purpose::seat);
  // If the server's own default is READ ONLY, there is no seat.
  own_.run(line_.server, ProxyStatement::own_mode, Purpose::seat);
  const std::string term = std::to_string(pair.term);
  const std::array<pgwire::Field, 3> values{pgwire::Field(pair.scope), pgwire::Field(term),
                                            pgwire::Field(offer.secret)};
  own_.run(line_.server, ProxyStatement::sit, Purpose::seat, values);
  own_.add_sync(Purpose::seat);
  seat_.asks(pair, offer, line_.now);
  texts_.outstanding.wait_for_all = true;
}

void Seating::stand() {
  own_.run(line_.server, ProxyStatement::writable, Purpose::seat);
  own_.stand_here(line_.server, Purpose::seat);
  own_.add_sync(Purpose::seat);
  seat_.leaves();
  texts_.outstanding.wait_for_all = true;
}

void Seating::look_at_seat() {
  const Claim claim = judgement_.claim_of(nullptr);
  seat_.looks(line_.now);
  own_.add_check(line_.server, claim, Purpose::seat);
  own_.add_sync(Purpose::seat);
}

// Whether a statement may pass to the server under the seat, as far as its own text shows. What it
// runs unseen (a trigger, a view, a function) neither declares nor raises: a database with code of
// its own that mentions Termgate has no seats here (docs/decisions/0026).
bool Seating::passes_seated(const Effects& effects) const noexcept {
  if (effects.has(Effect::calls_unknown) && seat_.runs_any_text()) return false;
  if (effects.way == Way::alone ||
      effects.has(Effect::declares | Effect::own_check | Effect::sets_default_access))
    return false;
  // These change at most the access mode of this transaction: the server's own default, READ WRITE,
  // remains.
  if (effects.way == Way::control || effects.has(Effect::sets_access)) return true;
  if (effects.has(Effect::unsettles) ||
      (effects.has(Effect::changes_declaration) && !effects.has(Effect::calls_unknown)))
    return false;
  switch (effects.kind) {
    case Kind::unparsable:
    case Kind::prepare_transaction:
    case Kind::call:
    case Kind::do_block:
    case Kind::discard:  // DISCARD SEQUENCES takes away what proves the seat to the triggers of
                         // protect
    case Kind::discard_all:
    case Kind::reset_all: return false;
    default: return true;
  }
}

bool Seating::passes_seated(const statements::Classified& text, std::string_view sql) const {
  return !judgement_.declares(text) &&
         std::all_of(text.statements.begin(), text.statements.end(),
                     [&](const statements::Statement& statement) {
                       return passes_seated(effects_of(statement, sql), statement.name);
                     });
}

// EXECUTE has the effects of what it runs, under the claim in the comments there.
bool Seating::passes_seated(const Effects& effects, std::string_view executes) const {
  if (!effects.has(Effect::runs_prepared))
    return passes_seated(judgement_.resolved(effects, executes));
  const Known* prepared = names_.known(executes);
  return prepared != nullptr && prepared->declared.empty() &&
         passes_seated(judgement_.resolved(effects, executes));
}

bool Seating::passes_seated(const Known* known) const {
  return known != nullptr && known->declared.empty() &&
         passes_seated(known->effects, known->executes);
}

// The client's transaction continues or begins with something that the seat does not cover.
void Seating::leave_seat() {
  claims_.hand_over(false);
  seat_.not_for_a_while(line_.now);
}

bool Seating::passes_under_seat() const noexcept { return seat_.held() && claims_.handed_over(); }

// Whether the claim in force is that of the seat, and no remembered fence refuses it.
bool Seating::seat_covers() const {
  const Claim claim = judgement_.claim_of(nullptr);
  return claim.certain && seat_.may_pass(claim.pair) &&
         judgement_.standing_of(claim) == Standing::current;
}

// Classifies the text of a message that scripts_.on_query() or pipelines_.on_parse() judges right
// after this, or that Passage passes on.
const Text& Seating::peek(std::string_view sql) {
  if (!has_peeked(sql)) peeked_ = {sql.data(), judgement_.classified(sql)};
  return peeked_.text;
}

// True: the seat is given back first, and this message, which would begin a transaction, waits
// until that is answered.
bool Seating::stands_before(const pgwire::Event& event) {
  if (!seat_.held() || !event.first || event.type == frontend::terminate || !at_rest())
    return false;
  claims_.transaction_begins();
  bool passes = seat_covers();
  if (passes && event.type == frontend::query) {
    const auto query = pgwire::decode_query(event.body);
    passes = !query || passes_seated(*peek(query->sql), query->sql);
  } else if (passes && event.type == frontend::parse) {
    const auto parse = pgwire::decode_parse(event.body);
    passes = !parse || passes_seated(*peek(parse->sql), parse->sql);
  } else if (passes && event.type == frontend::bind) {
    const auto names = pgwire::decode_bind_names(event.body);
    passes = !names || passes_seated(names_.known(names->statement));
  } else if (passes) {
    passes = event.type != frontend::function_call;
  }
  if (passes) return false;
  peeked_ = {};
  seat_.not_for_a_while(line_.now);
  if (!seat_.due(line_.now)) return false;
  stand();
  return true;
}

// Called ahead of what is, or may be, a PREPARE TRANSACTION. Writes under the seat have taken no
// lock, and a raise could not wait for the session of a prepared transaction. So the transaction
// passes a check that takes the lock and looks for no seat. A transaction that has given the seat
// back (`stood`) would keep the row of the seat locked while it is prepared, and is refused. True:
// the proxy added a message.
bool Seating::lock_what_was_seated() {
  if (!seat_.held()) return false;
  if (model_.tx.stood) {
    refusals_.refuse("0A000",
                     "Termgate cannot prepare this transaction, which has declared another term of "
                     "its scope: begin it again",
                     "");
    return false;
  }
  own_.run(line_.server, ProxyStatement::unseat, Purpose::mode);
  own_.checks(seat_.pair(), true);
  const std::string term = std::to_string(seat_.pair().term);
  const std::array<pgwire::Field, 4> values{pgwire::Field(seat_.pair().scope), pgwire::Field(term),
                                            pgwire::Field(), pgwire::Field()};
  own_.run(line_.server, ProxyStatement::check, Purpose::check, values);
  return true;
}

void Seating::seat_settled() {
  seat_.settled(line_.now);
  claims_.seated(seat_.held());
  line_.host.holds_gate(seat_.held() ? std::string_view(seat_.pair().scope) : std::string_view());
}

void Seating::not_given(std::string_view code, std::string_view why) {
  line_.host.happened({.kind = Incident::Kind::no_seat,
                       .scope = seat_.pair().scope,
                       .term = seat_.pair().term,
                       .code = code,
                       .message = why});
}

// A raise waits for the seat, or it is not known whether one does.
void Seating::gate_wanted(std::string_view scope) {
  if (!seat_.held() || scope != seat_.pair().scope) return;
  seat_.want();
  mind_seat();
}

void Seating::unit_begins() {
  if (model_.status != pgwire::TransactionStatus::idle || model_.tx.in_block || model_.tx.writable)
    return;
  claims_.transaction_begins();
  hand_over();
}

// Hands the next transaction over where the session's seat covers it; or to a server that guards
// the session, unless its term may be above the fence, is below it, or was declared in the client's
// own text and is not known yet. Only the server knows what code has declared. If it finds a term
// above the fence there, the proxy handles the session until its check has raised the fence.
void Seating::hand_over() {
  if (seat_.held()) {
    claims_.hand_over(seat_covers());
    return seat_.used(line_.now);
  }
  if (!claims_.server_guarded()) return;
  const Claim claim = judgement_.claim_of(nullptr);
  const Standing standing = judgement_.standing_of(claim);
  const bool raised =
      standing == Standing::current && judgement_.fence_of(claim.pair.scope) >= claim.pair.term;
  const bool servers = raised || (standing == Standing::none && claim.pair.empty()) ||
                       (standing == Standing::uncertain && !claims_.declared_by_its_text());
  claims_.hand_over(servers && !claims_.to_be_raised());
}

}  // namespace termgate::pg_session
