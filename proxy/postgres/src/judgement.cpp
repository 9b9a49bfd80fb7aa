#include "judgement.hpp"

#include <algorithm>

#include <termgate/detail/plant.hpp>
#include <termgate/statements/cache.hpp>

#include "names.hpp"

namespace termgate::pg_session {

using statements::Kind;
using Way = Effects::Way;

namespace {

// How many texts that looked like reads and wrote are remembered. The oldest is forgotten first,
// and learned again from its next refusal.
constexpr std::size_t writers_max = 256;

}  // namespace

// --- of a text ---

Text Judgement::classified(std::string_view sql) const {
  statements::Settings settings = texts_.settings;
  settings.schema = line_.options.schema;
  // A function that still runs may change how this text is read.
  if (texts_.outstanding.functions)
    settings.standard_conforming_strings = statements::ConformingStrings::unknown;
  if (texts_.outstanding.unknown) settings.ascii_safe_encoding = false;
  const Text text = line_.host.statements().classify(sql, settings);
  if (!settings.own_names_first || text->statements.size() < 2) return text;
  // A statement of the text may change what names in the next ones mean.
  settings.own_names_first = learned_of(*text, sql).own_names_first;
  return settings.own_names_first ? text : line_.host.statements().classify(sql, settings);
}

// Whether the proxy must check the text itself: a comment names a claim that the server's settings
// do not have, and a new declaration may need a raise, which the server's guard leaves to the
// proxy.
bool Judgement::declares(const statements::Classified& text) noexcept {
  return text.speaks_of_terms || !text.declared.empty() ||
         std::any_of(text.statements.begin(), text.statements.end(),
                     [](const statements::Statement& one) {
                       return !one.declared.empty() || one.only_declares;
                     });
}

void Judgement::learn(const statements::Classified& text, std::string_view sql) {
  const Learned learned = learned_of(text, sql);
  claims_.learn(learned);
  if (declares(text)) claims_.hand_over(false);
  if (texts_.settings.own_names_first && !learned.own_names_first) own_names_hidden();
  if (learned.may_make_rules) facts_.has_rules = true;
  for (const std::string& name : learned.deallocates) {
    if (may_be_another(name)) names_.statements.clear();
    else names_.statements.erase(name);
  }
  if (learned.role) facts_.role = *learned.role;
}

// The names of functions may mean another schema's from here on, also in a prepared statement,
// which the server reads again if search_path has changed.
void Judgement::own_names_hidden() {
  texts_.settings.own_names_first = false;
  for (auto& [name, known] : names_.statements) {
    if (does_of(known.effects) < Does::reads) continue;
    known.effects.set(Effect::calls_functions | Effect::calls_unknown |
                      Effect::changes_declaration);
    if (known.effects.kind == Kind::declare_cursor) known.effects.set(Effect::opens_calling_cursor);
  }
}

Effects Judgement::resolved(Effects effects, std::string_view executes) const {
  if (effects.has(Effect::runs_prepared)) {
    const auto found = names_.statements.find(cut(executes));
    const bool explains = effects.kind == Kind::explain;
    const bool by_arguments = effects.has(Effect::calls_unknown);
    // An EXECUTE of an EXECUTE is not followed.
    effects = found == names_.statements.end() || found->second.effects.has(Effect::runs_prepared)
                  ? effects_of_unknown()
                  : found->second.effects;
    // That a prepared statement runs no code can be relied on only if it is parsed again.
    if (does_of(effects) < Does::reads) {
      if (effects.has(Effect::only_declares)) effects.set(Effect::by_name);
      else effects = effects_of_unknown();
    }
    if (by_arguments) effects.set(Effect::calls_unknown | Effect::changes_declaration);
    if (explains && effects.way == Way::alone) effects.way = Way::write;
  }
  if (effects.way == Way::read && !effects.prepares.declaration() &&
      claims_.admission().without_term == WithoutTerm::reject)
    effects.way = Way::write;
  if ((effects.kind == Kind::fetch || effects.kind == Kind::move) && model_.tx.calling_cursor)
    effects.set(Effect::calls_unknown | Effect::changes_declaration);
  // SET CONSTRAINTS runs the deferred triggers of what was written so far.
  if (effects.kind == Kind::set_constraints && (model_.tx.acted || model_.tx.left_over)) {
    effects.way = Way::read;
    effects.set(Effect::takes_snapshot | Effect::calls_functions | Effect::calls_unknown |
                Effect::changes_declaration);
  }
  return effects;
}

// PREPARE, EXECUTE, DEALLOCATE, DECLARE, CLOSE and the like of a reserved name: they could replace
// the proxy's check.
bool Judgement::names_ours(const statements::Classified& text) noexcept {
  return std::any_of(
      text.statements.begin(), text.statements.end(),
      [](const statements::Statement& statement) { return is_reserved(statement.name); });
}

// --- reads that were found to write ---

// Hashes the text without its numbers and strings, so that a statement has the same hash whatever
// its values.
std::size_t Judgement::hash_of(std::string_view sql) noexcept {
  // FNV-1a, 64 bits. A collision makes a harmless read count as one that writes.
  std::size_t hash = 14695981039346656037u;
  const auto add = [&](char letter) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  };
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
  // 0 means "no hash".
  return hash | 1;
}

