// What the client says, and what is decided of it.
#include <algorithm>
#include <cassert>
#include <functional>

#include "state.hpp"

namespace termgate::session {

namespace frontend = pgwire::frontend;
using pgwire::Event;
using statements::Access;
using statements::Kind;
using Way = Effects::Way;

namespace {

// A client that keeps more prepared statements than this has those beyond counted as unknown, hence as writes.
constexpr std::size_t names_max = 20'000;
constexpr std::size_t writers_max = 256;
// The server cuts names there (NAMEDATALEN).
std::string_view cut(std::string_view name) noexcept { return name.substr(0, 63); }

// Parse would ask for the value of a parameter where a simple query reports that there is none.
bool has_parameter(std::string_view sql) noexcept {
  for (std::size_t at = sql.find('$'); at != std::string_view::npos && at + 1 < sql.size(); at = sql.find('$', at + 1)) {
    if (sql[at + 1] >= '0' && sql[at + 1] <= '9') return true;
  }
  return false;
}

// Names of statements and portals that are ours.
bool is_reserved(std::string_view name) noexcept { return name.starts_with("_termgate"); }

// The codec knows the bound, not what the operator calls it.
std::string naming_the_limit(std::string_view reason) {
  std::string result(reason);
  if (reason.find("are allowed") == std::string_view::npos) return result;
  const bool statement = reason.find("0x51") != std::string_view::npos || reason.find("0x50") != std::string_view::npos;
  return result + (statement ? " (--max-statement-bytes)" : " (--max-message-bytes)");
}

bool ours_to_keep(const Effects& effects) noexcept { return effects.sets_access || effects.sets_default_access; }

}  // namespace

// --- bytes ---

void Session::State::from_client(std::string_view bytes) {
  switch (stage_) {
    case Stage::greeting: return greet(bytes);
    case Stage::replication: to_server_.back() += bytes; return;
    case Stage::closing:
    case Stage::closed: return;
    case Stage::client_tls:
    case Stage::admitting:
    case Stage::connecting:
    case Stage::server_greeting:
    case Stage::server_tls: client_in_ += bytes; return;
    case Stage::login:
    case Stage::ready: break;
  }
  if (client_in_.empty()) {
    const std::size_t used = look_at(bytes);
    client_in_.append(bytes.substr(used));
  } else {
    client_in_.append(bytes);
    pump();
  }
}

void Session::State::pump() {
  if (stage_ != Stage::ready && stage_ != Stage::login) return;
  if (deferred_ && !blocked_but_for_deferred() && !must_wait(deferred_->type)) {
    const Deferred message = std::move(*deferred_);
    deferred_.reset();
    Event event;
    event.kind = message.whole ? Event::Kind::message : Event::Kind::part;
    event.type = message.type;
    event.body_bytes = message.body_bytes;
    event.first = true;
    event.last = message.last;
    event.frame = message.frame;
    event.body = event.frame.substr(5);
    client_event(event);
  }
  if (client_in_.empty()) return;
  const std::string bytes = std::move(client_in_);
  client_in_ = std::string();
  const std::size_t used = look_at(bytes);
  // What look_at() left comes before whatever was added meanwhile.
  if (used < bytes.size()) client_in_.insert(0, bytes, used);
}

bool Session::State::blocked_but_for_deferred() const noexcept {
  if (in_copy_in_ || client_mid_frame_) return false;
  return script_.running || hold_.stage != Hold::Stage::none || again_.wanted;
}

bool Session::State::blocked() const noexcept { return deferred_.has_value() || blocked_but_for_deferred(); }

bool Session::State::must_wait(char type) const noexcept {
  if (stage_ != Stage::ready) return false;
  if (answers_.empty()) return group_.begun && !group_.held.empty() && (type == frontend::query || type == frontend::function_call);
  switch (type) {
    case frontend::query:
    case frontend::function_call: return true;
    case frontend::parse:
    case frontend::bind:
    case frontend::execute:
    case frontend::describe:
    case frontend::close:
    case frontend::sync:
    case frontend::flush: return !group_.begun && wait_for_all_;
    default: return false;
  }
}

std::size_t Session::State::look_at(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && !blocked() && (stage_ == Stage::ready || stage_ == Stage::login)) {
    const Event event = client_reader_.next(bytes.substr(used));
    used += event.used;
    switch (event.kind) {
      case Event::Kind::need_more: return bytes.size();
      case Event::Kind::announced: break;
      case Event::Kind::malformed:
        surroundings_.happened({.kind = Incident::Kind::malformed, .message = event.problem.reason()});
        end(event.problem.sqlstate, naming_the_limit(event.problem.reason()));
        return bytes.size();
      case Event::Kind::message:
      case Event::Kind::part:
        if (in_copy_in_ && event.type == frontend::query) {
          end("08P01", "unexpected message type 0x51 during COPY from stdin");
        } else if (stage_ == Stage::login) {
          login_from_client(event);
        } else if (event.first && !group_.refused && !server_skips_ && must_wait(event.type)) {
          if (group_.begun && (event.type == frontend::query || event.type == frontend::function_call)) {
            // Without a Sync the server keeps its answers to itself. What is held goes as it does before a Flush of the client's.
            commit_to_group();
            if (group_.refused) {
              client_event(event);
              break;
            }
            pgwire::append_bare(to_server_.back(), frontend::flush);
            group_.touched_server = true;
          }
          deferred_ = Deferred{std::string(event.frame), event.type, event.body_bytes, event.last, event.kind == Event::Kind::message};
        } else {
          client_event(event);
          if (event.type == frontend::copy_data && event.last && client_parts_ == Parts::send && !group_.refused && stage_ == Stage::ready && !blocked()) {
            const std::string_view data = client_reader_.run_of(frontend::copy_data, bytes.substr(used));
            to_server_.back() += data;
            used += data.size();
          }
        }
        break;
    }
  }
  return used;
}

