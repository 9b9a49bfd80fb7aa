// Turns a message of the database's own functions ("TG001 stale term …") into its exception type.
// Internal; used by every driver, so that the codes are read in one place.
#pragma once

#include <string_view>

namespace termgate::inline v0::detail {

// Throws the exception type of the TG code at the start of `message`, or after a driver's own
// prefix such as "ERROR:  ". Returns when there is no such code.
void throw_if_tg(std::string_view message);

}  // namespace termgate::inline v0::detail
