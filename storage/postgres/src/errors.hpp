// libpqxx's exceptions and PostgreSQL's SQLSTATEs, turned into termgate::Error types in one place.
#pragma once

#include <string>
#include <string_view>

namespace termgate::inline v0::detail {

// Where a statement was when it failed: what a lost connection means depends on it.
enum class Phase {
  before_commit,  // the transaction cannot have committed
  commit,         // COMMIT, or an autocommit write, was sent
};

// PostgreSQL's error text without severity and context: "message; hint: …". Redacts nothing.
std::string readable_message(std::string_view text);

// Throws the type for an SQLSTATE. A code that ended the session after COMMIT was sent is unknown.
[[noreturn]] void throw_for_sqlstate(std::string_view sqlstate, const std::string& message, Phase phase);

// Call inside a catch block: rethrows what is being handled as a termgate::Error. What is neither
// libpqxx's nor ours passes unchanged. `secrets_of` is the URL whose password must not show. `connected` is
// whether the connection is still there: without it an error that is no refusal of ours tells nothing of what
// became of a COMMIT (a server that panics while it flushes one still sends its SQLSTATE).
[[noreturn]] void rethrow_as_ours(Phase phase, std::string_view secrets_of, bool connected = true);

}  // namespace termgate::inline v0::detail
