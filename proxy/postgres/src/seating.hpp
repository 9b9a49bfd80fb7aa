// When the session takes and gives back its seat, and what passes under it (seat.hpp).
#pragma once

#include <string_view>
#include <utility>

#include <termgate/pgwire/reader.hpp>
#include <termgate/statements/classify.hpp>

#include "claims.hpp"
#include "effects.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "login.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "refusals.hpp"
#include "seat.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class Seating {
 public:
  Seating(Line& line, Claims& claims, TransactionModel& model, Texts& texts,
          const ServerFacts& facts, const ClientNames& names, Seat& seat, Judgement& judgement,
          OwnStatements& own, Refusals& refusals, const Login& login, const Pipeline& pipeline,
          const Script& script, const SessionLock& session_lock) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        texts_(texts),
        facts_(facts),
        names_(names),
        seat_(seat),
        judgement_(judgement),
        own_(own),
        refusals_(refusals),
        login_(login),
        pipeline_(pipeline),
        script_(script),
        session_lock_(session_lock) {}

  // --- between two transactions ---
  // No transaction is open, and no message is under way in either direction.
  bool at_rest() const noexcept;
  void mind_seat();
  void stand();
  void seat_settled();
  void gate_wanted(std::string_view scope);
  // sit() has failed, or has answered why there is no seat.
  void not_given(std::string_view code, std::string_view why);
  bool stands_before(const pgwire::Event& event);

  // --- a unit begins ---
  void unit_begins();
  void leave_seat();
  bool passes_under_seat() const noexcept;
  bool passes_seated(const statements::Classified& text, std::string_view sql) const;
  bool passes_seated(const Known* known) const;
  bool seat_covers() const;
  // The text of a message, classified. Kept until the message is judged or has to wait.
  const Text& peek(std::string_view sql);
  bool has_peeked(std::string_view sql) const noexcept { return peeked_.at == sql.data(); }
  Text take_peeked() { return std::exchange(peeked_, {}).text; }
  void forget_peeked() { peeked_ = {}; }

  // --- in a transaction ---
  bool lock_what_was_seated();

 private:
  void hand_over();
  void sit(const ScopedTerm& pair, const SeatOffer& offer);
  void look_at_seat();
  bool passes_seated(const Effects& effects) const noexcept;
  bool passes_seated(const Effects& effects, std::string_view executes) const;

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  const ServerFacts& facts_;
  const ClientNames& names_;
  Seat& seat_;
  Judgement& judgement_;
  OwnStatements& own_;
  Refusals& refusals_;
  const Login& login_;
  const Pipeline& pipeline_;
  const Script& script_;
  const SessionLock& session_lock_;

  struct Peeked {
    // Where the text is in the message.
    const char* at = nullptr;
    Text text;
  } peeked_;
};

}  // namespace termgate::pg_session
