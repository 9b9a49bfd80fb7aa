// Turns errors of SQLite and of the library into those of the port. Pure.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "hrana/port.hpp"

namespace termgate::sqlite_file {

// `extended`: SQLite's code. `message`: SQLite's text; if layer 1's, it begins with a TG code,
// which becomes the code. `offset`: in bytes.
hrana::Refused refused(int extended, std::string_view message,
                       std::optional<std::size_t> offset = std::nullopt);

// Rethrows the current exception as one of the port's: Refused, Unknown, Busy, Lost. std::bad_alloc
// becomes Refused; any other that is neither SQLite's nor the library's passes unchanged. `fenced`:
// a claim waited; without one, a lock that could not be had is SQLITE_BUSY instead of TG006.
[[noreturn]] void rethrow_for_stream(bool fenced);

// Whether the text is UTF-8.
bool is_utf8(std::string_view text) noexcept;

}  // namespace termgate::sqlite_file
