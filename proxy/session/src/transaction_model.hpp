// The transaction that the session is in: as it will be when everything sent has run (predicted), and as the server reports it (observed).
// Once every request is answered the two agree.
//
// Owner: the session's State; its thread. Pure: no I/O, no clock. assert_consistent() has the invariants.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/decode.hpp>

#include "claims.hpp"
#include "effects.hpp"
#include "replies.hpp"

namespace termgate::session {

// Whether transactions may write, as the client is to find it.
enum class Mode : std::uint8_t {
  servers,     // as the server itself says: by its files, ALTER DATABASE, ALTER ROLE, the start-up message
  asked,       // of a transaction: the same, and it was asked in this one
  read_only,   // by the client's own word
  read_write,  // likewise
};

// The transaction as it will be when everything sent has run.
struct Transaction {
  bool in_block = false;
  bool failed = false;
  Mode mode = Mode::servers;
  bool snapshot = false;         // its access mode is fixed, and it is READ ONLY
  bool writable = false;         // made so by us
  bool locked = false;           // … and READ ONLY again
  bool mode_unsure = false;      // … as far as is known: an end that chains may have undone what made or locked the transaction before
  bool session_passed = false;   // the check of what the session declares was passed, or is on its way before whatever follows
  bool other_passed = false;     // … of what a comment names, or as the arguments of check_term()
  bool redeclared = false;       // something may have declared anew since
  bool acted = false;            // something ran that needs a check before its transaction commits
  bool acted_since = false;      // … since the last check of what the session declares
  bool code_declared = false;    // something that acted may have declared anew since
  bool declared_inside = false;  // scope or term may have been declared in it
  bool suspect = false;          // something in it may have changed the session's default
  bool calling_cursor = false;   // FETCH may run functions
  bool unnamed = false;          // something acted under what the session declares, since the last check of that
  bool left_over =
      false;  // something ran while it was locked; what that left for the COMMIT runs when no savepoint keeps it READ ONLY any more
  bool savepoint = false;                                             // one of the client's was set in it
  std::optional<std::vector<std::string>> savepoints{std::in_place};  // those that are open, by name; nothing: not known after an error
  bool marked = false;                                                // … and one of ours precedes the first
  bool lock_stays = false;                                            // it was locked outside of all savepoints
  bool was_unmarked = false;                                          // … and ours was released again
  bool stood = false;                                                 // the session's seat was given back in it
  std::vector<ScopedTerm> passed;                                     // by comments
  ScopedTerm last;                                                    // as the check answered
  std::optional<std::string> parsed, bound;  // the statement whose Parse, the portal whose Bind alone may have declared anew

  bool passed_any() const noexcept { return session_passed || other_passed; }
  bool outside_savepoints() const noexcept { return !marked && (!savepoint || (savepoints && savepoints->empty())); }
  // What the session declares was checked.
  void checked() { redeclared = code_declared = acted_since = unnamed = false; }
  // Whatever lock there was may be gone.
  void forget_checks() {
    session_passed = other_passed = false;
    redeclared = true;
    acted_since = unnamed = acted;
    code_declared = acted;  // a check that failed, or was undone, has cleared nobody
    passed.clear();
    parsed.reset();
    bound.reset();
  }
};

// default_transaction_read_only: `on` in the server, and what the client has made of it.
struct Default {
  Mode believed = Mode::servers;  // as it will be when everything sent has run
  Mode before_block = Mode::servers;
  Mode answered = Mode::servers;   // by what the server has answered so far
  Mode committed = Mode::servers;  // … and what it falls back to where the transaction fails
  bool own = false;                // what it is without a word of the client's, as the server has said last
  bool unit_failed = false;        // an error came since the last ReadyForQuery
  bool shown = false;              // by the last ParameterStatus
  bool broken = false;             // the server's own value is off: put back before anything else
  bool reported = false;           // the server reports changes of it (14 and later); else it is put back by suspicion

  bool read_only(Mode mode) const noexcept { return mode == Mode::read_only || (mode != Mode::read_write && own); }
};

struct TransactionModel {
  Transaction tx;
  Default by_default;
  pgwire::TransactionStatus status = pgwire::TransactionStatus::idle;  // by the last ReadyForQuery
  // What of ours the server has answered in this transaction: what was sent behind an error was skipped.
  bool mark_there = false;       // our savepoint is
  bool locked_for_good = false;  // READ ONLY outside of all savepoints
  std::size_t ends_sent = 0;     // which transaction it is
  // A check in a block failed: the text after it meets 25P02, or a COMMIT that rolls back, which nobody need see.
  bool opening_refused = false;
  std::list<Transaction> ended;  // what was open before each end that is on its way: where the server skips it, it still is

  Mode mode_now() const noexcept;

  // --- predicted ---
  // A statement goes to the server. `does`: as the decision sees it. `guarded`: the server session is READ ONLY by default. True: what the
  // session declares may be another claim once it has run. `named`: it names its claim itself.
  bool apply(const Effects& effects, Does does, bool guarded, bool named);
  // A Parse or a Bind that runs code goes to the server: what it ran may have declared, and written under it. Parse, Bind and Execute of
  // one statement with nothing in between are one unit.
  void on_parse(std::string_view statement, const Effects& effects, bool named);
  void before_bind(std::string_view statement);
  void on_bind(std::string_view portal, const Effects& effects, bool named);
  void on_execute(std::string_view portal);
  // A BEGIN of ours, or one of the client's that ours replaces.
  void begin_block();
  // The server gives a transaction back the access mode that it had at a savepoint.
  void savepoint_over() noexcept {
    if (tx.mode == Mode::asked) tx.mode = Mode::servers;
  }
  // The implicit transaction of a pipeline, or of a converted query, ends with its Sync.
  void end_implicit() {
    if (!tx.in_block) tx = Transaction();
  }

  // --- observed ---
  // A SET is believed when it has succeeded, and for good when its transaction has.
  void on_command_complete(Change change, std::string_view tag);
  void on_error() noexcept { by_default.unit_failed = true; }
  // `in_text`: more of the client's text may follow, all of it one transaction unless it ends one itself; `text_failed`: nothing will.
  void on_ready(pgwire::TransactionStatus now, bool in_text, bool text_failed);
  void on_text_done(bool failed);
  // Of a message of ours that makes the transaction READ ONLY, or keeps the way there.
  // `locks`: for all of the transaction behind so many ends.
  void on_mode_done(std::string_view tag, std::optional<std::size_t> locks);
  // What default_transaction_read_only is after code of the client's, which may have set it. `lent`: it was not ours meanwhile.
  void default_is(bool on, bool lent);
  // Every request is answered: what the server says of the transaction is what it is.
  void settle();

  void assert_consistent() const noexcept;

 private:
  // Code of the client's ran; `declares`: it may have declared.
  void ran(bool declares, bool named);
  void apply_to_access_mode(const Effects& effects, bool ends, bool guarded);
  void apply_control(const Effects& effects);
  void follow_savepoints(const Effects& effects);
  void end_sent();
};

}  // namespace termgate::session
