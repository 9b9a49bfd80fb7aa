// The proxy's one decision: may this unit run, and with which check? Pure: values in, a value out;
// no I/O, no clock, no memory.
//
// A unit is what the proxy decides about at once: one statement of a simple query, one Parse, Bind
// or Execute, or one fast-path call. To open a transaction is to make it writable, which the proxy
// otherwise keeps READ ONLY; the opening is the messages that do so, with the check. A frame is a
// BEGIN and a COMMIT of the proxy's around a text of the client's. A unit goes through three files:
//
//   effects.cpp    what it is: unit_of() makes a Unit of its effects and the step that the server
//                  gets it with
//   guard.cpp      what must happen to it: decide() returns an Act, wherever the unit runs
//   carrier.cpp    what is sent for it in an open transaction: carry_out()
//
// The callers (simple.cpp, script.cpp, group.cpp, carrier.cpp) pass on what they know, and do what
// the Act says. What holds whatever the client sends:
//
//   - A transaction that ran anything of the client's (`acted`) while it could write commits only if
//     the last claim in force has passed its check in that transaction (F1, F2). before_commit()
//     returns what is missing; where termgate_guard covers the session, the server sees to that.
//   - What is not certainly a read runs after a check, or READ ONLY (F6).
//   - A call of layer 1's own functions does not replace the check of any other statement.
//
// tests/unit/proxy/postgres/guard.cpp has the table of all combinations, and a random test of the
// three sentences above.
#pragma once

#include <cstdint>

namespace termgate::pg_session {

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
  // A query with set_config() of termgate.scope or termgate.term that is otherwise a read.
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

// The message that brings the unit to the server: a Parse; a Bind; an Execute, a simple query or a
// fast-path call.
enum class Step : std::uint8_t { parses, plans, runs };

struct Unit {
  // What it does when it runs.
  Does does = Does::writes;
  Step step = Step::runs;
  // What a Parse or a Bind of it runs already: `reads` or `calls` if that is code of the client's,
  // otherwise `quiet`.
  Does ahead = Does::quiet;
  // That code is the input function of a parameter, which may do anything.
  bool input = false;
  // A Parse or a Bind of it fixes the access mode of its transaction, as a snapshot does.
  bool snapshot = true;
  // READ ONLY would not stop it.
  bool hole = false;
  // A comment names its scope or term.
  bool named = false;
  // SET, set_config() and the like of scope or term: the earlier declaration is no longer in force.
  bool redeclares = false;
  // DISCARD ALL.
  bool discards = false;
  // Its text cannot be read, or the statement of its name is not known.
  bool unread = false;
  // It would release the lock that it runs under.
  bool unlocks = false;
  // It is one call of layer 1's functions. If the operator's rule is final, that is a write like
  // others.
  bool own = false;
  // That call writes, and the fence of some scope is untrusted (TG004).
  bool untrusted = false;

  Does now() const noexcept { return step == Step::runs ? does : ahead; }
};

// What is known of the claim that is in force for a unit.
enum class Standing : std::uint8_t {
  // As far as the proxy has seen, nothing was declared.
  none,
  // Something was declared, and only the server's session knows what.
  uncertain,
  // Known, and no remembered fence contradicts it.
  current,
  // Known, and lower than a remembered fence.
  stale,
  // The database may have lost the fence of its scope (TG004).
  untrusted,
  // Malformed, or the rule of this connection has no term now, or another one than at first.
  problem,
};
inline constexpr int standing_count = static_cast<int>(Standing::problem) + 1;

// Where the unit runs.
enum class Place : std::uint8_t {
  alone,  // a simple query outside of a block
  text,   // a statement of a text outside of a block, which may get a frame
  call,   // the fast path outside of a block: nothing can be put around it
  block,  // of the client's, or a frame of ours
  group,  // the implicit transaction of a pipeline
};

// Where the messages of a pipeline go.
enum class Goes : std::uint8_t {
  nowhere,      // no pipeline is open
  held,         // until it is known whether they write
  direct,       // to the server
  handed_over,  // to the server unchanged: it guards the session, or the session has a seat
  refused,      // dropped up to the Sync
};

// The pipeline that the unit belongs to: the extended messages up to a Sync.
struct PipelineView {
  Goes goes = Goes::nowhere;
  // It has a statement that runs alone under the check's lock.
  bool needs_hold = false;
  // DISCARD ALL ran in it.
  bool discarded = false;
  // What was sent may begin the server's transaction.
  bool touched_server = false;
  bool executed = false;
  // Something was parsed or bound that may run code in that step.
  bool planned = false;
  // --- since the last transaction in the pipeline ended, if any has ---
  bool executed_here = false;
  // Something was parsed or bound that fixes the access mode.
  bool snapshot_here = false;
  // Something came that may run code: anything but SET and plain declarations.
  bool acted_here = false;
  // Something that is not certainly a read came while the transaction was READ ONLY.
  bool called = false;
  // The transaction can still be opened at its beginning, in front of what is held.
  bool opening_possible = true;

