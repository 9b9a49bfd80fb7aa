// Turns a message of the database's own functions ("TG001 stale term …") into its exception type.
// Internal; used by every driver, so that the codes are read in one place.
#pragma once

#include <string_view>

namespace termgate::inline v0::detail {

// Throws the type of the TG code that `message` starts with, or holds after a driver's own prefix such as
// "ERROR:  "; returns when it names none.
void throw_if_tg(std::string_view message);

}  // namespace termgate::inline v0::detail
