// Who sends a request, and the scope and term that it declares.
//
//   identify()   from the bearer token: the caller's name and level, and the token's own scope and term
//   permit_of()  with the operator's rule and the headers: the claim that the request's writes are checked with
//
// Between the two, the program that calls them looks up the operator's rule for that caller. A rule
// that is not overridable gives scope and term; otherwise a signed token that names a scope does.
// Both are final. Without them, each of these overrides the one before it: a token
// tg.TERM.SCOPE.SECRET; the headers Termgate-Scope (percent-encoded) and Termgate-Term; and `SELECT
// termgate_declare(…)`, which file/ handles. An overridable rule counts if nothing is declared.
//
// A malformed declaration is TG005 wherever it comes from, and never "no term". Values; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "claim/jwt.hpp"
#include "hrana/port.hpp"

namespace termgate::claim {

enum class Level : std::uint8_t {
  read = 1,
  write,
  lead,
  operate
};  // each level includes the ones before it

// The whole request is refused, with an HTTP status and the code and message of the body.
struct Refusal {
  // 401: the caller is unknown; 400: what it declares is invalid or missing. The front also makes
  // refusals with 403 (a rule refuses the caller) and 503 (too many callers).
  unsigned status = 400;
  std::string code, message;
};

// Scope and term from one source; a signed token may give the scope alone.
struct Declared {
  std::optional<std::string> scope;
  std::optional<std::int64_t> term;
};

struct Caller {
  std::string name;  // of the token; empty if the server has no tokens
  Level level = Level::write;
  std::optional<std::int64_t>
      expires;            // of a signed token, in seconds since 1970, without the grace
  Declared by_signature;  // from a signed token
  Declared by_token;      // from tg.TERM.SCOPE.SECRET: both or neither
};

struct Known {
  std::string name;
  Level level;
};
// Whom the server lets in. Without tokens and keys: everybody, with level write.
struct Doors {
  std::function<std::optional<Known>(std::string_view secret)>
      by_secret;  // empty: there is no file of tokens
  std::vector<JwtKey> keys;
  bool open() const { return !by_secret && keys.empty(); }
};

// The bearer token in the Authorization headers; empty if there are none. nullopt: another scheme,
// or more than one header.
std::optional<std::string_view> bearer_of(const std::vector<std::string_view>& authorizations);

// `token` comes from bearer_of() or from a WebSocket's `jwt`. `now`: seconds since 1970.
std::variant<Caller, Refusal> identify(std::string_view token, const Doors& doors,
                                       std::int64_t now);

// The values of the headers Termgate-Scope and Termgate-Term, at most one of each; more are
// refused.
struct Headers {
  std::vector<std::string_view> scopes, terms;
};

// What the operator's rule says about scope and term, if it does.
struct Rule {
  hrana::Claim claim;    // none: the rule has no term now
  std::string why_none;  // then the message for writes, which begins with its code
  bool overridable = false;
};
// What applies to the caller: its rule, and the options where the rule says nothing.
struct Standing {
  std::optional<Rule> rule;
  enum class WithoutTerm : std::uint8_t {
    reject,
    read_only,
    allow
  } without_term = WithoutTerm::read_only;
  bool observe = false;
};

std::variant<hrana::Permit, Refusal> permit_of(const Caller& caller, const Headers& headers,
                                               const Standing& standing);

}  // namespace termgate::claim
