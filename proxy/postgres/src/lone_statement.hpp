// Runs statements that cannot run inside a block of ours, while the session holds the check's lock:
// DO and CALL in one pipeline with the checks that follow them; the rest (VACUUM and the like)
// alone, because it cannot be in a pipeline.
#pragma once

#include <string_view>

#include "carrier.hpp"
#include "claims.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class LoneStatement {
 public:
  LoneStatement(Line& line, Claims& claims, TransactionModel& model, const ServerFacts& facts,
                Judgement& judgement, OwnStatements& own, Carrier& carrier,
                SessionLock& session_lock) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        facts_(facts),
        judgement_(judgement),
        own_(own),
        carrier_(carrier),
        session_lock_(session_lock) {}

  // For a simple query, or the extended messages up to a Sync.
  void run_held(std::string_view sql, const Effects& effects, const Claim& claim);
  void run_held(Pipeline& pipeline);
  // Called when every request is answered. True: the next step is on its way, or the session has
  // ended.
  bool goes_on();

 private:
  void hold(const Claim& claim);
  void release();
  void run_under_hold();

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  const ServerFacts& facts_;
  Judgement& judgement_;
  OwnStatements& own_;
  Carrier& carrier_;
  SessionLock& session_lock_;
};

}  // namespace termgate::pg_session
