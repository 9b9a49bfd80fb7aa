// A bearer token that carries scope and term, because every client can send a token:
// tg.TERM.SCOPE.SECRET
//
//     TERM    1 to 2^62 in decimal, without a leading zero
//     SCOPE   as it is if it consists of A-Z a-z 0-9 _ - only; otherwise ~ and base64url (RFC 4648,
//             section 5, without padding)
//     SECRET  an entry of the server's file of tokens, or a JWT; it may be empty, and contain dots
//
// RFC 6750 allows all characters of the prefix, TERM and SCOPE. Values; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hrana/port.hpp"

namespace termgate::claim {

struct CarriedClaim {
  hrana::Claim claim;
  std::string_view secret;  // a part of the given token
  std::string problem;  // empty: the token is well-formed; otherwise what is wrong, without a code
                        // and without the secret
};

// nullopt: the token does not begin with `tg.`, so all of it is a secret.
std::optional<CarriedClaim> read_token(std::string_view token);

// The reverse of read_token(). `claim` must be one that read_token() may return.
std::string token_of(const hrana::Claim& claim, std::string_view secret);

// What a log may show of a token: tg.5.billing.… of one that carries a claim, … of any other.
std::string shown(std::string_view token);

}  // namespace termgate::claim
