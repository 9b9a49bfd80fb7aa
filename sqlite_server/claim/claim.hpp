// Scope and term of a request, and who sends it.
//
//   identify()   by the bearer token: the caller's name and level, and what the token itself says of scope and term
//   permit_of()  with the operator's rule and the headers: what the request's writes are checked with
//
// Between the two the caller of these asks the rules, which look at the name. From the first to the last, and below the first two a later
// one overrides an earlier one: the rule, a signed token (both final, but for a rule that is overridable), a token tg.TERM.SCOPE.SECRET,
// the headers Termgate-Scope (percent-encoded) and Termgate-Term. `SELECT termgate_declare(…)` comes after them and is the stream's.
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

enum class Level : std::uint8_t { read = 1, write, lead, operate };  // each may do what the one before may

// The request is refused as a whole: an HTTP status with the body's code and message.
struct Refusal {
  unsigned status = 400;  // 401: who this is, is not known; 400: what it declares cannot be
  std::string code, message;
};

// Scope and term as one place declares them; a signed token may give the scope alone.
struct Declared {
  std::optional<std::string> scope;
  std::optional<std::int64_t> term;
};

struct Caller {
  std::string name;  // of the token; empty where the server has no tokens
  Level level = Level::write;
  std::optional<std::int64_t> expires;  // of a signed token: seconds since 1970, without the grace
  Declared by_signature;                // of a signed token
  Declared by_token;                    // of tg.TERM.SCOPE.SECRET: both or neither
};

struct Known {
  std::string name;
  Level level;
};
// Whom the server lets in. Without tokens and keys: everybody, with level write.
struct Doors {
  std::function<std::optional<Known>(std::string_view secret)> by_secret;  // empty: there is no file of tokens
  std::vector<JwtKey> keys;
  bool open() const { return !by_secret && keys.empty(); }
};

// The bearer token of the headers Authorization: empty where there is none. None: another scheme, or more than one header.
std::optional<std::string_view> bearer_of(const std::vector<std::string_view>& authorizations);

// `token`: as bearer_of() returns it, or a WebSocket's `jwt`. `now`: seconds since 1970.
std::variant<Caller, Refusal> identify(std::string_view token, const Doors& doors, std::int64_t now);

// The values of a request's headers Termgate-Scope and Termgate-Term: none or one of each; more are refused.
struct Headers {
  std::vector<std::string_view> scopes, terms;
};

// The operator's rule, where it speaks of scope and term.
struct Rule {
  hrana::Claim claim;    // none: it has no term now
  std::string why_none;  // the message for a write then, which begins with its code
  bool overridable = false;
};
// What holds for the caller: its rule, and the options where no rule speaks.
struct Standing {
  std::optional<Rule> rule;
  enum class WithoutTerm : std::uint8_t { reject, read_only, allow } without_term = WithoutTerm::read_only;
  bool observe = false;
};

std::variant<hrana::Permit, Refusal> permit_of(const Caller& caller, const Headers& headers, const Standing& standing);

}  // namespace termgate::claim
