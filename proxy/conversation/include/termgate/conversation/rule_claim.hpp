// The scope and term that a session has by the operator's rule. Owner: the session's claims; its thread.
#pragma once

#include <cstdint>
#include <string>

#include <termgate/conversation/admission.hpp>

namespace termgate::conversation {

// A scope and a term that are known for certain; either may be missing.
struct ScopedTerm {
  std::string scope;
  std::int64_t term = 0;
  bool complete() const noexcept { return !scope.empty() && term > 0; }
  bool empty() const noexcept { return scope.empty() && term == 0; }
  bool operator==(const ScopedTerm&) const = default;
};

// The first pair that the rule answers is the session's for good. When the rule has none any more, or another one, the session has none.
class RuleClaim {
 public:
  // Asks the rule anew. A session does so when a transaction begins.
  void ask(const TermSource& rule);

  // Whether the rule gives the session's pair now.
  bool stands() const noexcept { return code_.empty(); }
  // The session's pair, also where it no longer stands; empty: the rule has not had one yet.
  const ScopedTerm& bound() const noexcept { return bound_; }
  // Where it does not stand: TG001, TG002 or what the rule says, and the client's message, which begins with it.
  const std::string& code() const noexcept { return code_; }
  const std::string& problem() const noexcept { return problem_; }

 private:
  void none(std::string code, const std::string& why);

  ScopedTerm bound_;
  std::string code_ = "TG002";
  std::string problem_ = "TG002 no term for a fenced write: the rule of this connection has none now";
};

}  // namespace termgate::conversation
