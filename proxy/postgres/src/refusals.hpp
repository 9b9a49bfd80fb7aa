// How a unit (guard.hpp) of the client's is refused, here or by the server, and what the client
// sees of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <termgate/pgwire/decode.hpp>
#include <termgate/statements/classify.hpp>

#include "claims.hpp"
#include "held_messages.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class Refusals {
 public:
  Refusals(Line& line, Claims& claims, TransactionModel& model, Texts& texts,
           const ServerFacts& facts, ClientNames& names, Judgement& judgement, OwnStatements& own,
           HeldMessages& held, Pipeline& pipeline, const Script& script) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        texts_(texts),
        facts_(facts),
        names_(names),
        judgement_(judgement),
        own_(own),
        held_(held),
        pipeline_(pipeline),
        script_(script) {}

  static std::string error_text(std::string_view code, std::string_view message,
                                std::string_view hint);

  // --- refused by the proxy ---
  void refuse(std::string_view code, std::string_view message, std::string_view hint);
  void refuse_unless_unknown(std::string_view sql, const statements::Statement& statement,
                             const Refusal& refusal, const ScopedTerm& pair);
  void refuse_reserved();
  // For an Act that refuses. refusal_of() has what the client sees.
  void refuse(Act act, const Effects& effects, const Claim& claim);
  Refusal refusal_of(Act act, const Effects& effects, const Claim& claim) const;
  void refuse_from_memory(const Refusal& refusal, const ScopedTerm& pair);
  void fail_in_server(const std::string& error);
  void report_refusal(std::string_view code, std::string_view message, const ScopedTerm& pair,
                      std::int64_t fence, bool from_memory);

  // --- refused by the server ---
  static bool stale_report(std::string_view message, ScopedTerm& pair,
                           std::int64_t& fence) noexcept;
  void ours_refused(const pgwire::ReportFields& report, Purpose role);

 private:
  void end_as_stale(std::string_view message);
  Explained explained(const pgwire::ReportFields& report, Purpose role) const;

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  const ServerFacts& facts_;
  ClientNames& names_;
  Judgement& judgement_;
  OwnStatements& own_;
  HeldMessages& held_;
  Pipeline& pipeline_;
  const Script& script_;
};

}  // namespace termgate::pg_session
