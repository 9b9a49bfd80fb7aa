// What the state of a session is made of, one struct a concern. Values; what is done with them stands in the files that state.hpp lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/pgwire/startup.hpp>
#include <termgate/session/admission.hpp>
#include <termgate/session/surroundings.hpp>

#include "answers.hpp"
#include "effects.hpp"

namespace termgate::session {

// Bytes on their way to one socket.
class Outbox {
 public:
  std::string& back() noexcept { return bytes_; }
  std::string_view view() const noexcept { return std::string_view(bytes_).substr(sent_); }
  std::size_t size() const noexcept { return bytes_.size() - sent_; }
  std::size_t capacity() const noexcept { return bytes_.capacity(); }
  void sent(std::size_t bytes) noexcept {
    sent_ += bytes;
    if (sent_ >= bytes_.size()) {
      sent_ = 0;
      bytes_.clear();
      if (bytes_.capacity() > kept) std::string().swap(bytes_);
    } else if (sent_ >= compacted && sent_ >= bytes_.size() / 2) {
      // A reader that never quite catches up must not make us keep all that it has read.
      bytes_.erase(0, sent_);
      sent_ = 0;
    }
  }

 private:
  // An idle connection holds next to nothing; one that is busy does not allocate for every message.
  static constexpr std::size_t kept = 4096;
  static constexpr std::size_t compacted = 64u << 10;
  std::string bytes_;
  std::size_t sent_ = 0;
};

// A scope and a term that are known for certain; either may be missing.
struct Pair {
  std::string scope;
  std::int64_t term = 0;
  bool complete() const noexcept { return !scope.empty() && term > 0; }
  bool empty() const noexcept { return scope.empty() && term == 0; }
  bool operator==(const Pair&) const = default;
};

// The scope and term that a unit is checked with, as far as the proxy knows them; empty: the server's session knows.
struct Claim {
  Pair pair;
  Pair given;      // what the check is given by us: of the statement's own comment, or of a rule that is final; else the session's own is checked
  Pair otherwise;  // … where the session declares nothing: of a rule that is overridable
  bool named = false;  // by the statement's own comment
  bool certain = false;
  std::string code, problem, hint;                   // why there can be none
};

// Why a write is refused without a word to the database; without a code: it is not.
struct Refusal {
  std::string code, message, hint;
  std::int64_t fence = 0;  // as far as it is known
  explicit operator bool() const noexcept { return !code.empty(); }
};

// A message that was read and must wait.
struct Deferred {
  std::string frame;
  char type = 0;
  std::uint32_t body_bytes = 0;
  bool last = true, whole = true;
};

// Up to the first ReadyForQuery.
struct Login {
  explicit Login(bool encrypted_already, Instant now) : reader(!encrypted_already), encrypted(encrypted_already), started(now) {}

  pgwire::StartupReader reader;
  bool encrypted = false;
  bool asked_ssl = false, asked_gss = false;
  std::uint16_t client_minor = 0;
  bool negotiated = false;
  std::vector<std::pair<std::string, std::string>> startup;  // the client's parameters and extensions, to be sent on
  bool credential_asked = false;
  bool plus_removed = false;
  bool awaiting_sasl_initial = false;
  bool read_only_at_start = false;  // READ ONLY was asked for with the start-up message, and not only after the login
  Instant started;
  std::string ready;  // its ReadyForQuery, not given yet
};

// What runs in the server and makes uncertain how the client's next words are to be read. Over when all is answered.
struct Outstanding {
  bool functions = false;     // something runs that may change settings
  bool unknown = false;       // a function runs whose name says nothing
  bool unread = false;        // something runs that could not be read
  bool wait_for_all = false;  // the next unit cannot be judged before all answers are here
};

// Of a converted simple query: what a client must not see before what comes next is known.
struct Late {
  std::string description, complete;
  bool parts = false;  // the rest of a RowDescription that waits is yet to come
};

// The transaction as it will be when everything sent has run.
struct Transaction {
  bool in_block = false;
  bool failed = false;
  bool client_read_only = false;  // the client wants it so
  bool snapshot = false;          // its access mode is fixed, and it is READ ONLY
  bool writable = false;          // made so by us
  bool locked = false;            // … and READ ONLY again
  bool session_passed = false;    // the check of what the session declares was passed, or is on its way before whatever follows
  bool other_passed = false;      // … of what a comment names, or as the arguments of check_term()
  bool redeclared = false;        // something may have declared anew since
  bool acted = false;             // something ran that needs a check before its transaction commits
  bool code_declared = false;     // … something that acted
  bool declared_inside = false;   // scope or term may have been declared in it
  bool suspect = false;           // something in it may have changed the session's default
  bool calling_cursor = false;    // FETCH may run functions
  bool cursor = false;            // one was declared: WITH HOLD its query runs at the COMMIT, when no savepoint keeps it READ ONLY any more
  std::vector<Pair> passed;       // by comments
  Pair declared;                  // what the session declared when its check was sent, where that was certain
  Pair last;                      // as the check answered

