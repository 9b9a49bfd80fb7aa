// Reasons for refused messages, in a buffer of fixed size: a refusal allocates nothing, so a
// hostile peer cannot make it fail.
#include <termgate/pgwire/malformed.hpp>

#include <cstdarg>
#include <cstdio>

namespace termgate::pgwire {
namespace {

Malformed formatted(const char* sqlstate, const char* format, va_list arguments) noexcept {
  Malformed result;
  result.sqlstate = sqlstate;
  std::vsnprintf(result.text.data(), result.text.size(), format, arguments);
  return result;
}

}  // namespace

Malformed malformed(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  Malformed result = formatted("08P01", format, arguments);
  va_end(arguments);
  return result;
}

Malformed malformed_as(const char* sqlstate, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  Malformed result = formatted(sqlstate, format, arguments);
  va_end(arguments);
  return result;
}

}  // namespace termgate::pgwire
