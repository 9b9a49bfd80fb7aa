// The one decision of the proxy: may this unit run, and with which check? Pure: values in, a value out; no I/O, no clock, no memory.
// Everything a client can send becomes a Unit first (judgement.hpp), and whoever carries a unit to the server (simple.cpp, script.cpp,
// group.cpp, carrier.cpp) asks decide() and does what it says. What holds whatever the client sends:
//
//   - No transaction that ran anything of the client's while it could write commits unless the last claim in force has passed its
//     check in that transaction (F1, F2). before_commit() says what is missing.
//   - What is not surely a read runs with a check in front of it, or READ ONLY (F6).
//   - A call of layer 1's own functions spares nobody else's check.
//
// tests/unit/proxy/session/guard.cpp has the table of all combinations, and a random test of the three sentences above.
#pragma once

#include <cstdint>

namespace termgate::session {

// What a unit does, as far as its text shows. In the order of what must be done about it.
enum class Does : std::uint8_t {
  quiet,  // SET, SHOW, LISTEN, DEALLOCATE: takes no snapshot and runs no code of the client's
  begin,
  rollback,   // ROLLBACK, ROLLBACK TO, RELEASE: ends nothing that stays
  savepoint,  // fixes the access mode of its transaction, as a snapshot does
  commit,     // COMMIT, END, and the Sync of a pipeline outside of a block
  fetch,      // FETCH, MOVE: runs the code of a cursor that is open
  declares,   // nothing but set_config() of termgate.scope or termgate.term with plain values
  reads,      // surely a read, as far as a text can show it
  calls,      // looks like a read, and calls functions whose names say nothing
  own_call,   // nothing but the call of one function of layer 1, which checks the scope and term in its arguments itself
  writes,
  prepares,  // PREPARE TRANSACTION: a write, and the end of its transaction
  code,      // DO, CALL
  alone,     // must stand outside of a transaction block: VACUUM, CREATE DATABASE, COMMIT PREPARED
};
inline constexpr int does_count = static_cast<int>(Does::alone) + 1;

// When it is carried to the server: with a Parse, with a Bind, with an Execute or a simple query.
enum class Step : std::uint8_t { parses, plans, runs };

struct Unit {
  Does does = Does::writes;
  bool hole = false;        // READ ONLY would not stop it
  bool named = false;       // its own text names scope and term (a comment)
  bool redeclares = false;  // SET and the like of scope or term, or set_config() of them: what was declared before is not in force any more
};

// What is known of the claim that is in force for a unit.
enum class Standing : std::uint8_t {
  none,       // nothing was declared, as far as the proxy has seen
  uncertain,  // something was, and only the server's session knows what
  current,    // known, and nothing that is remembered speaks against it
  stale,      // known, and lower than the fence
  untrusted,  // the fence of its scope may have been forgotten (TG004)
  problem,    // malformed, or the rule of this connection has no term now
};
inline constexpr int standing_count = static_cast<int>(Standing::problem) + 1;

// The transaction that the unit would run in.
struct TransactionView {
  bool open = false;  // a block, or a frame: more of it may come. Else the unit is a transaction by itself
  bool failed = false;
  bool read_only = false;       // the client wants it READ ONLY
  bool fixed = false;           // its access mode is fixed, and it is READ ONLY
  bool writable = false;        // made so by us
  bool server_guards = false;   // termgate_guard refuses what a passed check does not cover, whatever the proxy lets through
  bool session_passed = false;  // the check has passed for what the session declares, or its rule
  bool other_passed = false;    // … for scope and term of a comment, or as the arguments of check_term()
  bool named_passed = false;    // … for what this very unit names
  bool redeclared = false;      // something that ran since then may have declared anew
  bool acted = false;           // something ran in it that needs a check: all but declarations and calls of layer 1
  bool acted_since = false;     // … since the last check of what the session declares
  bool code_declared = false;   // something that acted may have declared since the last check: what it wrote after that is under that claim
  bool unnamed = false;  // something acted under what the session declares since that was checked: a comment's claim does not stand for it
  bool left_over =
      false;  // something ran while we had made it READ ONLY again: a cursor WITH HOLD or a deferred trigger of it may run at the COMMIT

  bool operator==(const TransactionView&) const = default;
};

struct Policy {
  bool enforce = true;  // --enforce on
};

enum class Act : std::uint8_t {
  pass,            // as it is
  open_unchecked,  // made writable, with no check yet: only what is harmless by itself, or checks itself, may come next
  open,            // made writable, then the check
  check,           // the check, in a transaction that is writable already or stays READ ONLY
  recheck,         // the check of what the session declares by now
  check_both,      // recheck, for what code has declared and written under, and the check of what the unit itself names
  lock,            // made READ ONLY again: nothing was declared, so it reads. Before a COMMIT: in all of it, not only inside its savepoints
  frame,           // BEGIN and COMMIT around it, then decided again as part of that block
  hold,            // the check's lock is held by the session while it runs
  refuse_claim,    // with what is wrong with the claim
  refuse_known,    // TG001 or TG004, from memory
  refuse_no_term,  // TG002: READ ONLY would not stop it, and there is no claim
};

Act decide(const Unit& unit, const TransactionView& transaction, Standing claim, const Policy& policy) noexcept;

// What must still come before this transaction may commit: pass, check, recheck or lock. `writable`: it was made so, whatever a savepoint
// of it is now.
Act before_commit(const TransactionView& transaction, const Policy& policy) noexcept;

// Whether the transaction may go on with `unit` without another check.
bool covered(const Unit& unit, const TransactionView& transaction, Standing claim) noexcept;

}  // namespace termgate::session
