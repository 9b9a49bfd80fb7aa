// The scope and term that an operator's rule gives a session. Owner: the session's claims; its
// thread.
#pragma once

#include <cstdint>
#include <string>

#include <termgate/conversation/admission.hpp>

namespace termgate::conversation {

// A scope and a term. An empty scope or a term of 0 is missing, or not known.
struct ScopedTerm {
  std::string scope;
  std::int64_t term = 0;
  bool complete() const noexcept { return !scope.empty() && term > 0; }
  bool empty() const noexcept { return scope.empty() && term == 0; }
  bool operator==(const ScopedTerm&) const = default;
};

// The session keeps the first pair that the rule returns. While the rule has no pair, or another
// one, the session may not write under the pair that it keeps.
class RuleClaim {
 public:
  // Queries the rule again. A session does so when a transaction begins.
  void ask(const TermSource& rule);

  // Whether the rule still gives the session's pair.
  bool stands() const noexcept { return code_.empty(); }
  // The session's pair, even if the rule no longer gives it. Empty: the rule has not had one yet.
  const ScopedTerm& bound() const noexcept { return bound_; }
  // If the rule does not give that pair: TG001, TG002 or the rule's own code; problem() is the
  // client's message, which begins with the code.
  const std::string& code() const noexcept { return code_; }
  const std::string& problem() const noexcept { return problem_; }

 private:
  void none(std::string code, const std::string& why);

  ScopedTerm bound_;
  std::string code_ = "TG002";
  std::string problem_ =
      "TG002 no term for a fenced write: the rule of this connection has none now";
};

}  // namespace termgate::conversation
