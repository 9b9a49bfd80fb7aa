// What the server's replies (server.cpp) and errors (server_error.cpp) say of the session and its
// transaction. reply_router.hpp decides what the client sees of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/reader.hpp>

#include "claims.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "login.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "refusals.hpp"
#include "seat.hpp"
#include "seating.hpp"
#include "transaction_model.hpp"
#include "waiting.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class ServerReplies {
 public:
  ServerReplies(Line& line, Claims& claims, TransactionModel& model, Texts& texts,
                ServerFacts& facts, ClientNames& names, Seat& seat, Login& login,
                Judgement& judgement, OwnStatements& own, Refusals& refusals, Seating& seating,
                Waiting& waiting, Pipeline& pipeline, Script& script,
                SessionLock& session_lock) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        texts_(texts),
        facts_(facts),
        names_(names),
        seat_(seat),
        login_(login),
        judgement_(judgement),
        own_(own),
        refusals_(refusals),
        seating_(seating),
        waiting_(waiting),
        pipeline_(pipeline),
        script_(script),
        session_lock_(session_lock) {}

  // True: every request is answered.
  bool server_event(const pgwire::Event& event);
  void parameter_status(const pgwire::Event& event);
  // Every request is answered: from here on the server's report about the transaction counts.
  void settle_transaction();
  // Whether the client's waiting messages may be processed now.
  bool take_pump() noexcept { return std::exchange(pump_, false); }
  // The open transaction ends, and the client sees this message.
  void evicted(std::string message) { evicted_message_ = std::move(message); }

 private:
  // --- server.cpp ---
  void other_event(const pgwire::Event& event);
  bool row_of_ours(const pgwire::Event& event);
  bool command_completed(const pgwire::Event& event);
  bool ready_for_query(const pgwire::Event& event);
  void check_answered(std::string_view row);
  bool row_shown(const pgwire::Event& event);
  void out_of_step(const pgwire::Event& event);

  // --- server_error.cpp ---
  void server_error(const pgwire::Event& event);
  void client_failed(const pgwire::Event& event, const pgwire::ReportFields& report);
  void read_has_written(const pgwire::ReportFields& report);
  void remember_writers_of_piece();
  void ours_failed(const pgwire::Event& event, const pgwire::ReportFields& report);
  void drop_until_sync();

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  ServerFacts& facts_;
  ClientNames& names_;
  Seat& seat_;
  Login& login_;
  Judgement& judgement_;
  OwnStatements& own_;
  Refusals& refusals_;
  Seating& seating_;
  Waiting& waiting_;
  Pipeline& pipeline_;
  Script& script_;
  SessionLock& session_lock_;

  bool pump_ = false;
  // Fences from checks that are higher than all known ones. They count only once the transaction
  // has committed, because the check itself may have raised them.
  std::vector<std::pair<std::string, std::int64_t>> fences_unsettled_;
  std::string evicted_message_;
};

}  // namespace termgate::pg_session
