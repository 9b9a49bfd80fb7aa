// Converts between UTF-8 and the UTF-16 of ODBC's wide calls. Only wide calls are used, because the
// narrow ones depend on the process's locale or a driver's own setting.
#pragma once

#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

// Throws InvalidInput (TG005) for text that is not UTF-8: overlong forms, surrogates, truncated
// sequences. NUL is allowed.
std::u16string utf16_of(std::string_view text);

// A lone surrogate becomes U+FFFD: what a server sends is shown, never refused.
std::string utf8_of(std::u16string_view text);

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