void Session::State::client_event(const Event& event) {
  if (!event.first) {
    if (client_parts_ == Parts::send) to_server_.back() += event.frame;
    if (event.last) {
      client_mid_frame_ = false;
      if (act_after_frame_) {
        act_after_frame_ = false;
        settle();
      }
    }
    return;
  }
  client_parts_ = Parts::send;
  if (group_.refused) {
    // As the server does after an error: everything up to Sync is skipped.
    if (event.type == frontend::sync) return on_sync(event);
    if (event.type == frontend::terminate) return close_all();
    client_parts_ = Parts::drop;
    return;
  }
  if (server_skips_) {
    if (event.type == frontend::sync) {
      server_skips_ = false;
      group_ = Group();
      group_.begun = group_.direct = true;
      return on_sync(event);
    }
    if (event.type == frontend::terminate) return close_all();
    client_parts_ = Parts::drop;
    return;
  }
  if (group_.needs_hold && (event.type == frontend::parse || event.type == frontend::bind || event.type == frontend::describe || event.type == frontend::execute)) {
    client_parts_ = Parts::drop;
    return refuse("0A000", "Termgate runs CALL, DO and what must run alone only as the one statement before a Sync", "");
  }
  if (in_copy_in_ && (event.type == frontend::sync || event.type == frontend::flush)) {
    // Swallowed by the server in the middle of a copy: nothing is owed for it.
    to_server_.back() += event.frame;
    return;
  }
  switch (event.type) {
    case frontend::query: {
      const auto query = pgwire::decode_query(event.body);
      if (!query) return end("08P01", query.problem().reason());
      return on_query(query->sql);
    }
    case frontend::parse: return on_parse(event);
    case frontend::bind: return on_bind(event);
    case frontend::execute: return on_execute(event);
    case frontend::describe: {
      const auto named = pgwire::decode_describe(event.body);
      if (!named) return end("08P01", named.problem().reason());
      group_begins();
      return forward_extended(event, named->portal ? Asked::describe_portal : Asked::describe_statement);
    }
    case frontend::close: return on_close(event);
    case frontend::sync: return on_sync(event);
    case frontend::flush: return on_flush(event);
    case frontend::function_call: return on_function_call(event);
    case frontend::copy_data:
      client_mid_frame_ = !event.last;
      to_server_.back() += event.frame;
      return;
    case frontend::copy_done:
    case frontend::copy_fail:
      if (!in_copy_in_ && !answers_.empty()) answers_.at(answers_.size() - 1).copy_ends = true;
      in_copy_in_ = false;
      to_server_.back() += event.frame;
      return;
    case frontend::terminate: return close_all();
    default: return end("08P01", "a password message outside of a login");
  }
}

// --- who may, and with what ---

// Under `allow` a session that has declared is held to it: what it hides from us must not write either.
bool Session::State::guards() const noexcept {
  return admission_.enforce == Enforce::on && !applicant_.replication && (admission_.without_term != WithoutTerm::allow || guarded_);
}
// The operator's word stands above what a function's arguments say.
bool Session::State::final_rule() const noexcept { return rule_ != nullptr && !admission_.overridable; }
bool Session::State::may_speak() const noexcept { return rule_ != nullptr || spoke_; }
bool Session::State::active() const noexcept { return admission_.enforce == Enforce::on && (admission_.without_term != WithoutTerm::allow || may_speak()); }

