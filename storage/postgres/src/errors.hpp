// PostgreSQL's SQLSTATEs, and the exceptions of Connection and of libpqxx, turned into
// termgate::Error types in one place.
#pragma once

#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail {

// The phase in which a statement failed; the meaning of a lost connection depends on it.
enum class Phase {
  before_commit,  // the transaction cannot have committed
  commit,         // COMMIT, or an autocommit write, was sent
};

// PostgreSQL's error text without severity and context: "message; hint: …". Redacts nothing.
std::string readable_message(std::string_view text);

// Throws the type for an SQLSTATE. If the code says that the session has ended and COMMIT was sent,
// that is OutcomeUnknown.
[[noreturn]] void throw_for_sqlstate(std::string_view sqlstate, const std::string& message,
                                     Phase phase);

// Call it inside a catch block: rethrows the current exception as a termgate::Error. Exceptions
// that are neither libpqxx's nor Termgate's pass unchanged. `secrets_of` is the URL whose password
// must not show. `connected`: whether the connection still exists. If not, only a refusal of layer
// 1, a rollback (class 40) and the end of the session (57P) keep their meaning; any other error
// counts as a lost connection, because it does not show what became of a COMMIT (a server that
// panics while it flushes one still sends its SQLSTATE).
[[noreturn]] void rethrow_as_ours(Phase phase, std::string_view secrets_of, bool connected = true);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
