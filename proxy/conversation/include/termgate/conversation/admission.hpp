// What a client was let in with: the operator's rules for it (docs/contract.md, sections 5.1 and 7). Values; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate::conversation {

// --without-term: what a session may do that has declared none.
enum class WithoutTerm : std::uint8_t { reject, read_only, allow };
// --enforce: observe takes no lock, refuses nothing, and reports what would have been refused.
enum class Enforce : std::uint8_t { on, observe };
// What a session gets whose term has become stale: an error for each write, or the end of its connection, so that a pool makes another.
enum class OnStale : std::uint8_t { error, disconnect };

// Where a rule's scope and term come from: a fixed pair, a watched file, a lease. Shared by all sessions of the rule; its
// functions are called from any thread, at every transaction's begin, and must not block.
class TermSource {
 public:
  struct Standing {
    std::optional<Scope> scope;
    std::optional<Term> term;
    // Where there is no term: whose lease it is and until when, what is wrong with the file. Becomes the message of TG002 (or of
    // `problem_code`), which it does not begin with.
    std::string why_not;
    const char* problem_code = "TG002";
    // The session is observed: enforcing would have taken a lease for it.
    static constexpr const char* none_taken = "00000";
  };

  virtual ~TermSource() = default;
  virtual Standing now() const = 0;
};

// The answer to a start-up message.
struct Admission {
  // Not let in: SQLSTATE and message of the FATAL report; an empty SQLSTATE lets in.
  std::string refused_sqlstate;
  std::string refused_message;

  WithoutTerm without_term = WithoutTerm::read_only;
  Enforce enforce = Enforce::on;
  bool replication = false;  // whether replication connections are let through
  OnStale on_stale = OnStale::error;

  // The rule's scope and term; nullptr: no rule speaks of them. The first term that it answers is the session's for good:
  // what was admitted under term 5 never rides on the term 7 that its host won later.
  std::shared_ptr<const TermSource> rule;
  // Whether the client's own declarations override the rule's.
  bool overridable = false;
};

// What a start-up message says of itself, and what the rules look at.
struct LoginRequest {
  std::string user;
  std::string database;  // as the server will take it: the user's name where none is given
  std::string application_name;
  bool replication = false;
};

}  // namespace termgate::conversation