void Judgement::learn_from_refusals(Effects& effects, std::size_t hash) const {
  if (effects.way != Way::read || hash == 0) return;
  // In another session the same text may have run other functions, because of its search_path. So
  // what that session has learned adds a check where there is a claim, and otherwise nothing.
  if (std::find(writers_.begin(), writers_.end(), hash) != writers_.end()) effects.way = Way::write;
  else if (line_.host.known_to_write(hash))
    effects.set(Effect::calls_functions | Effect::calls_unknown | Effect::changes_declaration);
}

void Judgement::remember_writer(std::size_t hash) {
  if (writers_.size() >= writers_max) writers_.erase(writers_.begin());
  writers_.push_back(hash);
  line_.host.saw_writing(hash);
}

// --- with what it is checked ---

// Scope names in the proxy's messages are converted from this session's client_encoding, so one
// that is not ASCII could name another scope.
Claim Judgement::claim_of(const statements::Declaration* named) const {
  Claim claim = claims_.claim_of(named);
  const ScopedTerm* strange = !is_known_by(claim.given.scope)       ? &claim.given
                              : !is_known_by(claim.otherwise.scope) ? &claim.otherwise
                                                                    : nullptr;
  if (strange != nullptr && claim.problem.empty()) {
    claim.code = "TG005";
    claim.problem =
        "TG005 scope \"" + strange->scope +
        "\" is not ASCII: a comment or a rule of the proxy can name it only where client_encoding "
        "is UTF8, and " +
        (texts_.reported.encoding == "UTF8" ? std::string("it may have changed in this pipeline")
                                            : "it is \"" + texts_.reported.encoding + "\"");
    claim.certain = false;
  }
  return claim;
}

// The claim by the unit's own comment or, if it runs a prepared statement, by a comment of the
// PREPARE or Parse that made it; without such a comment, the session's.
Claim Judgement::claim_for(const statements::Declaration& own, const Effects& effects,
                           std::string_view executes) const {
  if (own.empty() && effects.has(Effect::runs_prepared)) {
    const auto found = names_.statements.find(cut(executes));
    if (found != names_.statements.end()) return claim_of(&found->second.declared);
  }
  return claim_of(&own);
}

Claim Judgement::claim_for(const Known& known) const {
  Effects effects;
  effects.put(Effect::runs_prepared, !known.executes.empty());
  return claim_for(known.declared, effects, known.executes);
}

// A claim with a problem is not compared with remembered fences: its scope or term may be empty or
// wrong.
Standing Judgement::standing_of(const Claim& claim) const {
  return claims_.standing_of(claim, claim.problem.empty() ? refusal_from_memory(claim) : Refusal());
}

Unit Judgement::unit_of(const Effects& effects, const Claim& claim, Step step) const {
  Unit unit = pg_session::unit_of(effects, step, claim.named, claims_.final_rule());
  unit.untrusted = static_cast<bool>(refusal_of_own(effects));
  return unit;
}

TransactionView Judgement::view_of(const Claim& claim, Place outside) const {
  TransactionView view;
  view.place = model_.tx.in_block ? Place::block : outside;
  view.tx = model_.tx;
  view.tx.locked |= model_.locked_for_good;
  view.tx.unnamed &= standing_of(claim) != Standing::none;
  view.guards = claims_.guards();
  view.read_only = model_.mode_now() == Mode::read_only || facts_.standby();
  view.reads_only = facts_.standby() || model_.by_default.believed == Mode::read_only;
  view.server_guards = claims_.server_guarded();
  view.named_passed = claim.named && claim.certain && is_known_by(claim.pair.scope) &&
                      std::find(model_.tx.passed.begin(), model_.tx.passed.end(), claim.pair) !=
                          model_.tx.passed.end();
  view.redeclared_ahead = model_.tx.ahead.has_value();
  return view;
}

Policy Judgement::policy() const noexcept {
  return {.active = claims_.active(),
          .standby = facts_.standby(),
          .may_speak = claims_.may_speak(),
          .allows = claims_.admission().without_term == WithoutTerm::allow};
}

bool Judgement::is_known_by(std::string_view scope) const noexcept {
  return !has_high_byte(scope) ||
         (texts_.reported.encoding == "UTF8" && texts_.settings.ascii_safe_encoding);
}

std::int64_t Judgement::fence_of(std::string_view scope) const {
  return is_known_by(scope) ? line_.host.highest_fence(scope) : 0;
}

void Judgement::saw_fence(std::string_view scope, std::int64_t fence) {
  if (is_known_by(scope)) line_.host.saw_fence(scope, fence);
}

