// An error that ends a whole request, as opposed to a statement's error, which is part of an answer
// with status 200.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace termgate::hrana {

// Codes that a client may act on. TG001 to TG007 and SQLite's names come from the file.
namespace code {
inline constexpr const char* protocol = "PROTOCOL_ERROR";  // 400: not a request of the protocol
inline constexpr const char* too_large =
    "REQUEST_TOO_LARGE";  // 400: a limit of limits.hpp was exceeded
inline constexpr const char* expired =
    "STREAM_EXPIRED";  // 400: the stream does not exist, or not any more
inline constexpr const char* reused =
    "BATON_REUSED";  // 400: the baton was used already; the stream lives
inline constexpr const char* other_principal =
    "AUTH_WRONG_TOKEN";  // 401: the stream belongs to another token
inline constexpr const char* timeout = "TRANSACTION_TIMEOUT";  // 400: the transaction is lost
inline constexpr const char* unknown = "OUTCOME_UNKNOWN";      // 500, and 400 from then on
inline constexpr const char* busy = "SERVER_BUSY";             // 503
inline constexpr const char* internal = "INTERNAL_ERROR";      // 500, and 400 from then on
inline constexpr const char* answer_too_large = "RESPONSE_TOO_LARGE";
}  // namespace code

class Failure : public std::runtime_error {
 public:
  Failure(int status_given, std::string code_given, const std::string& message)
      : std::runtime_error(message), status(status_given), code(std::move(code_given)) {}
  int status;  // of HTTP
  std::string code;
};

// The body of an answer other than 200: message, code and error, because some clients read the
// first and some the last.
std::string failure_body(std::string_view code, std::string_view message);

}  // namespace termgate::hrana
