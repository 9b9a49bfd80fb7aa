// The messages of the extended protocol: one by one (extended.cpp), and as a group up to a Sync
// (group.cpp).
#pragma once

#include <string_view>

#include <termgate/pgwire/reader.hpp>

#include "carrier.hpp"
#include "claims.hpp"
#include "effects.hpp"
#include "guard.hpp"
#include "held_messages.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "lone_statement.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "refusals.hpp"
#include "seat.hpp"
#include "seating.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread. Invariant: messages are held only while a pipeline is
// open.
class PipelineRunner {
 public:
  PipelineRunner(Line& line, Claims& claims, TransactionModel& model, Texts& texts,
                 const ServerFacts& facts, ClientNames& names, const Seat& seat,
                 Judgement& judgement, OwnStatements& own, HeldMessages& held, Refusals& refusals,
                 Seating& seating, Carrier& carrier, LoneStatement& lone,
                 Pipeline& pipeline) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        texts_(texts),
        facts_(facts),
        names_(names),
        seat_(seat),
        judgement_(judgement),
        own_(own),
        held_(held),
        refusals_(refusals),
        seating_(seating),
        carrier_(carrier),
        lone_(lone),
        pipeline_(pipeline) {}

  void on_parse(const pgwire::Event& event);
  void on_describe(const pgwire::Event& event);
  void on_bind(const pgwire::Event& event);
  void on_execute(const pgwire::Event& event);
  void on_close(const pgwire::Event& event);
  // True: every request is answered.
  bool on_sync();
  void on_flush();
  void send_held();
  void commit_to_group(bool flushed = false);

 private:
  // --- extended.cpp ---
  bool guard_parse(std::string_view name, Known known);
  void close_unnamed_portal(const pgwire::Event& event);
  void ask_whether_there(const pgwire::Event& event, Request what, std::string_view name);
  void parse_again(const pgwire::Event& event, std::string_view name, std::string_view parse);
  void forward_extended(const pgwire::Event& event, PendingReply reply);

  // --- group.cpp ---
  // Called for each extended message, Sync and Flush included. The first of a group fixes where its
  // messages go (Goes). `declares`: the proxy must judge from here on, so the seat is given up and
  // messages no longer pass to the server unjudged.
  void group_begins(bool declares = false);
  void guard_group(const Effects& effects, const Known& known, Step step, bool whole);
  TransactionView view_of(const Claim& claim, bool whole = true) const;
  void note_named(const Claim& claim);
  void pass_in_group(const Unit& unit, const Claim& claim);
  void carry_out_in_group(Act act, const Effects& effects, const Claim& claim);

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  const ServerFacts& facts_;
  ClientNames& names_;
  const Seat& seat_;
  Judgement& judgement_;
  OwnStatements& own_;
  HeldMessages& held_;
  Refusals& refusals_;
  Seating& seating_;
  Carrier& carrier_;
  LoneStatement& lone_;
  Pipeline& pipeline_;
};

}  // namespace termgate::pg_session
