// Turns ODBC diagnostics into termgate::Error types; SQLSTATE, native number and message prefix are
// interpreted only here.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/detail/odbc/traits.hpp>

namespace termgate {
inline namespace v0 {
namespace detail::odbc {

struct Diagnostic {
  std::string sqlstate;
  int native = 0;
  std::string message;
};

// The diagnostics of an ODBC call that failed. Thrown inside this folder only; the driver turns it
// into an Error.
struct OdbcError : std::exception {
  OdbcError(std::vector<Diagnostic> found, bool connection_dead)
      : diagnostics(std::move(found)), dead(connection_dead) {}
  const char* what() const noexcept override {
    return diagnostics.empty() ? "ODBC call failed" : diagnostics.front().message.c_str();
  }
  std::vector<Diagnostic> diagnostics;
  bool dead;
};

enum class Phase {
  connect,        // nothing was sent
  before_commit,  // what was sent ends with the transaction, which cannot have committed
  commit,         // COMMIT, or a write that is its own commit, was sent
};

// Removes the drivers' additions: "[FreeTDS][SQL Server]", "ERROR: ", ";\nError while executing the
// query".
std::string plain_message(std::string_view message);

// Throws the exception type that matches the diagnostics of a failed call. Never returns.
[[noreturn]] void throw_for(const OdbcError& failure, Phase phase, Family family);

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
