// Base64url (RFC 4648, section 5) and the numbers of a claim, each read in one spelling only. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace termgate::claim {

// Without padding. None: another letter, a length that no bytes have, or bits at the end that belong to no byte.
std::optional<std::string> from_base64url(std::string_view text);
std::string to_base64url(std::string_view bytes);

// 1 to 2^62 in decimal, without a sign or a leading zero: one term has one spelling. None: anything else.
std::optional<std::int64_t> read_term(std::string_view text);

}  // namespace termgate::claim
