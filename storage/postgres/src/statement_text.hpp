// As much of a statement's text as must be understood on the client's side: whether it is transaction control.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace termgate::inline v0::detail {

// The first `count` words in lower case, with white space, empty statements and comments (nested, as PostgreSQL's are) passed
// over. A word is letters, digits and underscores; anything else ends the list.
std::vector<std::string> first_words(std::string_view sql, std::size_t count);

// BEGIN, COMMIT and the like in any spelling, PREPARE TRANSACTION included; savepoints are none.
bool is_transaction_control(std::string_view sql);

}  // namespace termgate::inline v0::detail