  bool passed_any() const noexcept { return session_passed || other_passed; }
  // Whatever lock there was may be gone.
  void forget_checks() {
    session_passed = other_passed = false;
    redeclared = true;
    passed.clear();
    declared = Pair();
  }
};

// default_transaction_read_only: `on` in the server, and as the client is to see it.
struct Default {
  bool believed = false;      // as it will be when everything sent has run
  bool before_block = false;
  bool answered = false;      // by what the server has answered so far
  bool committed = false;     // … and what it falls back to where the transaction fails
  bool unit_failed = false;   // an error came since the last ReadyForQuery
  bool told = false;          // by the last ParameterStatus
  bool broken = false;        // the server's own value is off: put back before anything else
  bool reported = false;      // the server reports changes of it (14 and later); else it is put back by suspicion
};

// Where a scope and a term come from.
struct Declared {
  std::shared_ptr<const TermSource> rule;
  Pair bound;                    // by the rule, for good; empty: not yet
  bool withdrawn = false;        // the rule has no term any more, or another one than the one that is bound
  Pair known;                    // what the session has declared for itself, where that is certain
  bool certain = true;           // `known` is
  bool changing = false;         // something of this unit may change it
  std::uint32_t changes = 0;     // how often something was sent that may
  bool spoke = false;            // a declaration of the client's own was seen
  bool perhaps = false;          // code ran that may have declared without a word of it in a text
  std::string why_not, why_not_code;  // of a rule that has no term now
};

// A prepared statement or a portal of the client's.
struct Known {
  Effects effects;
  statements::Declaration declared;  // by its comments
  std::string executes;              // of EXECUTE: the name of what it runs
  std::size_t identity = 0;          // of its whole text
  std::size_t hash = 0;              // of its text without its values, where it is taken for a read
};

// The extended messages up to the next Sync.
struct Group {
  bool begun = false;
  bool direct = false;          // messages go straight to the server
  bool refused = false;         // everything up to Sync is dropped
  bool touched_server = false;  // something of it was sent
  bool bound = false;           // a Bind of the client's was sent: its unnamed portal may be alive
  bool executed = false;
  bool executed_here = false;   // since the last transaction that ended in it
  bool suspect = false;         // may change the session's default, on a server that does not report it
  bool called = false;          // something that is not surely a read was executed READ ONLY
  bool needs_hold = false;
  std::string held;             // messages not sent yet
  std::vector<Expected> asked;  // their answers
  std::size_t opening_at = 0;   // where in `held` an implicit transaction begins
  std::size_t opening_asked = 0;
  bool opening_possible = true;
  bool ended_one = false;       // a transaction ended in it, so what follows begins another before its answers are here
  std::vector<Claim> named;     // claims that its members name themselves
  std::vector<std::string> parsed;  // names, to be forgotten where the group is refused
  Effects effects;              // of what runs under a lock at session level
  Claim claim;
};

// A text that goes a piece at a time, or in a frame of BEGIN and COMMIT.
struct Script {
  bool running = false;
  std::string sql;
  Text text;
  Claim claim;
  std::size_t next = 0;         // statement
  bool frame = false;           // our BEGIN is open
  bool failed = false;          // nothing more of it runs
  bool ending = false;          // COMMIT or ROLLBACK of the frame is on its way
  std::size_t offset = 0;       // of the piece that runs, in the text
  std::size_t bytes = 0;
  std::size_t inserted = 0;     // letters of ours in front of it
  std::string complete;         // the last CommandComplete, held until the frame is committed
};

// A statement that runs alone, under the check's lock at session level.
struct Hold {
  enum class Stage : std::uint8_t { none, asked, held, releasing } stage = Stage::none;
  bool failed = false;
  bool unclaimed = false;       // the session declares nothing, and need not: no lock is held
  Pair pair;                    // as answered
  std::string waiting;          // the client's text (simple) or messages (extended) that run under it
  bool extended = false;
  std::vector<Expected> asked;
  Effects effects;
};

// The check that was sent last.
struct Check {
  Instant sent{};
  Pair pair;           // as far as it was known then
  bool given = false;  // by us, not by the session
};

}  // namespace termgate::session
