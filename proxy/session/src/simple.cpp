// Simple queries: one statement by the rows of docs/decisions/0006; a text of several goes to script.cpp. And the fast path for functions, which is
// as simple as they are.
#include "state.hpp"

namespace termgate::session {

using pgwire::Event;
using statements::Access;
using statements::Kind;
using Way = Effects::Way;

namespace {

// Parse would ask for the value of a parameter where a simple query reports that there is none.
bool has_parameter(std::string_view sql) noexcept {
  for (std::size_t at = sql.find('$'); at != std::string_view::npos && at + 1 < sql.size(); at = sql.find('$', at + 1)) {
    if (sql[at + 1] >= '0' && sql[at + 1] <= '9') return true;
  }
  return false;
}

}  // namespace

void Session::State::on_query(std::string_view sql) {
  if (group_.begun) {
    // In a block as pgjdbc does it for its savepoints; outside of one, behind messages of ours, 18 would lose the client's work.
    if (!tx_.in_block) return end("0A000", "Termgate takes no simple query before the Sync of an extended one, but in a transaction block");
    group_ = Group();
  }
  unit_begins();
  statements_.erase("");
  portals_.erase("");
  const Text text = classified(sql);
  Claim claim = claim_of(text.get());
  if (names_ours(*text)) return refuse_reserved();
  if (text->statements.size() == 1 || !active()) {
    Effects effects = resolved(effects_of(*text, sql), text.get());
    if (!active()) {
      observe(effects, claim);
      note_sent(effects);
      return run_plain_query(sql, Role::client, change_of(effects));
    }
    run_statement(sql, effects, claim, *text);
    return;
  }
  start_script(sql, text, claim);
}

void Session::State::run_statement(std::string_view sql, Effects effects, const Claim& claim, const statements::Classified& text) {
  if (tx_.failed) {
    note_sent(effects);
    return effects.kind == Kind::unparsable ? run_converted(sql, false) : run_plain_query(sql, Role::client, change_of(effects));
  }
  if (effects.kind == Kind::show && answer_show(text.statements.front())) return;
  if (effects.way == Way::read && known_writer(sql)) effects.way = Way::write;
  std::string rewritten;
  if (ours_to_keep(effects) && effects.access != Access::read_only) {
    rewritten = without_read_write(sql, effects);
    sql = rewritten;
  }
  const bool only_reads = tx_.in_block ? tx_.client_read_only && !tx_.writable : default_.believed;
  if (effects.kind == Kind::unparsable && (only_reads || !may_speak())) {
    return refuse_if_it_parses(sql, "TG002", only_reads ? "TG002 Termgate cannot read this statement, and READ ONLY may not stop it" : "TG002 no term declared, and Termgate cannot read this statement");
  }
  if (tx_.in_block) {
    const bool added = guard_block(effects, claim, true);
    if (tx_.failed) return;  // refused
    if (added) add_sync(Role::silent);
    note_sent(effects);
    if (effects.kind == Kind::unparsable) return run_converted(sql, false);
    return run_plain_query(sql, Role::client, change_of(effects));
  }

  switch (effects.way) {
    case Way::neutral:
    case Way::control:
      if (effects.kind == Kind::begin && may_speak() && claim.problem.empty() && !refused_from_memory(claim)) raise_in_advance(claim.pair);
      note_sent(effects);
      return run_plain_query(sql, Role::client, change_of(effects));
    case Way::read:
      if (default_.believed) {
        note_sent(effects);  // its functions may change the session's default all the same
        return run_plain_query(sql);
      }
      again_ = Again();
      again_.possible = sql.size() <= options_.held_bytes_max && !script_.running;
      if (again_.possible) again_.bytes = sql;
      else again_.hash = hash_of(sql);
      again_.claim = claim;
      note_sent(effects);
      return run_plain_query(sql);
    case Way::write:
    case Way::alone: break;
  }
  if (default_.believed) {
    if (effects.kind == Kind::call || effects.kind == Kind::do_block) {
      // In a frame, where it cannot end the transaction and begin another that writes.
      return start_script(sql, std::make_shared<statements::Classified>(text), claim);
    }
    if (!left_to_read_only(effects)) return;
    note_sent(effects);
    return run_plain_query(sql);
  }
  if (effects.kind == Kind::lock_table && !script_.running) return run_plain_query(sql);  // an error outside of a block, which a pipeline would hide on 18
  const bool own_check = effects.own_check && !final_rule();
  if (!own_check && !claim.problem.empty()) return refuse_claim(claim);
  if (const Refusal refusal = own_check ? refusal_of_own(effects) : refusal_from_memory(claim)) return refuse_from_memory(refusal, claim.pair);
  if (effects.way == Way::alone && !script_.running) {
    if (effects.unlocks) return refuse("0A000", "Termgate cannot run this: it names pg_advisory_unlock, and would give up the lock that fences it", "");
    hold_ = Hold();
    hold_.waiting = sql;
    hold_.effects = effects;
    return hold(claim.pair);
  }
  if (!own_check) raise_in_advance(claim.pair);
  if (effects.kind == Kind::unparsable || (text.single && !effects.is_copy_in && !has_parameter(sql))) {
    add_opening(claim.pair, !own_check);
    note_sent(effects);
    return run_converted(sql, false);
  }
  Text copy = std::make_shared<statements::Classified>(text);
  start_script(sql, copy, claim);
}

// What the client believes, not what its server session was made to be.
bool Session::State::answer_show(const statements::Statement& statement) {
  const bool by_default = statement.name == "default_transaction_read_only";
  if (!by_default && statement.name != "transaction_read_only") return false;
  const bool read_only = by_default ? default_.believed : tx_.in_block ? tx_.client_read_only : default_.believed;
  const pgwire::Column column{.name = by_default ? "default_transaction_read_only" : "transaction_read_only"};
  const pgwire::Field value = read_only ? "on" : "off";
  pgwire::append_row_description(to_client_.back(), std::span(&column, 1));
  pgwire::append_data_row(to_client_.back(), std::span(&value, 1));
  pgwire::append_command_complete(to_client_.back(), "SHOW");
  if (!script_.running) pgwire::append_ready_for_query(to_client_.back(), status_);
  return true;
}

// The fast path of libpq: large objects, and whatever function a client names. What only reads large objects may pass.
void Session::State::on_function_call(const Event& event) {
  const auto head = pgwire::decode_function_call_head(event.body);
  if (!head) return end("08P01", head.problem().reason());
  if (group_.begun) {
    if (!tx_.in_block) return end("0A000", "Termgate takes no function call before the Sync of an extended query, but in a transaction block");
    group_ = Group();
  }
  unit_begins();
  Effects effects;
  effects.kind = Kind::write;
  effects.read_only_hole = effects.calls_functions = true;
  switch (head->function_oid) {
    case 953:   // lo_close
    case 954:   // loread
    case 956:   // lo_lseek
    case 958:   // lo_tell
    case 3170:  // lo_lseek64
    case 3171:  // lo_tell64
      effects.way = Way::read;
      break;
    case 952:  // lo_open: for writing where the second of its two arguments has 0x20000
      effects.way = opens_for_reading(event.body) ? Way::read : Way::write;
      break;
    default: break;
  }
  const Claim claim = claim_of(nullptr);
  Expected expected;
  expected.asked = Asked::function_call;
  observe(effects, claim);
  if (active() && !tx_.failed) {
    if (!tx_.in_block && effects.way == Way::write) {
      client_parts_ = Parts::drop;
      report_refusal("TG002", "TG002 a function call outside of a transaction block", claim.pair, 0, true);
      return refuse(claim.problem.empty() ? "TG002" : claim.code, "TG002 a fast-path function call that may write must stand in a transaction block", "");
    }
    if (tx_.in_block) {
      const bool added = guard_block(effects, claim, true);
      if (tx_.failed) {
        client_parts_ = Parts::drop;
        return;
      }
      if (added) add_sync(Role::silent);
    }
  }
  note_sent(effects);
  to_server_.back() += event.frame;
  client_mid_frame_ = !event.last;
  answers_.push(std::move(expected));
}

// FunctionCall: OID, argument formats, arguments; lo_open(oid, mode).
bool Session::State::opens_for_reading(std::string_view body) noexcept {
  const auto u16 = [&](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(body[at])) << 8 | static_cast<unsigned char>(body[at + 1]); };
  if (body.size() < 6) return false;
  const unsigned formats = u16(4);
  std::size_t at = 6 + 2 * static_cast<std::size_t>(formats);
  if (formats != 1 || u16(6) != 1 || body.size() != at + 2 + 8 + 8 + 2 || u16(at) != 2) return false;
  at += 2;
  const auto u32 = [&](std::size_t from) { return u16(from) << 16 | u16(from + 2); };
  if (u32(at) != 4 || u32(at + 8) != 4) return false;
  return (u32(at + 12) & 0x20000u) == 0;
}

}  // namespace termgate::session
