#include "claim/claim.hpp"

#include <utility>

#include <fmt/format.h>

#include <termgate/scope.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/hex.hpp>

#include "claim/letters.hpp"
#include "claim/token.hpp"

namespace termgate::claim {
namespace {

Refusal unknown(std::string code, std::string message) {
  return {401, std::move(code), std::move(message)};
}
Refusal wrong(std::string_view what) { return {400, "TG005", fmt::format("TG005 {}", what)}; }

const char* code_of(JwtRefused::Why why) {
  switch (why) {
    case JwtRefused::Why::expired: return "AUTH_JWT_EXPIRED";
    case JwtRefused::Why::not_yet: return "AUTH_JWT_IMMATURE";
    default: return "AUTH_JWT_INVALID";
  }
}

std::variant<Caller, Refusal> by_signature(std::string_view secret, const Doors& doors,
                                           std::int64_t now) {
  JwtRefused refused;
  auto token = read_jwt(secret, doors.keys, now, refused);
  if (!token)
    return refused.why == JwtRefused::Why::bad_claim
               ? wrong(refused.message)
               : unknown(code_of(refused.why), refused.message);
  Caller caller;
  caller.name = std::move(token->subject);
  caller.level = token->read_only ? Level::read : Level::write;
  caller.expires = token->expires;
  caller.by_signature = {std::move(token->scope), token->term};
  return caller;
}

std::variant<Caller, Refusal> by_secret(std::string_view secret, const Doors& doors,
                                        std::int64_t now) {
  if (doors.open()) return Caller{};
  if (secret.empty())
    return unknown("AUTH_HTTP_HEADER_MISSING",
                   "a token is needed: send the header Authorization: Bearer TOKEN");
  if (!doors.keys.empty() && is_jwt(secret)) return by_signature(secret, doors, now);
  const auto known = doors.by_secret ? doors.by_secret(secret) : std::nullopt;
  if (!known) return unknown("AUTH_TOKEN_UNKNOWN", "this server does not know the token");
  Caller caller;
  caller.name = known->name;
  caller.level = known->level;
  return caller;
}

// Reads scope and term from the headers. If they are malformed, `problem` is not empty.
Declared by_headers(const Headers& headers, std::string& problem) {
  Declared declared;
  if (headers.scopes.size() > 1 || headers.terms.size() > 1) {
    problem = "a request has the header Termgate-Scope once and Termgate-Term once";
    return declared;
  }
  if (!headers.scopes.empty()) {
    declared.scope = text::percent_decoded(headers.scopes.front());
    if (!declared.scope) problem = "the header Termgate-Scope is percent-encoded: write % as %25";
    else if (const char* why = name_problem(*declared.scope))
      problem = fmt::format("the header Termgate-Scope: {}", why);
  }
  if (!headers.terms.empty()) {
    declared.term = read_term(headers.terms.front());
    if (!declared.term)
      problem = "the header Termgate-Term is 1 to 2^62 in decimal, without a leading zero";
  }
  return declared;
}

// The claim that the client itself declares, within the scope of its signed token if that names
// one.
std::variant<hrana::Claim, Refusal> declared_by(const Caller& caller, const Headers& headers) {
  std::string problem;
  Declared declared = by_headers(headers, problem);
  if (!problem.empty()) return wrong(problem);
  const auto& scope = caller.by_signature.scope;
  // Scopes are compared before one declaration overrides another: declaring a scope other than the
  // signer's is a mistake.
  for (const std::optional<std::string>* other :
       {&caller.by_token.scope, &std::as_const(declared).scope}) {
    if (scope && *other && **other != *scope)
      return wrong(
          fmt::format("the signed token is for scope \"{}\", and the request declares scope \"{}\"",
                      *scope, **other));
  }
  if (scope && caller.by_signature.term) return hrana::Claim{*scope, *caller.by_signature.term};
  if (!declared.scope && !declared.term) declared = caller.by_token;
  if (scope && declared.term) declared.scope = scope;
  if (declared.scope && !declared.term && !scope)
    return wrong(
        "the header Termgate-Scope comes with Termgate-Term: a claim is a scope and a term");
  if (declared.term && !declared.scope)
    return wrong(
        "the header Termgate-Term comes with Termgate-Scope: a claim is a scope and a term");
  if (!declared.term) return hrana::Claim{scope.value_or(""), 0};
  return hrana::Claim{*declared.scope, *declared.term};
}

}  // namespace

std::optional<std::string_view> bearer_of(const std::vector<std::string_view>& authorizations) {
  constexpr std::string_view scheme = "bearer";
  if (authorizations.empty()) return std::string_view();
  std::string_view given = authorizations.front();
  if (authorizations.size() > 1 || !text::begins(given, scheme)) return std::nullopt;
  given.remove_prefix(scheme.size());
  // A client with an empty token sends only the scheme.
  if (given.empty()) return given;
  if (given.front() != ' ') return std::nullopt;
  return given.substr(1);
}

std::variant<Caller, Refusal> identify(std::string_view token, const Doors& doors,
                                       std::int64_t now) {
  const auto carried = read_token(token);
  auto caller = by_secret(carried ? carried->secret : token, doors, now);
  if (!carried || std::holds_alternative<Refusal>(caller)) return caller;
  if (!carried->problem.empty()) return wrong(carried->problem);
  // Otherwise a term or scope with a dot in it would be read as another one followed by a secret.
  if (doors.open() && !carried->secret.empty())
    return wrong(
        "this server has no tokens, so nothing follows the last dot of tg.TERM.SCOPE.; a scope "
        "with a dot is ~ and base64url");
  std::get<Caller>(caller).by_token = {carried->claim.scope, carried->claim.term};
  return caller;
}

std::variant<hrana::Permit, Refusal> permit_of(const Caller& caller, const Headers& headers,
                                               const Standing& standing) {
  using WithoutTerm = Standing::WithoutTerm;
  // A malformed declaration is refused even if the rule overrides it: its sender believes that it
  // counts.
  auto declared = declared_by(caller, headers);
  if (auto* refusal = std::get_if<Refusal>(&declared)) return std::move(*refusal);
  hrana::Permit permit;
  permit.claim = std::get<hrana::Claim>(std::move(declared));
  permit.claim_is_final = caller.by_signature.scope.has_value();
  // A signed scope without a term takes the term of a rule for that scope, and of no other.
  const auto fits = [&](const Rule& rule) {
    return permit.claim.none() &&
           (permit.claim.scope.empty() || permit.claim.scope == rule.claim.scope);
  };
  if (standing.rule && (!standing.rule->overridable || fits(*standing.rule))) {
    permit.claim = standing.rule->claim;
    permit.why_no_claim = standing.rule->why_none;
    permit.claim_is_final = permit.claim_is_final || !standing.rule->overridable;
  }
  permit.observe = standing.observe;
  if (caller.level == Level::read) permit.access = hrana::Access::read_only;
  else if (standing.without_term == WithoutTerm::allow) permit.access = hrana::Access::unfenced;
  if (permit.claim.none() && standing.without_term == WithoutTerm::reject && !standing.observe)
    return Refusal{400, "TG002",
                   permit.why_no_claim.empty()
                       ? "TG002 no term declared, and this server lets nobody in without one: send "
                         "a token tg.TERM.SCOPE.SECRET"
                       : permit.why_no_claim};
  return permit;
}

}  // namespace termgate::claim