Text Session::State::classified(std::string_view sql) {
  settings_.schema = options_.schema;
  statements::Settings settings = settings_;
  // A function that runs yet may change how this is read.
  if (functions_outstanding_) settings.standard_conforming_strings = statements::ConformingStrings::unknown;
  if (unknown_outstanding_) settings.ascii_safe_encoding = false;
  Text text = surroundings_.statements().classify(sql, settings);
  if (!text->declared.empty()) spoke_ = true;
  for (const auto& statement : text->statements) {
    if (statements::is_declared_setting(statement.name)) spoke_ = true;
    if (statement.kind == Kind::deallocate && !statement.all) statements_.erase(std::string(cut(statement.name)));
  }
  return text;
}

bool Session::State::known_writer(std::string_view sql) const { return !writers_.empty() && std::find(writers_.begin(), writers_.end(), hash_of(sql)) != writers_.end(); }

void Session::State::remember_writer(std::string_view sql) { remember_writer_hash(hash_of(sql)); }

// Of the text without its numbers and strings: the same statement with other values is the same statement.
std::size_t Session::State::hash_of(std::string_view sql) noexcept {
  std::size_t hash = 14695981039346656037u;
  const auto add = [&](char letter) { hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u; };
  for (std::size_t at = 0; at < sql.size(); ++at) {
    if (sql[at] == '\'') {
      add('?');
      const std::size_t end = sql.find('\'', at + 1);
      if (end == std::string_view::npos) break;
      at = end;
    } else if (sql[at] >= '0' && sql[at] <= '9') {
      add('?');
      while (at + 1 < sql.size() && sql[at + 1] >= '0' && sql[at + 1] <= '9') ++at;
    } else {
      add(sql[at]);
    }
  }
  return hash | 1;
}

void Session::State::remember_writer_hash(std::size_t hash) {
  if (writers_.size() >= writers_max) writers_.erase(writers_.begin());
  writers_.push_back(hash);
}

Effects Session::State::resolved(Effects effects, const statements::Classified* text) const {
  if (effects.runs_prepared && text != nullptr) {
    const auto found = statements_.find(cut(text->statements.front().name));
    const bool explains = effects.kind == Kind::explain;
    effects = found == statements_.end() || found->second.effects.runs_prepared ? effects_of_unknown() : found->second.effects;
    if (explains && effects.way == Way::alone) effects.way = Way::write;
  }
  if (effects.way == Way::read && admission_.without_term == WithoutTerm::reject) effects.way = Way::write;
  return effects;
}

void Session::State::unit_begins() {
  if (!answers_.empty() || status_ != pgwire::TransactionStatus::idle) return;
  declaration_in_doubt_ = false;
  if (rule_ != nullptr && bound_.empty()) {
    const TermSource::Standing standing = rule_->now();
    if (standing.scope && standing.term) {
      bound_ = {standing.scope->name(), standing.term->value()};
    } else {
      why_not_ = standing.why_not;
      why_not_code_ = standing.problem_code;
    }
  }
}

Session::State::Claim Session::State::claim_of(const statements::Classified* text) {
  Claim claim;
  const auto none_by_rule = [&] {
    claim.code = why_not_code_.empty() ? "TG002" : why_not_code_;
    claim.problem = claim.code + " no term for a fenced write: " + (why_not_.empty() ? "the rule of this connection has none now" : why_not_);
  };
  if (rule_ != nullptr && !admission_.overridable) {
    claim.pair = bound_;
    claim.certain = bound_.complete();
    if (!claim.certain) none_by_rule();
    return claim;
  }
  if (known_certain_) claim.pair = known_;
  if (text != nullptr && !text->declared.empty()) {
    const statements::Declaration& declared = text->declared;
    if (!declared.problem.empty()) {
      claim.code = "TG005";
      claim.problem = declared.problem;
      return claim;
    }
    if (declared.scope) claim.pair.scope = declared.scope->name();
    if (declared.term) claim.pair.term = declared.term->value();
  } else if (claim.pair.empty() && known_certain_ && rule_ != nullptr) {
    claim.pair = bound_;
    if (bound_.empty()) none_by_rule();
  }
  claim.certain = claim.pair.complete();
  return claim;
}

bool Session::State::stale_in_memory(const Claim& claim) const { return claim.certain && surroundings_.highest_fence(claim.pair.scope) > claim.pair.term; }

// A name that stands for something already keeps standing for it where the PREPARE fails, so nothing is known of it then.
void Session::State::note_prepared(const Effects& effects) {
  if (effects.prepares.empty()) return;
  Known known{effects_of_unknown(), nullptr, 0};
  if (effects.prepares_read || effects.prepares_plain_write) {
    known.effects = Effects();
    known.effects.way = effects.prepares_read ? Way::read : Way::write;
    known.effects.kind = effects.prepares_read ? Kind::provably_read : Kind::write;
    known.effects.calls_functions = known.effects.changes_declaration = effects.prepares_calls;
  }
  const std::string name(cut(effects.prepares));
  const auto found = statements_.find(name);
  if (found != statements_.end()) {
    found->second = Known{effects_of_unknown(), nullptr, 0};
  } else if (statements_.size() < names_max) {
    statements_.emplace(name, known);
  }
}

