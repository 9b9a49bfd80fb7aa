// What must be understood of a statement's text on the client's side: whether it is transaction
// control.
#pragma once

#include <cstddef>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail {

// BEGIN, COMMIT and the like in any spelling, PREPARE TRANSACTION included, but not savepoints.
bool is_transaction_control(std::string_view sql);

// The highest n of the parameters $n, outside quotes, dollar quotes and comments; 0: there is none.
// Used after the server has refused the number of values. It assumes standard_conforming_strings =
// on, on which quotes depend.
std::size_t highest_parameter(std::string_view sql);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
