// As much of a statement's text as must be understood on the client's side: whether it is transaction control.
#pragma once

#include <cstddef>
#include <string_view>

namespace termgate::inline v0::detail {

// BEGIN, COMMIT and the like in any spelling, PREPARE TRANSACTION included; savepoints are none.
bool is_transaction_control(std::string_view sql);

// The highest n of the parameters $n, outside quotes, dollar quotes and comments; 0: there is none. Read where the server has refused the
// number of values: what it takes for a quote depends on standard_conforming_strings, which is taken to be on.
std::size_t highest_parameter(std::string_view sql);

}  // namespace termgate::inline v0::detail