void Session::State::note_sent(const Effects& effects) {
  note_prepared(effects);
  if (effects.unsettles) wait_for_all_ = true;
  if (effects.kind == Kind::unparsable || (effects.unsettles && effects.way == Way::neutral) || effects.kind == Kind::call || effects.kind == Kind::do_block) {
    settings_.standard_conforming_strings = statements::ConformingStrings::unknown;
  }
  // The end of a block takes back what was declared in it, and nothing else.
  const bool ends = effects.kind == Kind::commit || effects.kind == Kind::rollback || effects.kind == Kind::rollback_to || effects.kind == Kind::release;
  if (effects.changes_declaration && !ends && tx_.in_block) tx_.declared_inside = true;
  if (effects.changes_declaration && (!ends || tx_.declared_inside || effects.and_chain)) {
    known_certain_ = false;
    declaration_in_doubt_ = true;
    // What is in force for the next write is the session's to say.
    if (tx_.in_block && effects.way == Way::neutral) tx_.fenced = false;
  }
  if (effects.takes_snapshot) functions_outstanding_ = true;  // a view may hide them
  if (effects.calls_unknown || effects.kind == Kind::call || effects.kind == Kind::do_block) unknown_outstanding_ = true;
  if (effects.kind == Kind::unparsable) {
    // It may have been COMMIT AND CHAIN, or ROLLBACK TO: whatever lock there was may be gone.
    tx_.fenced = false;
    tx_.passed.clear();
    tx_.failed = false;  // nor is a failed block one still, for certain
    unread_outstanding_ = true;
  }
  // Code that we cannot see may have put something else in the place of ours.
  if (effects.calls_unknown || effects.kind == Kind::call || effects.kind == Kind::do_block || effects.kind == Kind::unparsable) prepared_.fill(false);
  if (!reports_default_ && guards() && tx_.suspect && (effects.kind == Kind::rollback || effects.kind == Kind::rollback_to)) default_broken_ = true;
  if (!reports_default_ && guards() && (effects.calls_functions || effects.way == Way::write || effects.way == Way::alone)) default_broken_ = tx_.suspect = true;
  if (effects.forgets_prepared) {
    statements_.clear();
    prepared_.fill(false);
  }
  if (effects.own_check_passes) tx_.fenced = true;
  if (effects.sets_default_access) {
    believed_read_only_ = effects.access == Access::read_only;
    // A pooler behind us may have kept our start-up parameter from the server, to which RESET and DISCARD come back.
    if (guards() && (effects.kind == Kind::reset || effects.kind == Kind::reset_all || effects.kind == Kind::discard_all)) default_broken_ = true;
  }
  switch (effects.kind) {
    case Kind::begin:
      if (!tx_.in_block) {
        tx_.in_block = true;
        tx_.client_read_only = effects.access == Access::read_only || (effects.access == Access::unspecified && believed_read_only_);
        believed_before_block_ = believed_read_only_;
      }
      break;
    case Kind::commit:
    case Kind::rollback: {
      if (effects.kind == Kind::rollback && tx_.in_block) believed_read_only_ = believed_before_block_;
      const bool chained = effects.and_chain && tx_.in_block;
      const Transaction before = tx_;
      tx_ = Transaction();
      if (chained) {
        // A chained transaction keeps its modes, writable among them, and has passed no check.
        tx_.in_block = true;
        tx_.writable = before.writable;
        tx_.client_read_only = before.client_read_only;
      }
      break;
    }
    case Kind::prepare_transaction: tx_ = Transaction(); break;
    case Kind::rollback_to:
      // The lock went with what was rolled back.
      tx_.fenced = false;
      tx_.failed = false;
      tx_.passed.clear();
      break;
    default:
      if (effects.sets_access && tx_.in_block && !tx_.writable) tx_.client_read_only = effects.access == Access::read_only;
      if (effects.takes_snapshot && tx_.in_block && !tx_.writable) tx_.snapshot = true;
      break;
  }
}

void Session::State::observe(const Effects& effects, const Claim& claim) {
  if (admission_.enforce != Enforce::observe || (effects.way != Way::write && effects.way != Way::alone) || tx_.failed) return;
  Incident incident;
  incident.kind = Incident::Kind::would_refuse;
  incident.scope = claim.pair.scope;
  incident.term = claim.pair.term;
  if (!claim.problem.empty()) {
    incident.code = claim.code;
    incident.message = claim.problem;
  } else if (!claim.pair.complete()) {
    if (!known_certain_ || effects.own_check) return;  // declared in a way that only the server knows
    incident.code = "TG002";
    incident.message = "TG002 no term declared for a write";
  } else {
    incident.fence = surroundings_.highest_fence(claim.pair.scope);
    if (incident.fence <= claim.pair.term) {
      surroundings_.saw_term(claim.pair.scope, claim.pair.term);
      return;
    }
    incident.code = "TG001";
    incident.message = "TG001 stale term";
  }
  surroundings_.happened(incident);
}