// Refuses a stale writer here, without a round trip. If no fence is remembered, or one lower than
// the database's, the check in the database decides (F2).
Refusal Judgement::refusal_from_memory(const Claim& claim) const {
  if (Refusal untrusted = untrusted_refusal(claim); untrusted || !claim.certain) return untrusted;
  const std::int64_t fence = fence_of(claim.pair.scope);
  if (fence <= claim.pair.term + (TERMGATE_PLANTED(proxy_one_behind) ? 1 : 0)) return {};
  return {.code = "TG001",
          .message = "TG001 stale term " + std::to_string(claim.pair.term) + " for scope \"" +
                     claim.pair.scope + "\": the fence stands at " + std::to_string(fence),
          .hint = {},
          .fence = fence};
}

Refusal Judgement::refusal_of_own(const Effects& effects) const {
  if (!effects.has(Effect::own_check_writes)) return {};
  return untrusted_refusal(Claim());
}

// For COMMIT PREPARED: the leader that prepared the transaction may have lost its term since, and a
// restored database may have forgotten that (F3). So the policy `allow` makes no difference.
Refusal Judgement::refusal_of_prepared(const Effects& effects) const {
  if (effects.kind != statements::Kind::commit_prepared ||
      claims_.admission().enforce != Enforce::on)
    return {};
  return untrusted_refusal(Claim());
}

// After a restore the database's own check cannot know what the database has forgotten.
Refusal Judgement::untrusted_refusal(const Claim& claim) const {
  const bool known = is_known_by(claim.pair.scope);
  std::string reason = line_.host.untrusted(known ? claim.pair.scope : std::string());
  if (reason.empty()) return {};
  Refusal refusal{.code = "TG004", .message = std::move(reason), .hint = {}};
  if (!known)
    refusal.hint =
        "Set client_encoding to UTF8: this session's scope is not ASCII, and the proxy compares "
        "such scopes in UTF-8 only.";
  else if (claim.pair.scope.empty())
    refusal.hint =
        "The proxy does not know this session's scope beforehand, and so refuses it as long as any "
        "is untrusted: declare it by "
        "application_name, PGOPTIONS or a comment.";
  return refusal;
}

// Reports what enforcing would refuse, with the same code.
void Judgement::observe(const Effects& effects, const Claim& claim) {
  if (claims_.admission().enforce != Enforce::observe ||
      (effects.way != Way::write && effects.way != Way::alone) || model_.tx.failed)
    return;
  const Refusal refusal = observed_refusal(effects, claim);
  const bool known = claim.pair.complete() && is_known_by(claim.pair.scope);
  if (!refusal) {
    if (known && claim.problem.empty()) line_.host.saw_term(claim.pair.scope, claim.pair.term);
    return;
  }
  line_.host.happened({.kind = Incident::Kind::would_refuse,
                       .scope = claim.pair.scope,
                       .term = claim.pair.term,
                       .fence = refusal.fence,
                       .code = refusal.code,
                       .message = refusal.message,
                       .statement = unit_text_});
}

Refusal Judgement::observed_refusal(const Effects& effects, const Claim& claim) const {
  if (claim.code == TermSource::Standing::none_taken) return {};
  if (!claim.problem.empty()) return {claim.code, claim.problem, ""};
  if (!claim.pair.complete()) {
    // Only the server knows the declaration, or none is required.
    if (!claims_.certain() || effects.has(Effect::own_check | Effect::only_declares)) return {};
    if (claims_.admission().without_term == WithoutTerm::allow && claim.pair.empty()) return {};
    if (facts_.check_problem.empty()) return {"TG002", "TG002 no term declared for a write", ""};
  } else if (Refusal refusal = refusal_from_memory(claim)) {
    return refusal;
  }
  if (facts_.check_problem == "42501")
    return {facts_.check_problem,
            role_problem(facts_.role_now(line_.login_request.user), "permission denied"), ""};
  if (!facts_.check_problem.empty())
    return {facts_.check_problem, "Termgate is not installed in this database", ""};
  return {};
}

bool Judgement::may_write() const noexcept {
  return (model_.tx.writable && !model_.tx.locked && !model_.locked_for_good) || !claims_.guards();
}

// SHOW must return what the client has set, not what the proxy has made of its server session.
Shows Judgement::shown_of(const Effects& effects) const noexcept {
  if (effects.shown == Effects::Shown::nothing || !claims_.guards() || model_.tx.failed)
    return Shows::none;
  const bool of_transaction = effects.shown == Effects::Shown::mode;
  if (of_transaction && facts_.standby()) return Shows::none;
  const Mode mode = of_transaction ? model_.mode_now() : model_.by_default.believed;
  switch (mode) {
    case Mode::read_only: return Shows::on;
    case Mode::read_write: return Shows::off;
    case Mode::asked: return may_write() ? Shows::none : Shows::own;
    case Mode::servers: break;
  }
  return Shows::own;
}

}  // namespace termgate::pg_session
