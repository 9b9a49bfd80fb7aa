// Reasons for refused messages, in a buffer of fixed size. A longer reason is cut.
#include <termgate/tds/malformed.hpp>

#include <cstdarg>
#include <cstdio>

namespace termgate::tds {

Malformed malformed(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  Malformed result;
  std::vsnprintf(result.text.data(), result.text.size(), format, arguments);
  va_end(arguments);
  return result;
}

}  // namespace termgate::tds
