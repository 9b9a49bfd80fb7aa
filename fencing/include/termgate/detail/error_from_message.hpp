// The codes of Termgate's refusals, and the exception for a message that begins with one ("TG001
// stale term …"). Internal; used by every driver, by the proxy in front of SQL Server and by the
// SQLite server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail {

// Throws the exception for the TG code at the start of `message`, or after the prefix "ERROR:  " or
// "FATAL:  ". Returns when there is no such code.
void throw_if_tg(std::string_view message);

// The codes are TG001 to TG007 (docs/contract.md, section 4); SQL Server throws them as the numbers
// 50001 to 50007.

// "TG001" for 50001; empty for a number that is not Termgate's.
std::string tg_code_of(std::int64_t number);
// 50001 for "TG001"; 0 for a code that is not Termgate's.
std::uint32_t number_of_tg(std::string_view code) noexcept;

}  // namespace detail
}  // namespace v0
}  // namespace termgate
