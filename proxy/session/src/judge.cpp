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

constexpr std::size_t writers_max = 256;

}  // namespace

// --- who may speak ---

// Under `allow` a session that has declared is held to it: what it hides from us must not write either.
bool Session::State::guards() const noexcept {
  return admission_.enforce == Enforce::on && !applicant_.replication && (admission_.without_term != WithoutTerm::allow || guarded_);
}
// The operator's word stands above what a function's arguments say.
bool Session::State::final_rule() const noexcept { return declared_.rule != nullptr && !admission_.overridable; }
bool Session::State::may_speak() const noexcept { return declared_.rule != nullptr || declared_.spoke; }
bool Session::State::active() const noexcept { return admission_.enforce == Enforce::on && (admission_.without_term != WithoutTerm::allow || may_speak()); }

// --- of a text ---

Text Session::State::classified(std::string_view sql) {
  settings_.schema = options_.schema;
  statements::Settings settings = settings_;
  // A function that runs yet may change how this is read.
  if (outstanding_.functions) settings.standard_conforming_strings = statements::ConformingStrings::unknown;
  if (outstanding_.unknown) settings.ascii_safe_encoding = false;
  Text text = surroundings_.statements().classify(sql, settings);
  if (!text->declared.empty()) declared_.spoke = true;
  for (const auto& statement : text->statements) {
    if (statements::is_declared_setting(statement.name)) declared_.spoke = true;
    if (statement.kind == Kind::deallocate && !statement.all) statements_.erase(std::string(cut(statement.name)));
  }
  return text;
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

bool Session::State::known_writer(std::string_view sql) const { return !writers_.empty() && known_writer_hash(hash_of(sql)); }

bool Session::State::known_writer_hash(std::size_t hash) const { return std::find(writers_.begin(), writers_.end(), hash) != writers_.end(); }

void Session::State::remember_writer(std::string_view sql) { remember_writer_hash(hash_of(sql)); }

void Session::State::remember_writer_hash(std::size_t hash) {
  if (writers_.size() >= writers_max) writers_.erase(writers_.begin());
  writers_.push_back(hash);
}

// --- with what it is checked ---

void Session::State::unit_begins() {
  if (!answers_.empty() || status_ != pgwire::TransactionStatus::idle) return;
  declared_.changing = false;
  if (declared_.rule != nullptr && declared_.bound.empty()) {
    const TermSource::Standing standing = declared_.rule->now();
    if (standing.scope && standing.term) {
      declared_.bound = {standing.scope->name(), standing.term->value()};
    } else {
      declared_.why_not = standing.why_not;
      declared_.why_not_code = standing.problem_code;
    }
  }
}

Claim Session::State::claim_of(const statements::Classified* text) {
  Claim claim;
  const auto none_by_rule = [&] {
    claim.code = declared_.why_not_code.empty() ? "TG002" : declared_.why_not_code;
    claim.problem = claim.code + " no term for a fenced write: " + (declared_.why_not.empty() ? "the rule of this connection has none now" : declared_.why_not);
  };
  if (declared_.rule != nullptr && !admission_.overridable) {
    claim.pair = declared_.bound;
    claim.certain = declared_.bound.complete();
    if (!claim.certain) none_by_rule();
    return claim;
  }
  if (declared_.certain) claim.pair = declared_.known;
  if (text != nullptr && !text->declared.empty()) {
    const statements::Declaration& declared = text->declared;
    if (!declared.problem.empty()) {
      claim.code = "TG005";
      claim.problem = declared.problem;
      return claim;
    }
    if (declared.scope) claim.pair.scope = declared.scope->name();
    if (declared.term) claim.pair.term = declared.term->value();
  } else if (claim.pair.empty() && declared_.certain && declared_.rule != nullptr) {
    claim.pair = declared_.bound;
    if (declared_.bound.empty()) none_by_rule();
  }
  claim.certain = claim.pair.complete();
  return claim;
}

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
  incident.kind = Incident::Kind::would_refuse;
  incident.scope = claim.pair.scope;
  incident.term = claim.pair.term;
  if (!claim.problem.empty()) {
    incident.code = claim.code;
    incident.message = claim.problem;
  } else if (!claim.pair.complete()) {
    if (!declared_.certain || effects.own_check) return;  // declared in a way that only the server knows
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
