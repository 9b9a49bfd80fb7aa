// No output, log or error ever shows a password (docs/contract.md, section 6): not even where a URL was given in the
// wrong place, where a message would quote it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace termgate::cli {

// `message` with *** for each password in it: of URLs (scheme://user:…@) and of password=… or pwd=… . `given` are texts
// that a message may quote, such as the command's arguments: in these a password may hold whatever it likes, blanks and @
// included.
std::string without_passwords(std::string message, const std::vector<std::string>& given);

}  // namespace termgate::cli
