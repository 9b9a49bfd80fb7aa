// Keeps passwords out of all output, logs and errors (docs/contract.md, section 6), also where a
// URL was given in the wrong place and a message quotes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace termgate::cli {

// Returns `message` with each password replaced by ***. `given` are texts that the message may
// quote, such as the command's arguments. Passwords in them (scheme://user:…@, password=…, pwd=…)
// are known exactly, even if they contain blanks or @. In a URL that is not among them, only what
// must be a password is hidden; other text with an @ stays, because the reader needs it.
std::string without_passwords(std::string message, std::vector<std::string> given);
// Adds a text to `given` of all later calls, for a URL that was read from a file or the
// environment. Any thread.
void know_secrets_of(std::string text);
// Adds a secret, such as a bearer token, which all later calls replace wherever it is. One of fewer
// than four characters stays: they may be part of any word. Any thread.
void know_secret(std::string secret);

}  // namespace termgate::cli
