// Sends a unit (guard.hpp) to the server with the messages that the decision requires around it,
// and records what the unit will change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "claims.hpp"
#include "effects.hpp"
#include "guard.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "own_statements.hpp"
#include "parts.hpp"
#include "refusals.hpp"
#include "replies.hpp"
#include "seating.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class Carrier {
 public:
  Carrier(Line& line, Claims& claims, TransactionModel& model, Texts& texts, ClientNames& names,
          Judgement& judgement, OwnStatements& own, Refusals& refusals, Seating& seating) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        texts_(texts),
        names_(names),
        judgement_(judgement),
        own_(own),
        refusals_(refusals),
        seating_(seating) {}

  // --- ahead of the unit ---
  // For a unit in an open transaction. True: the proxy added a message. A refused statement is
  // answered here, and the transaction has failed then.
  bool guard_block(const Effects& effects, const Claim& claim, Step step);
  // Does what the decision says, in the open transaction, or refuses. `frame`, `hold` and the
  // opening of a held pipeline are left to the caller.
  bool carry_out(Act act, const Effects& effects, const Claim& claim);
  bool settle_mode();
  bool release_mark();
  // Adds what the transaction still needs before the COMMIT or Sync that comes next. True: the
  // proxy added a message.
  bool add_before_commit();

  // --- the unit itself ---
  void run_plain_query(std::string_view sql, Purpose role = Purpose::client,
                       Change change = Change::none, std::size_t read_hash = 0);
  void run_converted(std::string_view sql, const Effects& effects, std::size_t read_hash = 0);

  // --- after the unit ---
  void note_handed_over(const Effects& effects);
  // `named`: a comment names the claim.
  void note_sent(const Effects& effects, bool named);

 private:
  void note_prepared(const Effects& effects);
  bool mark();
  bool lock_for_commit();

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  ClientNames& names_;
  Judgement& judgement_;
  OwnStatements& own_;
  Refusals& refusals_;
  Seating& seating_;
};

}  // namespace termgate::pg_session