// --- in a block ---

bool Session::State::guard_block(const Effects& effects, const Claim& claim, bool runs) {
  if (effects.way == Way::control && effects.kind != Kind::savepoint) return false;
  if (!active() || tx_.failed) return false;
  const bool writes = (effects.way == Way::write || effects.way == Way::alone) && runs;
  if (tx_.client_read_only && !tx_.writable) {
    if (writes) left_to_read_only(effects);
    return false;
  }
  if (!writes && !effects.takes_snapshot && effects.kind != Kind::savepoint) return false;
  const bool own_check = effects.own_check && !final_rule();

  if (tx_.writable) {
    // Writable and without a check, after a ROLLBACK TO or a chain: not even a read is left to itself, for READ ONLY does not stop it.
    const bool named_elsewhere = writes && claim.certain && tx_.fenced && !tx_.passed.empty() && std::find(tx_.passed.begin(), tx_.passed.end(), claim.pair) == tx_.passed.end();
    if (tx_.fenced && !named_elsewhere) return false;
    if (own_check) return false;
    if (!claim.problem.empty()) return refuse_claim(claim), false;
    add_opening(claim.pair, true);
    return true;
  }
  if (writes) {
    if (!claim.problem.empty()) return refuse_claim(claim), false;
    add_opening(claim.pair, !own_check);
    return true;
  }
  // A transaction's access mode is fixed by its first snapshot and by its first savepoint, so one that may write later is opened before.
  if (may_speak() && !tx_.snapshot && claim.problem.empty() && !stale_in_memory(claim)) {
    add_opening(claim.pair, true);
    return true;
  }
  return false;
}

bool Session::State::left_to_read_only(const Effects& effects) {
  const bool code_of_the_clients = effects.kind == Kind::call || effects.kind == Kind::do_block;
  if (code_of_the_clients && tx_.in_block) return true;
  if (effects.way == Way::write && !effects.read_only_hole) return true;
  const std::string_view message = "TG002 this transaction is READ ONLY, which would not stop this statement: it needs a transaction that may write, a scope and a term";
  report_refusal("TG002", message, {}, 0, true);
  refuse("TG002", message, "");
  return false;
}

// PREPARE, EXECUTE, DEALLOCATE, DECLARE, CLOSE …: one of them could put something else in the place of our check.
bool Session::State::names_ours(const statements::Classified& text) noexcept {
  return std::any_of(text.statements.begin(), text.statements.end(), [](const statements::Statement& statement) { return is_reserved(statement.name); });
}

void Session::State::refuse_reserved() { refuse("42602", "names that begin with _termgate are Termgate's own", ""); }

void Session::State::refuse_claim(const Claim& claim) {
  report_refusal(claim.code, claim.problem, claim.pair, 0, true);
  refuse(claim.code, claim.problem, claim.hint);
}

// --- simple queries ---

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
      return run_plain_query(sql);
    }
    run_statement(sql, effects, claim, *text);
    return;
  }
  start_script(sql, text, claim);
}

