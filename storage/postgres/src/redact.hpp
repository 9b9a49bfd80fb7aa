// No output, log or error ever shows a password (docs/contract.md, section 6).
#pragma once

#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail {

// `message` with the URL and every form of its password replaced.
std::string redact(std::string message, std::string_view url);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
