// No output, log or error ever shows a password (docs/contract.md, section 6): not even where a URL was given in the
// wrong place, where a message would quote it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace termgate::cli {

// `message` with *** for each password in it. `given` are texts that a message may quote, such as the command's arguments: their passwords
// (scheme://user:…@, password=…, pwd=…) are known to the letter, whatever they hold, blanks and @ included. Of a URL that nobody knew of,
// what must be its password is hidden; all else that has an @ in it stays, for it is the error.
std::string without_passwords(std::string message, std::vector<std::string> given);
// From now on, as if it were given each time: a URL that was read from a file or the environment. Any thread.
void know_secrets_of(std::string text);

}  // namespace termgate::cli
