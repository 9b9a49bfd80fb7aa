// The messages of a pipeline that are held back until it is known whether it writes, and how they
// go to the server: unchanged, made READ ONLY, or with an opening where their transaction begins.
#pragma once

#include "claims.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class HeldMessages {
 public:
  HeldMessages(Line& line, const Claims& claims, TransactionModel& model,
               const Judgement& judgement, OwnStatements& own, Pipeline& pipeline) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        judgement_(judgement),
        own_(own),
        pipeline_(pipeline) {}

  void send_first();
  void open_group(const Claim& claim, bool with_check);
  void lock_group();
  void lock_reads();
  void flush_group();

 private:
  Line& line_;
  const Claims& claims_;
  TransactionModel& model_;
  const Judgement& judgement_;
  OwnStatements& own_;
  Pipeline& pipeline_;
};

}  // namespace termgate::pg_session
