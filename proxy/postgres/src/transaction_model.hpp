// The transaction that the session is in: as it will be when everything sent has run (predicted),
// and as the server reports it (observed). When every request is answered, the two agree.
//
// Owner: the session's State; its thread. Pure: no I/O, no clock. assert_consistent() has the
// invariants.
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

namespace termgate::pg_session {

// Whether transactions may write, as the client sees it.
enum class Mode : std::uint8_t {
  // The server's own value: from its files, ALTER DATABASE, ALTER ROLE or the start-up message.
  servers,
  // As `servers`, for a transaction to which the proxy has applied that value already (own_mode).
  asked,
  read_only,   // as the client chose
  read_write,  // as the client chose
};

// The transaction as it will be when everything sent has run.
struct Transaction : TransactionFacts {
  bool in_block = false;
  Mode mode = Mode::servers;
  // AND CHAIN began it, and what made the transaction before it writable, or locked it, may be
  // undone.
  bool mode_unsure = false;
  // Scope or term may have been declared in this transaction.
  bool declared_inside = false;
  // Something in it may have changed the session's default.
  bool suspect = false;
  bool calling_cursor = false;  // FETCH may run functions
  // The client has set a savepoint in it.
  bool savepoint = false;
  // The names of the client's open savepoints. nullopt: they are not known, for example after an
  // error.
  std::optional<std::vector<std::string>> savepoints{std::in_place};
  // A savepoint of ours precedes the client's first.
  bool marked = false;
  // It was locked outside of all savepoints.
  bool lock_stays = false;
  // Our savepoint was released again.
  bool was_unmarked = false;
  // The session's seat was given back in it.
  bool stood = false;
  std::vector<ScopedTerm> passed;  // the claims of comments that have passed
  ScopedTerm last;                 // the claim that the last check returned
  // The Parse of a statement, or the Bind of a portal, which alone may have changed the
  // declaration.
  struct Ahead {
    Step step;
    std::string name;
  };
  std::optional<Ahead> ahead;

  bool outside_savepoints() const noexcept {
    return !marked && (!savepoint || (savepoints && savepoints->empty()));
  }
  // What the session declares was checked.
  void checked() { redeclared = code_declared = acted_since = unnamed = false; }
  // No lock or passed check can be relied on any more.
  void forget_checks() {
    session_passed = other_passed = false;
    redeclared = true;
    acted_since = unnamed = acted;
    code_declared = acted;  // a check that failed, or was undone, covers nothing
    passed.clear();
    ahead.reset();
  }
};

// The session's default_transaction_read_only, as the client has set it. While Claims::guards()
// holds, the proxy keeps the server's value `on`, except while a statement runs alone.
struct Default {
  // The value when everything sent has run.
  Mode believed = Mode::servers;
  Mode before_block = Mode::servers;
  // The value according to what the server has answered so far.
  Mode answered = Mode::servers;
  // The value that remains if the transaction fails.
  Mode committed = Mode::servers;
  // The value if the client had never set it, as the server reported it last.
  bool own = false;
  bool unit_failed = false;  // an error came since the last ReadyForQuery
  bool shown = false;        // what the client saw last, in a ParameterStatus
  // The server's value is off, or may be: it must be put back before anything else runs.
  bool broken = false;
  // The server reports changes of it (14 and later). Otherwise it is put back whenever it may have
  // changed.
  bool reported = false;

  bool read_only(Mode mode) const noexcept {
    return mode == Mode::read_only || (mode != Mode::read_write && own);
  }
};

struct TransactionModel {
  Transaction tx;
  Default by_default;
  pgwire::TransactionStatus status = pgwire::TransactionStatus::idle;  // by the last ReadyForQuery
  // Which messages of ours the server has answered in this transaction. After an error it skips
  // what was sent.
  bool mark_there = false;       // our savepoint exists
  bool locked_for_good = false;  // READ ONLY outside of all savepoints
  std::size_t ends_sent = 0;     // how many ends of transactions the server was sent
  // A message of ours in a block has failed, and the client has got that error. The client's text
  // after it fails with 25P02, or its COMMIT rolls back; the client need not see that too.
  bool opening_refused = false;
  // The transaction before each end that is on its way. If the server skips the end, that
  // transaction is still open.
  std::list<Transaction> ended;

  Mode mode_now() const noexcept;

  // --- predicted ---
  // A statement goes to the server. `does`: how the decision classifies it. `guarded`: the server
  // session is READ ONLY by default. `named`: the statement names its claim itself. True: once it
  // has run, the session may declare another claim.
  bool apply(const Effects& effects, Does does, bool guarded, bool named);
  // A Parse or a Bind that runs code goes to the server. That code may have declared a claim and
  // written under it. Parse, Bind and Execute of one statement with nothing in between are one
  // unit.
  void ran_ahead(Step step, std::string_view name, const Effects& effects, bool named);
  // After ran_ahead(): the Bind of this statement, or the Execute of this portal, is sent.
  void follows(Step step, std::string_view name);
  // For a BEGIN of the client's or of ours, and where our block becomes the client's.
  void begin_block();
  // RELEASE and ROLLBACK TO restore the access mode that the transaction had when the savepoint was
  // set, so what the proxy has applied since may be gone. Also after AND CHAIN, where that is
  // unsure.
  void savepoint_over() noexcept {
    if (tx.mode == Mode::asked) tx.mode = Mode::servers;
  }
  // The implicit transaction of a pipeline, or of a converted query (Carrier::run_converted), ends
  // with its Sync.
  void end_implicit() {
    if (!tx.in_block) tx = Transaction();
  }

  // --- observed ---
  // The value of a SET counts when the SET has succeeded, and for good when its transaction has
  // committed.
  void on_command_complete(Change change, std::string_view tag);
  void on_error() noexcept { by_default.unit_failed = true; }
  // `in_text`: more of the client's text may follow, in the same transaction unless the text ends
  // it. `text_failed`: nothing more follows.
  void on_ready(pgwire::TransactionStatus now, bool in_text, bool text_failed);
  void on_text_done(bool failed);
  // The server has run a message of ours that makes the transaction READ ONLY, or the savepoint
  // that lets us do so later. `locks`: set if it makes a whole transaction READ ONLY, namely the
  // one before which this many ends of transactions had been sent (ends_sent).
  void on_mode_done(std::string_view tag, std::optional<std::size_t> locks);
  // The value of default_transaction_read_only after the client's code, which may have set it.
  // `lent`: while that code ran, the proxy did not keep the value `on`.
  void default_is(bool on, bool lent);
  // Every request is answered: from here on the server's report about the transaction counts.
  void settle();

  void assert_consistent() const noexcept;

 private:
  // Code of the client's ran. `declares`: it may have declared.
  void ran(bool declares, bool named);
  void apply_to_access_mode(const Effects& effects, bool ends, bool guarded);
  void apply_control(const Effects& effects);
  void follow_savepoints(const Effects& effects);
  void end_sent();
};

}  // namespace termgate::pg_session
