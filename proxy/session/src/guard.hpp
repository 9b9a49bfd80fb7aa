// The proxy's one decision: may this unit run, and with which check? Pure: values in, a value out;
// no I/O, no clock, no memory. Everything that a client can send becomes a Unit first
// (judgement.hpp). The code that sends units to the server (simple.cpp, script.cpp, group.cpp,
// carrier.cpp) calls decide() and does what it says. What holds whatever the client sends:
//
//   - A transaction that ran anything of the client's while it could write commits only if the last
//     claim in force has passed its check in that transaction (F1, F2). before_commit() returns what
//     is missing.
//   - What is not certainly a read runs after a check, or READ ONLY (F6).
//   - A call of layer 1's own functions does not replace the check of any other statement.
//
// tests/unit/proxy/session/guard.cpp has the table of all combinations, and a random test of the
// three sentences above.
#pragma once

#include <cstdint>

namespace termgate::session {

// What a unit does, as far as its text shows, ordered by how much must be done about it.
enum class Does : std::uint8_t {
  // SET, SHOW, LISTEN, DEALLOCATE: takes no snapshot and runs no code of the client's.
  quiet,
  begin,
  // ROLLBACK, ROLLBACK TO, RELEASE: commits nothing.
  rollback,
  // Fixes the access mode of its transaction, as a snapshot does.
  savepoint,
  // COMMIT, END, and the Sync of a pipeline outside of a block.
  commit,
  // FETCH, MOVE: runs the code of an open cursor.
  fetch,
  // Only set_config() of termgate.scope or termgate.term with plain values.
  declares,
  // Certainly a read, as far as a text can show it.
  reads,
  // Looks like a read, but calls functions of unknown effect.
  calls,
  // Only the call of one function of layer 1, which checks the scope and term in its arguments
  // itself.
  own_call,
  writes,
  // PREPARE TRANSACTION: a write, and the end of its transaction.
  prepares,
  code,  // DO, CALL
  // Must run outside of a transaction block: VACUUM, CREATE DATABASE, COMMIT PREPARED.
  alone,
};
inline constexpr int does_count = static_cast<int>(Does::alone) + 1;

// The step at which the server gets the unit: with a Parse, with a Bind, with an Execute or a
// simple query.
enum class Step : std::uint8_t { parses, plans, runs };

struct Unit {
  Does does = Does::writes;
  // READ ONLY would not stop it.
  bool hole = false;
  // A comment in its own text names scope and term.
  bool named = false;
  // SET, set_config() and the like of scope or term: the earlier declaration is no longer in force.
  bool redeclares = false;
};

// What is known of the claim that is in force for a unit.
enum class Standing : std::uint8_t {
  // As far as the proxy has seen, nothing was declared.
  none,
  // Something was declared, and only the server's session knows what.
  uncertain,
  // Known, and no remembered fence contradicts it.
  current,
  // Known, and lower than the fence.
  stale,
  // The database may have lost the fence of its scope (TG004).
  untrusted,
  // Malformed, or the rule of this connection has no term now.
  problem,
};
inline constexpr int standing_count = static_cast<int>(Standing::problem) + 1;

// The transaction that the unit would run in.
struct TransactionView {
  // A block or a frame is open, so more statements may follow. Otherwise the unit is a transaction
  // by itself.
  bool open = false;
  bool failed = false;
  // The client wants it READ ONLY.
  bool read_only = false;
  // Its access mode is fixed, and it is READ ONLY.
  bool fixed = false;
  // The proxy made it writable.
  bool writable = false;
  // termgate_guard refuses what no passed check covers, whatever the proxy lets through.
  bool server_guards = false;
  // The check has passed for what the session declares, or for its rule.
  bool session_passed = false;
  // The check has passed for the claim of a comment, or for the arguments of check_term().
  bool other_passed = false;
  // The check has passed for the claim that this unit names.
  bool named_passed = false;
  // Something that ran since the last check may have changed the declaration.
  bool redeclared = false;
  // Something ran in it that needs a check: anything but declarations and calls of layer 1.
  bool acted = false;
  // The same, since the last check of what the session declares.
  bool acted_since = false;
  // Something that acted may have declared since the last check: what it wrote after that is under
  // the new claim.
  bool code_declared = false;
  // Something acted under what the session declares since that was last checked. The check of a
  // comment's claim does not cover it.
  bool unnamed = false;
  // Something ran while the proxy had made it READ ONLY again. What that left behind, a cursor
  // WITH HOLD or a deferred trigger, may run at the COMMIT.
  bool left_over = false;

  bool operator==(const TransactionView&) const = default;
};

struct Policy {
  bool enforce = true;  // --enforce on
};

enum class Act : std::uint8_t {
  // Send the unit unchanged.
  pass,
  // Make the transaction writable without a check yet: only what is harmless by itself, or checks
  // itself, may come next.
  open_unchecked,
  // Make the transaction writable, then check.
  open,
  // Check, in a transaction that is writable already or stays READ ONLY.
  check,
  // Check what the session declares now.
  recheck,
  // `recheck`, for what code has declared and written under, then `check` for what the unit itself
  // names.
  check_both,
  // Make the transaction READ ONLY again: nothing was declared, so it only reads. Before a COMMIT
  // this covers the whole transaction, not only its savepoints.
  lock,
  // Put BEGIN and COMMIT around the unit, then decide again inside that block.
  frame,
  // Let the session hold the check's lock while the unit runs.
  hold,
  // Refuse: the claim itself is wrong.
  refuse_claim,
  // Refuse with TG001 or TG004, from memory.
  refuse_known,
  // Refuse with TG002: READ ONLY would not stop the unit, and there is no claim.
  refuse_no_term,
};

Act decide(const Unit& unit, const TransactionView& transaction, Standing claim, const Policy& policy) noexcept;

// What this transaction still needs before it may commit: pass, check, recheck or lock. `writable`
// in the view: it was made writable, even if a savepoint in it is READ ONLY now.
Act before_commit(const TransactionView& transaction, const Policy& policy) noexcept;

// Whether the transaction may go on with `unit` without another check.
bool covered(const Unit& unit, const TransactionView& transaction, Standing claim) noexcept;

}  // namespace termgate::session
