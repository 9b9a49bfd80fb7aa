// The messages that the proxy itself sends ahead of, around and after the client's
// (docs/decisions/0006). They are prepared, run and closed here, and remembered if an error kept
// the server from closing them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <termgate/pgwire/encode.hpp>

#include "batch.hpp"
#include "claims.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "parts.hpp"
#include "replies.hpp"
#include "seat.hpp"
#include "transaction_model.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread. `to` is the server's batch, that of a held pipeline, or
// one that will be inserted into a held pipeline.
class OwnStatements {
 public:
  OwnStatements(Line& line, Claims& claims, TransactionModel& model, Texts& texts,
                const ServerFacts& facts, Seat& seat, const Judgement& judgement,
                const Pipeline& pipeline, const Script& script) noexcept
      : line_(line),
        claims_(claims),
        model_(model),
        texts_(texts),
        facts_(facts),
        seat_(seat),
        judgement_(judgement),
        pipeline_(pipeline),
        script_(script) {}

  // --- one statement of the proxy ---
  // Prepares, binds, executes and closes it. `error`: what the client sees instead if it fails.
  void run(Batch& to, ProxyStatement which, Purpose role,
           std::span<const pgwire::Field> values = {}, std::string_view error = {});
  void add_hidden_query(std::string_view sql, Purpose role);
  void add_sync(Purpose role);
  // Adds a Sync whose ReadyForQuery goes to the client.
  void add_client_sync();
  // The server has closed the statement that this Parse of ours made.
  void closed(ProxyStatement which, std::size_t parse) noexcept;

  // --- checks ---
  // `opens`: the transaction becomes writable with this check.
  void add_check(Batch& to, const Claim& claim, Purpose role, bool opens = false);
  void add_recheck(Batch& to);
  void add_opening(Batch& to, const Claim& claim, bool with_check, bool settles = true);
  void raise_in_advance(const Claim& claim);
  // The check that was sent last.
  const Check& last_check() const noexcept { return check_; }
  void checks(const ScopedTerm& pair, bool given);

  // --- the seat ---
  void stand_here(Batch& to, Purpose role);
  void stand_before_raise(Batch& to);

  // --- access modes ---
  void look_at_own(Batch& to);
  // `looks`: first queries the current value, on a server that does not report it.
  void restore_default(bool looks);
  void ask_recovery();

 private:
  bool code_may_raise() const;
  const std::string& name_of(ProxyStatement which);
  void prepare(Batch& to, ProxyStatement which, Purpose role, std::string_view error);
  bool owes_mode(bool opens) const noexcept;
  bool lends_default() const noexcept;
  void settle_own_mode(Batch& to, bool opens);

  Line& line_;
  Claims& claims_;
  TransactionModel& model_;
  Texts& texts_;
  const ServerFacts& facts_;
  Seat& seat_;
  const Judgement& judgement_;
  const Pipeline& pipeline_;
  const Script& script_;

  std::array<std::string, proxy_statement_count> names_;
  // For each statement, the number of its last Parse, until the server has closed what that made;
  // 0: none. An error makes the server skip the Close that follows it.
  std::array<std::size_t, proxy_statement_count> left_{};
  // How many Parses were sent (which numbers them), and how many of them ahead of the last Sync.
  std::size_t parses_ = 0, parses_synced_ = 0;
  Check check_;
};

}  // namespace termgate::pg_session
