// What a unit of the client's is before anything is sent of it: what its text says, which scope and term it is checked with, and what is
// known of it already. Changes nothing but what is remembered of texts and declarations.
#include <algorithm>

#include <termgate/detail/plant.hpp>

#include "names.hpp"
#include "state.hpp"

namespace termgate::session {

using statements::Kind;
using Way = Effects::Way;

namespace {

// "rule", in small letters or capitals.
bool holds_rule(std::string_view sql) noexcept {
  constexpr std::string_view word = "rule";
  return std::search(sql.begin(), sql.end(), word.begin(), word.end(), [](char a, char b) { return (a | 0x20) == b; }) != sql.end();
}

constexpr std::size_t writers_max = 256;
constexpr std::size_t unit_text_bytes = 80;  // kept for the log, which shows the first words

}  // namespace

// --- who may speak ---

// Under `allow` a session that has declared is held to it: what it hides from us must not write either.
bool Session::State::guards() const noexcept {
  return admission_.enforce == Enforce::on && !applicant_.replication && (admission_.without_term != WithoutTerm::allow || guarded_);
}
bool Session::State::asks_at_login() const noexcept { return guards() || (admission_.enforce == Enforce::on && !applicant_.replication && !options_.server_pooler); }
// The operator's word stands above what a function's arguments say.
bool Session::State::final_rule() const noexcept { return declared_.rule != nullptr && !admission_.overridable; }
bool Session::State::may_speak() const noexcept { return declared_.rule != nullptr || declared_.spoke; }
bool Session::State::may_write() const noexcept { return may_speak() || admission_.without_term == WithoutTerm::allow; }
bool Session::State::active() const noexcept { return admission_.enforce == Enforce::on && (admission_.without_term != WithoutTerm::allow || may_speak() || declared_.perhaps); }

// --- of a text ---

Text Session::State::classified(std::string_view sql) {
  settings_.schema = options_.schema;
  unit_text_ = sql.substr(0, unit_text_bytes);
  statements::Settings settings = settings_;
  // A function that runs yet may change how this is read.
  if (outstanding_.functions) settings.standard_conforming_strings = statements::ConformingStrings::unknown;
  if (outstanding_.unknown) settings.ascii_safe_encoding = false;
  Text text = surroundings_.statements().classify(sql, settings);
  if (text->speaks_of_terms || !text->declared.empty()) declared_.spoke = true;
  for (const auto& statement : text->statements) {
    if (statement.calls_unknown) declared_.perhaps = true;
    // CREATE RULE, in whatever it stands.
    if (!has_rules_ && options_.server_has_rules && statement.kind != Kind::provably_read && holds_rule(sql)) has_rules_ = true;
    if (statement.kind == Kind::deallocate && !statement.all) statements_.erase(std::string(cut(statement.name)));
    if ((statement.kind == Kind::set || statement.kind == Kind::reset) && statement.name == "role") role_ = statement.value.value_or("");
  }
  return text;
}

// EXECUTE is what it runs.
Effects Session::State::resolved(Effects effects, std::string_view executes) const {
  if (effects.runs_prepared) {
    const auto found = statements_.find(cut(executes));
    const bool explains = effects.kind == Kind::explain;
    const bool by_arguments = effects.calls_unknown;
    effects = found == statements_.end() || found->second.effects.runs_prepared ? effects_of_unknown() : found->second.effects;
    effects.calls_unknown |= by_arguments;
    effects.changes_declaration |= by_arguments;
    if (explains && effects.way == Way::alone) effects.way = Way::write;
  }
  if (effects.way == Way::read && !effects.prepares_declares && admission_.without_term == WithoutTerm::reject) effects.way = Way::write;
  if ((effects.kind == Kind::fetch || effects.kind == Kind::move) && tx_.calling_cursor) effects.calls_unknown = effects.changes_declaration = true;
  return effects;
}

// PREPARE, EXECUTE, DEALLOCATE, DECLARE, CLOSE …: one of them could put something else in the place of our check.
bool Session::State::names_ours(const statements::Classified& text) noexcept {
  return std::any_of(text.statements.begin(), text.statements.end(), [](const statements::Statement& statement) { return is_reserved(statement.name); });
}

// --- reads that were found to write ---

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

bool Session::State::known_writer(std::size_t hash) const { return std::find(writers_.begin(), writers_.end(), hash) != writers_.end(); }

void Session::State::remember_writer(std::size_t hash) {
  if (writers_.size() >= writers_max) writers_.erase(writers_.begin());
  writers_.push_back(hash);
}

// --- with what it is checked ---

void Session::State::unit_begins() {
  if (status_ != pgwire::TransactionStatus::idle || tx_.in_block || tx_.writable) return;
  if (answers_.empty()) declared_.changing = false;
  ask_rule();
}

// At the begin of every transaction: a term that was withdrawn does not go on in the sessions that are there already. The first one is bound for good.
void Session::State::ask_rule() {
  if (declared_.rule == nullptr) return;
  const TermSource::Standing standing = declared_.rule->now();
  declared_.withdrawn = false;
  if (!standing.scope || !standing.term) {
    declared_.withdrawn = true;
    declared_.why_not = standing.why_not;
    declared_.why_not_code = standing.problem_code;
    return;
  }
  const Pair now{standing.scope->name(), standing.term->value()};
  if (declared_.bound.empty()) declared_.bound = now;
  if (declared_.bound == now) return;
  declared_.withdrawn = true;
  declared_.why_not_code = "TG001";
  declared_.why_not = "this session was admitted under term " + std::to_string(declared_.bound.term) + " of scope \"" + declared_.bound.scope + "\", and its rule now says term " + std::to_string(now.term) + " of scope \"" + now.scope +
                      "\": connect anew";
}

Claim Session::State::claim_of(const statements::Declaration* named) const {
  Claim claim;
  const auto none_by_rule = [&] {
    claim.code = declared_.why_not_code.empty() ? "TG002" : declared_.why_not_code;
    const std::string why = declared_.why_not.empty() ? "the rule of this connection has none now" : declared_.why_not;
    claim.problem = claim.code + (claim.code == "TG001" ? " stale: " : " no term for a fenced write: ") + why;
  };
  if (final_rule()) {
    claim.pair = claim.given = declared_.bound;
    claim.certain = declared_.bound.complete();
    if (!claim.certain || declared_.withdrawn) none_by_rule();
    return claim;
  }
  if (declared_.certain) claim.pair = declared_.known;
  if (declared_.rule != nullptr && !declared_.withdrawn) claim.otherwise = declared_.bound;
  if (named != nullptr && !named->empty()) {
    claim.named = true;
    if (!named->problem.empty()) {
      claim.code = "TG005";
      claim.problem = named->problem;
      return claim;
    }
    if (named->scope) claim.pair.scope = claim.given.scope = named->scope->name();
    if (named->term) claim.pair.term = claim.given.term = named->term->value();
  } else if (claim.pair.empty() && declared_.certain && declared_.rule != nullptr) {
    claim.pair = declared_.bound;
    if (declared_.bound.empty() || declared_.withdrawn) none_by_rule();
  }
  claim.certain = claim.pair.complete();
  return claim;
}

// A comment of its own, or of the PREPARE or Parse that made what it runs.
Claim Session::State::claim_for(const statements::Declaration& own, const Effects& effects, std::string_view executes) const {
  if (own.empty() && effects.runs_prepared) {
    const auto found = statements_.find(cut(executes));
    if (found != statements_.end()) return claim_of(&found->second.declared);
  }
  return claim_of(&own);
}

Standing Session::State::standing_of(const Claim& claim) const {
  if (!claim.problem.empty()) return Standing::problem;
  if (const Refusal refusal = refusal_from_memory(claim)) return refusal.code == "TG001" ? Standing::stale : Standing::untrusted;
  if (claim.certain) return Standing::current;
  // Where nothing was ever seen that declares, a session is taken to have no claim: it reads, and what it writes the server judges.
  // Where nobody has to declare, the server's session says whether this one has (check_again), and it may write if not.
  const bool silent = admission_.without_term != WithoutTerm::allow && (declared_.certain ? claim.pair.empty() : !may_speak());
  return silent ? Standing::none : Standing::uncertain;
}

TransactionView Session::State::view_of(const Claim& claim, bool open) const {
  TransactionView view;
  view.open = tx_.in_block || open;
  view.failed = tx_.failed;
  view.read_only = tx_.in_block || tx_.writable ? tx_.client_read_only : default_.believed;
  view.fixed = tx_.snapshot || tx_.locked;
  view.writable = (tx_.writable && !tx_.locked) || !guards();
  view.session_passed = tx_.session_passed;
  view.other_passed = tx_.other_passed;
  view.named_passed = claim.named && claim.certain && std::find(tx_.passed.begin(), tx_.passed.end(), claim.pair) != tx_.passed.end();
  view.redeclared = tx_.redeclared;
  view.acted = tx_.acted;
  view.code_declared = tx_.code_declared;
  return view;
}

Policy Session::State::policy() const noexcept { return {.enforce = active()}; }

Refusal Session::State::refusal_from_memory(const Claim& claim) const {
  if (Refusal doubt = doubt_of(claim); doubt || !claim.certain) return doubt;
  const std::int64_t fence = surroundings_.highest_fence(claim.pair.scope);
  if (fence <= claim.pair.term + (TERMGATE_PLANTED(proxy_one_behind) ? 1 : 0)) return {};
  return {.code = "TG001", .message = "TG001 stale term " + std::to_string(claim.pair.term) + " for scope \"" + claim.pair.scope + "\": the fence stands at " + std::to_string(fence), .hint = {}, .fence = fence};
}

Refusal Session::State::refusal_of_own(const Effects& effects) const {
  if (!effects.own_check_writes) return {};
  return doubt_of(Claim());
}

// What a restored database has forgotten its check cannot know.
Refusal Session::State::doubt_of(const Claim& claim) const {
  std::string doubt = surroundings_.doubt(claim.pair.scope);
  if (doubt.empty()) return {};
  Refusal refusal{.code = "TG004", .message = std::move(doubt), .hint = {}};
  if (claim.pair.scope.empty()) refusal.hint = "The proxy does not know this session's scope beforehand, and so refuses it as long as any is in doubt: declare it by application_name, PGOPTIONS or a comment.";
  return refusal;
}

void Session::State::observe(const Effects& effects, const Claim& claim) {
  if (admission_.enforce != Enforce::observe || (effects.way != Way::write && effects.way != Way::alone) || tx_.failed) return;
  Refusal refusal;
  Incident incident;
  incident.statement = unit_text_;
  incident.kind = Incident::Kind::would_refuse;
  incident.scope = claim.pair.scope;
  incident.term = claim.pair.term;
  if (!claim.problem.empty()) {
    incident.code = claim.code;
    incident.message = claim.problem;
  } else if (!claim.pair.complete()) {
    if (!declared_.certain || effects.own_check || effects.only_declares) return;  // declared in a way that only the server knows
    incident.code = "TG002";
    incident.message = "TG002 no term declared for a write";
  } else {
    refusal = refusal_from_memory(claim);
    if (!refusal) {
      surroundings_.saw_term(claim.pair.scope, claim.pair.term);
      return;
    }
    incident.fence = refusal.fence;
    incident.code = refusal.code;
    incident.message = refusal.message;
  }
  surroundings_.happened(incident);
}

}  // namespace termgate::session
