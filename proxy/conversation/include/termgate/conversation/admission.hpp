// What a client is admitted with: the operator's rules for it (docs/contract.md, sections 5.1 and
// 7). Values; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

namespace termgate::conversation {

// --without-term: what a session that has declared no term may do.
enum class WithoutTerm : std::uint8_t { reject, read_only, allow };
// --enforce: observe takes no lock, refuses nothing because of a claim, and reports what would have
// been refused.
enum class Enforce : std::uint8_t { on, observe };
// What happens to a session whose term has become stale: each write fails, or its connection ends,
// so that a pool opens another.
enum class OnStale : std::uint8_t { error, disconnect };

// Where a rule's scope and term come from: a fixed pair, a watched file, a lease. Shared by all
// sessions of the rule. Its functions are called from any thread whenever a transaction begins, and
// must not block.
class TermSource {
 public:
  struct Standing {
    std::optional<Scope> scope;
    std::optional<Term> term;
    // Why there is no term: whose lease it is and until when, or what is wrong with the file. The
    // end of the client's message, which begins with `problem_code`.
    std::string why_not;
    const char* problem_code = "TG002";
    // The `problem_code` of an observed session for which enforcing would have taken a lease.
    static constexpr const char* none_taken = "00000";
  };

  virtual ~TermSource() = default;
  virtual Standing now() const = 0;
};

// What the operator's rules answer to a login.
struct Admission {
  // The SQLSTATE and message of the FATAL report. An empty SQLSTATE admits the client.
  std::string refused_sqlstate;
  std::string refused_message;

  WithoutTerm without_term = WithoutTerm::read_only;
  Enforce enforce = Enforce::on;
  bool replication = false;  // whether replication connections are admitted
  OnStale on_stale = OnStale::error;

  // The rule's scope and term; nullptr: no rule covers them. The session keeps the first term that
  // the rule returns: a session admitted under term 5 never uses term 7, which its host won later.
  std::shared_ptr<const TermSource> rule;
  // Whether the client's own declarations override the rule's.
  bool overridable = false;
};

// The fields of a login (a start-up message, or LOGIN7 of TDS) that the rules look at.
struct LoginRequest {
  std::string user;
  // On PostgreSQL, if the client names none: the user's name, as the server reads it.
  std::string database;
  std::string application_name;
  bool replication = false;
};

}  // namespace termgate::conversation
