// Judges a unit (guard.hpp) of the client's before any of it is sent: what its text does, which
// scope and term it is checked with, and whether the remembered fences already refuse that claim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/statements/classify.hpp>
#include <termgate/statements/declaration.hpp>

#include "claims.hpp"
#include "effects.hpp"
#include "guard.hpp"
#include "line.hpp"
#include "parts.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread. Sends nothing. learn() and own_names_hidden() apply what
// a text changes for the session (claims, role, settings, prepared names); remember_writer() and
// unit_is() remember texts; saw_fence(), observe() and remember_writer() report to the host. The
// rest only reads.
class Judgement {
 public:
  Judgement(Line& line, Claims& claims, TransactionModel& model, Texts& texts, ServerFacts& facts,
            ClientNames& names) noexcept
      : line_(line), claims_(claims), model_(model), texts_(texts), facts_(facts), names_(names) {}

  // --- texts ---
  Text classified(std::string_view sql) const;
  void learn(const statements::Classified& text, std::string_view sql);
  void own_names_hidden();
  // The effects, completed with what the session knows: EXECUTE has those of the statement that it
  // runs.
  Effects resolved(Effects effects, std::string_view executes) const;
  // One of its statements uses a name that is reserved for the proxy, so it could replace the
  // proxy's check.
  static bool names_ours(const statements::Classified& text) noexcept;
  static bool declares(const statements::Classified& text) noexcept;
  // What a SHOW must return.
  Shows shown_of(const Effects& effects) const noexcept;
  void unit_is(std::string_view sql) { unit_text_ = sql.substr(0, unit_text_bytes); }
  const std::string& unit_text() const noexcept { return unit_text_; }

  // --- reads that were found to write ---
  // A hash of the text without its literals.
  static std::size_t hash_of(std::string_view sql) noexcept;
  void learn_from_refusals(Effects& effects, std::size_t hash) const;
  void remember_writer(std::size_t hash);

  // --- the claim that a unit is checked with ---
  Claim claim_of(const statements::Declaration* named) const;
  Claim claim_for(const statements::Declaration& own, const Effects& effects,
                  std::string_view executes) const;
  Claim claim_for(const Known& known) const;
  Standing standing_of(const Claim& claim) const;

  // --- what the decision (guard.hpp) has to know ---
  Unit unit_of(const Effects& effects, const Claim& claim, Step step) const;
  // `outside`: the place of a unit that is in no block.
  TransactionView view_of(const Claim& claim, Place outside) const;
  Policy policy() const noexcept;
  // As far as the proxy knows, the server's transaction is not READ ONLY.
  bool may_write() const noexcept;

  // --- refusals by the remembered fences, without a query to the database ---
  Refusal refusal_from_memory(const Claim& claim) const;
  // For a call of layer 1, which takes its scope and term as arguments.
  Refusal refusal_of_own(const Effects& effects) const;
  Refusal refusal_of_prepared(const Effects& effects) const;
  void observe(const Effects& effects, const Claim& claim);

  // --- scopes: this session writes them in its client_encoding, others know them in UTF-8 ---
  bool is_known_by(std::string_view scope) const noexcept;
  std::int64_t fence_of(std::string_view scope) const;
  void saw_fence(std::string_view scope, std::int64_t fence);

 private:
  Refusal untrusted_refusal(const Claim& claim) const;
  Refusal observed_refusal(const Effects& effects, const Claim& claim) const;

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  ServerFacts& facts_;
  ClientNames& names_;

  // Hashes of texts that looked like reads and failed because of READ ONLY.
  std::vector<std::size_t> writers_;
  // The beginning of the unit's text, for the log. In the extended protocol: of the text that was
  // parsed last.
  std::string unit_text_;
};

}  // namespace termgate::pg_session
