// What a unit of the client's is before anything is sent of it: what its text says, which scope and
// term it is checked with, and what is known of it already.
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

namespace termgate::session {

// Owner: the session's State; its thread. Sends nothing. What changes here is only what is remembered
// of texts: learn(), remember_writer() and unit_is().
class Judgement {
 public:
  Judgement(Line& line, Claims& claims, TransactionModel& model, Texts& texts, ServerFacts& facts, ClientNames& names) noexcept
      : line_(line), claims_(claims), model_(model), texts_(texts), facts_(facts), names_(names) {}

  // --- of a text ---
  Text classified(std::string_view sql) const;
  void learn(const statements::Classified& text, std::string_view sql);
  // EXECUTE is what it runs.
  Effects resolved(Effects effects, std::string_view executes) const;
  // One of its statements could put something else in the place of our check.
  static bool names_ours(const statements::Classified& text) noexcept;
  static bool declares(const statements::Classified& text) noexcept;
  // What a SHOW must answer.
  Shows shown_of(const Effects& effects) const noexcept;
  // How the unit begins, for the log.
  void unit_is(std::string_view sql) { unit_text_ = sql.substr(0, unit_text_bytes); }
  const std::string& unit_text() const noexcept { return unit_text_; }

  // --- reads that were found to write ---
  // Literals are left out.
  static std::size_t hash_of(std::string_view sql) noexcept;
  void learn_from_refusals(Effects& effects, std::size_t hash) const;
  void remember_writer(std::size_t hash);

  // --- with what it is checked ---
  Claim claim_of(const statements::Declaration* named) const;
  Claim claim_for(const statements::Declaration& own, const Effects& effects, std::string_view executes) const;
  Claim claim_for(const Known& known) const;
  Standing standing_of(const Claim& claim) const;
  TransactionView view_of(const Claim& claim, bool open) const;
  Policy policy(const Unit& unit) const noexcept;
  // As far as is known here the server's transaction is not READ ONLY.
  bool may_write() const noexcept;
  // The session stays READ ONLY, by the client's own word or because the server is a standby.
  bool reads_only() const noexcept { return facts_.standby() || model_.by_default.believed == Mode::read_only; }

  // --- what is known already of a write with this claim ---
  Refusal refusal_from_memory(const Claim& claim) const;
  // Of one that brings its scope and term itself.
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

  // Hashes of texts that looked like reads and met READ ONLY.
  std::vector<std::size_t> writers_;
  // Of an extended unit: what was parsed last.
  std::string unit_text_;
};

}  // namespace termgate::session