void Session::State::run_statement(std::string_view sql, Effects effects, const Claim& claim, const statements::Classified& text) {
  if (tx_.failed) {
    note_sent(effects);
    return effects.kind == Kind::unparsable ? run_converted(sql, false) : run_plain_query(sql);
  }
  if (effects.kind == Kind::show && answer_show(text.statements.front())) return;
  if (effects.way == Way::read && known_writer(sql)) effects.way = Way::write;
  std::string rewritten;
  if (ours_to_keep(effects) && effects.access != Access::read_only) {
    rewritten = without_read_write(sql, effects);
    sql = rewritten;
  }
  const bool only_reads = tx_.in_block ? tx_.client_read_only && !tx_.writable : believed_read_only_;
  if (effects.kind == Kind::unparsable && (only_reads || !may_speak())) {
    return refuse_if_it_parses(sql, "TG002", only_reads ? "TG002 Termgate cannot read this statement, and READ ONLY may not stop it" : "TG002 no term declared, and Termgate cannot read this statement");
  }
  if (tx_.in_block) {
    const bool added = guard_block(effects, claim, true);
    if (tx_.failed) return;  // refused
    if (added) add_sync(Role::silent);
    note_sent(effects);
    if (effects.kind == Kind::unparsable) return run_converted(sql, false);
    return run_plain_query(sql);
  }

  switch (effects.way) {
    case Way::neutral:
    case Way::control:
      if (effects.kind == Kind::begin && may_speak() && claim.problem.empty() && !stale_in_memory(claim)) raise_in_advance(claim.pair);
      note_sent(effects);
      return run_plain_query(sql);
    case Way::read:
      if (believed_read_only_) {
        note_sent(effects);  // its functions may change the session's default all the same
        return run_plain_query(sql);
      }
      again_ = Again();
      again_.possible = sql.size() <= options_.held_bytes_max && !script_.running;
      if (again_.possible) again_.bytes = sql;
      again_.claim = claim;
      note_sent(effects);
      return run_plain_query(sql);
    case Way::write:
    case Way::alone: break;
  }
  if (believed_read_only_) {
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
  if (!own_check) {
    if (!claim.problem.empty()) return refuse_claim(claim);
    if (stale_in_memory(claim)) return refuse_stale(claim.pair, surroundings_.highest_fence(claim.pair.scope));
  }
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
  const bool read_only = by_default ? believed_read_only_ : tx_.in_block ? tx_.client_read_only : believed_read_only_;
  const pgwire::Column column{.name = by_default ? "default_transaction_read_only" : "transaction_read_only"};
  const pgwire::Field value = read_only ? "on" : "off";
  pgwire::append_row_description(to_client_.back(), std::span(&column, 1));
  pgwire::append_data_row(to_client_.back(), std::span(&value, 1));
  pgwire::append_command_complete(to_client_.back(), "SHOW");
  if (!script_.running) pgwire::append_ready_for_query(to_client_.back(), status_);
  return true;
}

// --- scripts ---

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
      if (effects.kind == Kind::commit || effects.kind == Kind::rollback) {
        if (script.frame) {
          // Our BEGIN keeps the server from saying it.
          pgwire::append_notice_response(to_client_.back(), pgwire::report("WARNING", "25P01", "there is no transaction in progress"));
        }
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
    if (!tx_.in_block && believed_read_only_) {
      add_hidden_query("BEGIN", Role::begin);
      script.frame = true;
      note_block_begun();
      tx_.client_read_only = true;
    } else if (!tx_.in_block) {
      const bool own = sum.own_check && !final_rule();
      if (!own && !script.claim.problem.empty()) return refuse_claim(script.claim), script_refused();
      if (!own && stale_in_memory(script.claim)) {
        const Pair pair = script.claim.pair;
        refuse_stale(pair, surroundings_.highest_fence(pair.scope));
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
    case Kind::prepare_transaction: what = "PREPARE TRANSACTION"; break;
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

void Session::State::note_block_begun() {
  tx_.in_block = true;
  believed_before_block_ = believed_read_only_;
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
  script_ = Script();
  pgwire::append_ready_for_query(to_client_.back(), status_);
}

// --- extended queries ---

void Session::State::group_begins() {
  if (group_.begun) return;
  unit_begins();
  group_.begun = true;
  again_ = Again();
  opening_refused_ = false;
  group_.direct = !active() || tx_.failed || tx_.in_block;
}

// Where the client's next message goes: to the server, or to what is held until it is known what the group is.
void Session::State::forward_extended(const Event& event, Asked asked, bool answered) {
  into_group_ = !group_.direct && event.last;
  send(event.frame);
  if (answered) {
    Expected expected;
    expected.asked = asked;
    ask(std::move(expected));
  }
  if (into_group_) {
    into_group_ = false;
    if (group_.held.size() > options_.held_bytes_max) commit_to_group();
  } else {
    group_.touched_server = true;
    client_mid_frame_ = !event.last;
  }
}

const Session::State::Known* Session::State::known_statement(std::string_view name) const {
  const auto found = statements_.find(cut(name));
  return found == statements_.end() ? nullptr : &found->second;
}

void Session::State::on_parse(const Event& event) {
  const auto parse = pgwire::decode_parse(event.body);
  if (!parse) return end("08P01", parse.problem().reason());
  group_begins();
  if (is_reserved(parse->statement)) return refuse_reserved();
  std::string_view sql = parse->sql;
  const Text text = classified(sql);
  if (names_ours(*text)) return refuse_reserved();
  Effects effects = effects_of(*text, sql);
  if (effects.way == Way::read && known_writer(sql)) effects.way = Way::write;
  if (text->statements.size() > 1) effects = effects_of_unknown();  // the server refuses it

  std::string rewritten, frame;
  if (active() && effects.kind == Kind::show) {
    const std::string& name = text->statements.front().name;
    const bool by_default = name == "default_transaction_read_only";
    if (by_default || name == "transaction_read_only") {
      const bool read_only = by_default || !tx_.in_block ? believed_read_only_ : tx_.client_read_only;
      rewritten = std::string("SELECT '") + (read_only ? "on" : "off") + "'::text AS " + name;
    }
  } else if (active() && ours_to_keep(effects) && effects.access != Access::read_only) {
    rewritten = without_read_write(sql, effects);
  }

  const std::string name(cut(parse->statement));
  if (statements_.size() < names_max || statements_.count(name) != 0) {
    const auto [at, added] = statements_.try_emplace(name, Known{effects, text, effects.way == Way::read ? hash_of(sql) : 0});
    // A name that stands for something else already: the server refuses it, unless that was closed behind our back.
    if (!added && (name.empty() || at->second.text == text)) at->second = Known{effects, text, effects.way == Way::read ? hash_of(sql) : 0};
    else if (!added) at->second.effects = effects_of_unknown();
    if (added) group_.parsed.push_back(name);
  }
  if (group_.direct && tx_.in_block) {
    const Effects what = resolved(effects, text.get());
    guard_block(what, claim_of(text.get()), false);
    if (what.takes_snapshot && !tx_.writable) tx_.snapshot = true;
  }
  if (rewritten.empty()) {
    forward_extended(event, Asked::parse);
  } else {
    pgwire::append_parse(frame, parse->statement, rewritten);
    Event other = event;
    other.frame = frame;
    forward_extended(other, Asked::parse);
  }
  Expected* asked = last_asked();
  if (asked != nullptr && asked->asked == Asked::parse) asked->text = name;  // else the group was refused just now
}

Expected* Session::State::last_asked() {
  if (!group_.asked.empty()) return &group_.asked.back();
  return answers_.empty() ? nullptr : &answers_.at(answers_.size() - 1);
}

void Session::State::on_bind(const Event& event) {
  std::string portal, statement;
  if (event.kind == Event::Kind::message) {
    const auto bind = pgwire::decode_bind(event.body);
    if (!bind) return end("08P01", bind.problem().reason());
    portal = bind->portal;
    statement = bind->statement;
  } else {
    const auto names = pgwire::decode_bind_names(event.body);
    if (!names) return end("08P01", names.problem().reason());
    portal = names->portal;
    statement = names->statement;
  }
  group_begins();
  if (is_reserved(statement) || is_reserved(portal)) {
    client_parts_ = Parts::drop;
    return refuse_reserved();
  }
  const Known* known = known_statement(statement);
  Known bound = known != nullptr ? *known : Known{effects_of_unknown(), nullptr, 0};
  if (portals_.size() < names_max || portals_.count(portal) != 0) portals_[portal] = bound;
  // A write is decided here already, so that its values, however many, go straight through.
  const Effects effects = resolved(bound.effects, bound.text.get());
  if (effects.way == Way::write || tx_.in_block || !event.last) {
    decide(effects, bound, false);
    if (stage_ != Stage::ready) return;
    if (group_.refused) {
      client_parts_ = Parts::drop;
      return;
    }
  }
  if (!group_.direct && !event.last) commit_to_group();
  if (group_.refused) {
    client_parts_ = Parts::drop;
    return;
  }
  forward_extended(event, Asked::bind);
  Expected* asked = last_asked();
  if (asked != nullptr && asked->asked == Asked::bind) asked->text = portal;
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
  if (believed_read_only_ && !tx_.in_block) {
    if (runs && (effects.way == Way::write || effects.way == Way::alone)) left_to_read_only(effects);
    return;
  }
  if (tx_.in_block || tx_.writable) {
    if (!tx_.in_block && runs && (effects.kind == Kind::call || effects.kind == Kind::do_block)) {
      // Up to 17 it could commit our check's lock away in the middle of a pipeline.
      return refuse("0A000", "Termgate runs CALL and DO only as the one statement before a Sync, or in a transaction block", "");
    }
    guard_block(effects, claim, true);
    return;
  }
  if (group_.direct) return;
  switch (effects.way) {
    case Way::read:
    case Way::neutral: return;
    case Way::control:
      if (runs && effects.kind == Kind::begin && group_.opening_possible && may_speak() && claim.problem.empty() && !stale_in_memory(claim)) {
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
        if (stale_in_memory(claim)) return refuse_stale(claim.pair, surroundings_.highest_fence(claim.pair.scope));
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
  if (!own_check) {
    if (!claim.problem.empty()) return refuse_claim(claim);
    if (stale_in_memory(claim)) return refuse_stale(claim.pair, surroundings_.highest_fence(claim.pair.scope));
  }
  if (!group_.opening_possible) {
    report_refusal("TG002", "TG002 a write behind a read that was flushed", claim.pair, 0, true);
    return refuse("TG002", may_speak() ? "TG002 this write follows a read in a pipeline that was flushed before it was known: send a Sync between them" : "TG002 no term declared for a fenced write",
                  "Declare a scope and a term (termgate.scope, termgate.term) before the transaction.");
  }
  if (effects.kind == Kind::unparsable && !may_speak()) {
    // Whether it is a statement at all the server says first, at its Parse.
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
  if (may_speak() && (group_.executed || writes_parsed) && group_.opening_possible && claim.problem.empty() && !stale_in_memory(claim)) {
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

void Session::State::on_execute(const Event& event) {
  const auto execute = pgwire::decode_execute(event.body);
  if (!execute) return end("08P01", execute.problem().reason());
  group_begins();
  if (is_reserved(execute->portal)) return refuse_reserved();
  const auto found = portals_.find(execute->portal);
  Known known = found != portals_.end() ? found->second : Known{effects_of_unknown(), nullptr, 0};
  Effects effects = resolved(known.effects, known.text.get());
  const bool once_only = !answers_.empty() || group_.executed || execute->rows_max != 0;
  if (once_only && effects.way == Way::read && effects.calls_unknown && may_speak()) effects.way = Way::write;
  if (known.hash != 0 && effects.way == Way::read && std::find(writers_.begin(), writers_.end(), known.hash) != writers_.end()) effects.way = Way::write;
  decide(effects, known, true);
  if (stage_ != Stage::ready || group_.refused) return;
  const bool first = !group_.executed;
  group_.executed = group_.executed_here = true;
  group_.first_hash = first ? known.hash : group_.first_hash;
  forward_extended(event, Asked::execute);
  Expected* asked = last_asked();
  if (asked != nullptr) asked->first_execute = first;

  const bool was_block = tx_.in_block;
  note_sent(effects);
  if (default_broken_ && !reports_default_) group_.suspect = true;
  if (!active() || group_.needs_hold) return;
  if (tx_.in_block && !was_block && !group_.direct) {
    // The rest of the group stands in the client's block.
    const bool unsure = !answers_.empty() || group_.ended_one;
    flush_group();
    group_.direct = true;
    if (unsure && guards()) run_ours(ours_locked, Role::put_back, {});
    group_.reads_only = false;
  } else if (!tx_.in_block && (was_block || (group_.direct && (effects.kind == Kind::commit || effects.kind == Kind::rollback || effects.kind == Kind::prepare_transaction)))) {
    // Behind its COMMIT another implicit transaction begins.
    group_.direct = false;
    group_.ended_one = true;
    group_.executed_here = false;
    group_.opening_possible = true;
    group_.reads_only = false;
  } else if (!group_.direct && effects.way == Way::control) {
    lock_group();
    group_.ended_one = true;
    group_.executed_here = false;
    group_.opening_at = group_.held.size();
    group_.opening_asked = group_.asked.size();
    group_.reads_only = false;
  }
}

void Session::State::on_close(const Event& event) {
  const auto named = pgwire::decode_close(event.body);
  if (!named) return end("08P01", named.problem().reason());
  group_begins();
  if (is_reserved(named->name)) return refuse_reserved();
  if (named->portal) {
    portals_.erase(std::string(named->name));
  } else {
    statements_.erase(std::string(cut(named->name)));
  }
  forward_extended(event, Asked::close);
}

void Session::State::on_flush(const Event& event) {
  group_begins();
  commit_to_group();
  if (group_.refused) return;
  to_server_.back() += event.frame;
  group_.touched_server = true;
}

void Session::State::on_sync(const Event& event) {
  group_begins();
  if (group_.refused) {
    Expected expected;
    expected.asked = Asked::nothing;
    pgwire::append_ready_for_query(expected.text, pgwire::TransactionStatus::idle);
    group_ = Group();
    answers_.push(std::move(expected));
    flush_made_answers();
    if (answers_.empty()) settle();
    return;
  }
  Expected expected;
  expected.asked = Asked::sync;
  if (group_.needs_hold) {
    group_.held += event.frame;
    group_.asked.push_back(expected);
    hold_ = Hold();
    hold_.extended = true;
    hold_.waiting = std::move(group_.held);
    hold_.asked = std::move(group_.asked);
    hold_.effects = group_.effects;
    const Pair pair = group_.claim.pair;
    group_ = Group();
    return hold(pair);
  }
  if (!group_.direct) {
    if (group_.executed_here && group_.opening_possible) lock_group();
    group_.held += event.frame;
    group_.asked.push_back(expected);
    again_ = Again();
    if (group_.reads_only && group_.executed && !group_.touched_server && answers_.empty()) {
      again_.possible = again_.extended = true;
      again_.bytes = group_.held;
      again_.hash = group_.first_hash;
      again_.claim = claim_of(nullptr);
    }
    flush_group();
  } else {
    to_server_.back() += event.frame;
    answers_.push(expected);
  }
  group_ = Group();
  if (!tx_.in_block) tx_ = Transaction();
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
