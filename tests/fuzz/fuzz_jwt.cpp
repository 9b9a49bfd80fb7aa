// Tokens and headers Authorization: any text is read or refused, one that no key has signed says
// nothing, what is read is within its bounds, and a claim is written as it was read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include <termgate/scope.hpp>
#include <termgate/term.hpp>

#include "claim/claim.hpp"
#include "claim/letters.hpp"
#include "claim/token.hpp"
#include "unit/sqlite_server/claim/signer.hpp"

using namespace termgate;

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

const claim::Doors& doors() {
  static const claim::Doors all{[](std::string_view secret) -> std::optional<claim::Known> {
                                  if (secret == "secret")
                                    return claim::Known{"app", claim::Level::write};
                                  return std::nullopt;
                                },
                                {claim::JwtKey::parse(claim_test::public_key)}};
  return all;
}

void look_at(const std::variant<claim::Caller, claim::Refusal>& answer,
             const claim::Headers& headers) {
  if (const auto* refusal = std::get_if<claim::Refusal>(&answer)) {
    must((refusal->status == 401 && refusal->code.starts_with("AUTH_")) ||
         (refusal->status == 400 && refusal->code == "TG005"));
    return;
  }
  const auto permit = claim::permit_of(std::get<claim::Caller>(answer), headers, {});
  if (const auto* given = std::get_if<hrana::Permit>(&permit)) {
    const auto& claim = given->claim;
    must(claim.term >= 0 && claim.term <= Term::max_value &&
         (claim.none() || name_problem(claim.scope) == nullptr));
  } else {
    must(std::get<claim::Refusal>(permit).code == "TG005");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto line = text.find('\n');
  const std::string_view first = text.substr(0, line),
                         rest = line == std::string_view::npos ? "" : text.substr(line + 1);

  if (const auto bearer = claim::bearer_of({first}))
    look_at(claim::identify(*bearer, doors(), 1'800'000'000), {{rest}, {"5"}});
  look_at(claim::identify(first, doors(), 1'800'000'000), {{"billing"}, {rest}});
  if (const auto carried = claim::read_token(first)) {
    must(carried->problem.empty() != carried->claim.none());
    if (carried->problem.empty()) {
      const std::string written = claim::token_of(carried->claim, carried->secret);
      const auto again = claim::read_token(written);
      must(again && again->claim == carried->claim && again->secret == carried->secret);
    }
  }
  if (const auto bytes = claim::from_base64url(first)) must(claim::to_base64url(*bytes) == first);

  // What comes after the first line is signed as a token's claims, so that the reader behind the
  // signature is met, too.
  claim::JwtRefused refused;
  const auto token =
      claim::read_jwt(claim_test::signed_token(rest), doors().keys, 1'800'000'000, refused);
  if (token) {
    must(!token->subject.empty() && token->scope.has_value() >= token->term.has_value());
    must(!token->term || (*token->term >= 1 && *token->term <= Term::max_value));
  } else {
    must(!refused.message.empty());
  }
  return 0;
}