  bool begun() const noexcept { return goes != Goes::nowhere; }
  bool direct() const noexcept { return goes == Goes::direct || goes == Goes::handed_over; }
};

// What is known of a transaction, when everything sent has run.
struct TransactionFacts {
  bool failed = false;
  // Its access mode is fixed, and it is READ ONLY.
  bool snapshot = false;
  // The proxy made it writable.
  bool writable = false;
  // The proxy made it READ ONLY again.
  bool locked = false;
  // The check of what the session declares, or of its rule, has passed, or is on its way ahead of
  // whatever follows.
  bool session_passed = false;
  // As session_passed, for the claim of a comment or the arguments of check_term().
  bool other_passed = false;
  // Something that ran since the last check may have changed the declaration.
  bool redeclared = false;
  // Something ran in it that a check must cover: anything but SET, transaction control, plain
  // declarations, and calls of layer 1.
  bool acted = false;
  // As `acted`, since the last check of what the session declares.
  bool acted_since = false;
  // Something that acted may have declared since the last check: what it wrote after that is under
  // the new claim.
  bool code_declared = false;
  // Something acted under what the session declares since that was last checked. The check of a
  // comment's claim does not cover it.
  bool unnamed = false;
  // Something ran while it was locked. What that left behind, a cursor WITH HOLD or a deferred
  // trigger, may run at the COMMIT, when no savepoint keeps the transaction READ ONLY any more.
  bool left_over = false;

  bool passed_any() const noexcept { return session_passed || other_passed; }
};

// The transaction that the unit would run in, and what is around it.
struct TransactionView {
  Place place = Place::alone;
  TransactionFacts tx{};
  // The server's session is READ ONLY by default, so that the proxy has to make it writable.
  bool guards = true;
  // The client wants it READ ONLY.
  bool read_only = false;
  // The client wants the session READ ONLY, or the server is a standby.
  bool reads_only = false;
  // termgate_guard refuses what no passed check covers, whatever the proxy lets through.
  bool server_guards = false;
  // The check has passed for the claim that this unit names.
  bool named_passed = false;
  // Since the last check nothing but one Parse or Bind may have declared, and its own Bind or
  // Execute may follow at once.
  bool redeclared_ahead = false;
  // --- for a pipeline ---
  PipelineView pipeline{};
  // Messages are held ahead of the unit, and it can be held too.
  bool can_wait = false;
  // The worst standing of a claim that a comment in the pipeline names.
  Standing members = Standing::none;

  bool may_write() const noexcept { return (tx.writable && !tx.locked) || !guards; }
};

struct Policy {
  // Writes need a check first.
  bool active = true;
  bool standby = false;
  // The session has, or may have, a scope and a term.
  bool may_speak = true;
  // It may write without them until it declares some.
  bool allows = false;
};

enum class Act : std::uint8_t {
  // Send the unit with no message of ours around it.
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
  // Make the transaction READ ONLY again: no check has passed in it, and nothing that needs one has
  // run. Before a COMMIT this covers the whole transaction, not only its savepoints.
  lock,
  // Put BEGIN and COMMIT around the unit, then decide again inside that block.
  frame,
  // Let the session hold the check's lock while the unit runs.
  hold,
  // --- in a pipeline ---
  // Nothing yet: it is decided when it runs.
  wait,
  // Nothing yet: the transaction is opened when it runs, or with a later statement.
  open_later,
  // Make the transaction writable where it begins, and check here: what an earlier statement has
  // declared counts only from there on.
  open_then_check,
  // Make the transaction writable where it begins, check there, and again here: earlier reads may
  // have declared.
  open_then_recheck,
  // The transaction stays READ ONLY to its end.
  stay_read_only,
  // --- refusals; refusals.cpp has their words ---
  refuse_claim,             // the claim itself is wrong
  refuse_known,             // TG001 or TG004, by the remembered fences
  refuse_member,            // as those two, for the claim of an earlier statement of the pipeline
  refuse_own,               // a call of layer 1 that writes what is untrusted
  refuse_no_term,           // READ ONLY would not stop the unit, and there is no claim
  refuse_own_word,          // READ ONLY would not stop it in a pipeline that the client wants so
  refuse_unread,            // the proxy cannot read it, and there is no claim
  refuse_unread_read_only,  // the proxy cannot read it, and the client wants READ ONLY
  refuse_call,              // the fast path would write outside of a block
  refuse_unlocks,           // it would release the lock that it needs
  // It must be the only statement of its pipeline, but another comes before it, or another or a
  // Flush comes after it.
  refuse_code_after,
  refuse_alone_after,
  refuse_after_held,
  refuse_flush,
  refuse_discard,
  // Earlier statements of the pipeline would run writable, without a check.
  refuse_after_call,
  refuse_after_read,
  refuse_own_after_call,
};
constexpr bool is_refusal(Act act) noexcept { return act >= Act::refuse_claim; }
constexpr bool refuses_claim(Act act) noexcept {
  return act == Act::refuse_claim || act == Act::refuse_known;
}

Act decide(const Unit& unit, const TransactionView& view, Standing claim,
           const Policy& policy) noexcept;

// Refuses a unit, or lets it wait, before the transaction around it is touched. `pass`: decide()
// comes next.
Act at_sight(const Unit& unit, const TransactionView& view, Standing claim,
             const Policy& policy) noexcept;

// What this transaction still needs before it may commit: pass, check, recheck or lock.
Act before_commit(const TransactionView& view, const Policy& policy) noexcept;

// What happens to a pipeline that can be held no longer: it is opened, stays READ ONLY, passes, or
// is refused. `writes`: something was parsed in it that writes or may write. `flushed`: the client
// has sent a Flush, or nothing for a while.
Act before_flush(const TransactionView& view, Standing claim, bool writes, bool flushed) noexcept;

// Whether the unit is decided about completely: when it runs, or when a write is bound that opens
// its block, so that its values go straight through, however many there are.
bool runs_now(const Unit& unit, bool writable, Standing claim) noexcept;

}  // namespace termgate::pg_session
