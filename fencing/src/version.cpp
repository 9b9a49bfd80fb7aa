#include <termgate/version.hpp>

namespace termgate {
inline namespace v0 {

#define TERMGATE_TEXT_OF(number) #number
#define TERMGATE_TEXT(number) TERMGATE_TEXT_OF(number)

std::string_view version() noexcept {
  return TERMGATE_TEXT(TERMGATE_VERSION_MAJOR) "." TERMGATE_TEXT(
      TERMGATE_VERSION_MINOR) "." TERMGATE_TEXT(TERMGATE_VERSION_PATCH);
}

#undef TERMGATE_TEXT
#undef TERMGATE_TEXT_OF

}  // namespace v0
}  // namespace termgate
