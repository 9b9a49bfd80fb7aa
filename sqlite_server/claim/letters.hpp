// Base64url (RFC 4648, section 5) and the numbers of a claim. Each value has exactly one accepted
// spelling. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace termgate::claim {

// Decodes without padding. nullopt: an invalid character, an impossible length, or leftover bits
// that are not zero.
std::optional<std::string> from_base64url(std::string_view text);
std::string to_base64url(std::string_view bytes);

// 1 to 2^62 in decimal, without a sign or a leading zero, so that each term has one spelling.
// nullopt: anything else.
std::optional<std::int64_t> read_term(std::string_view text);

}  // namespace termgate::claim
