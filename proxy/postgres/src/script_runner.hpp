// Simple queries: one statement (simple.cpp), or several that are sent piece by piece (script.cpp).
// Also the fast path for function calls, which is answered like a simple query.
#pragma once

#include <cstddef>
#include <string_view>

#include <termgate/pgwire/reader.hpp>
#include <termgate/statements/classify.hpp>

#include "carrier.hpp"
#include "claims.hpp"
#include "effects.hpp"
#include "guard.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "lone_statement.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "refusals.hpp"
#include "seating.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread. Invariant: a frame (guard.hpp) exists only around a text
// that runs.
class ScriptRunner {
 public:
  ScriptRunner(Line& line, Claims& claims, TransactionModel& model, Texts& texts,
               const ServerFacts& facts, ClientNames& names, Judgement& judgement,
               OwnStatements& own, Refusals& refusals, Seating& seating, Carrier& carrier,
               LoneStatement& lone, Pipeline& pipeline, Script& script) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        texts_(texts),
        facts_(facts),
        names_(names),
        judgement_(judgement),
        own_(own),
        refusals_(refusals),
        seating_(seating),
        carrier_(carrier),
        lone_(lone),
        pipeline_(pipeline),
        script_(script) {}

  void on_query(std::string_view sql);
  void on_function_call(const pgwire::Event& event);
  // Called at the start of a script, and when a piece of it has succeeded or failed.
  void next_piece();

 private:
  // --- simple.cpp ---
  void run_statement(std::string_view sql, Effects effects, const Claim& claim,
                     const statements::Classified& text);
  static bool opens_for_reading(std::string_view body) noexcept;

  // --- script.cpp ---
  void start_script(std::string_view sql, Text text);
  bool run_apart(const statements::Statement& statement, const Effects& effects);
  Act decided_in_script(const statements::Statement& statement, const Effects& effects) const;
  void send_piece(const Effects& effects);
  void finish_script();
  void begin_frame();
  void script_refused();
  bool frame_refuses(const Effects& effects);
  Effects resolved_statement(const statements::Statement& statement) const;
  bool frame_needed(std::size_t from) const;

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  const ServerFacts& facts_;
  ClientNames& names_;
  Judgement& judgement_;
  OwnStatements& own_;
  Refusals& refusals_;
  Seating& seating_;
  Carrier& carrier_;
  LoneStatement& lone_;
  Pipeline& pipeline_;
  Script& script_;
};

}  // namespace termgate::pg_session
