// A bearer token that carries scope and term, because every client can pass a token: tg.TERM.SCOPE.SECRET
//
//   TERM    1 to 2^62 in decimal, without a leading zero
//   SCOPE   as it is, where it has letters A-Z a-z 0-9 _ - only; any other: ~ and base64url (RFC 4648, section 5, without padding)
//   SECRET  what the server's file of tokens knows, or a JWT; it may be empty, and have further points
//
// All letters are those of RFC 6750. Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hrana/port.hpp"

namespace termgate::claim {

struct CarriedClaim {
  hrana::Claim claim;
  std::string_view secret;  // a part of the token that was given
  std::string problem;      // empty: it is well-formed; else what is wrong, without a code and without the secret
};

// None: the token does not begin with `tg.` and is a secret as a whole.
std::optional<CarriedClaim> read_token(std::string_view token);

// The scope as a token has it. `claim` must be one that read_token() may return.
std::string token_of(const hrana::Claim& claim, std::string_view secret);

// What a log may show of a token: tg.5.billing.… of one that carries a claim, … of any other.
std::string shown(std::string_view token);

}  // namespace termgate::claim
