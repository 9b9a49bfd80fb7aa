// The version of these headers, and of the library that a program runs with. The project's version
// is read from here.
#pragma once

#include <string_view>

#define TERMGATE_VERSION_MAJOR 0
#define TERMGATE_VERSION_MINOR 1
#define TERMGATE_VERSION_PATCH 0
// For comparisons in the preprocessor: version 0.1.0 is 100, 1.2.3 is 10203.
#define TERMGATE_VERSION_NUMBER \
  (TERMGATE_VERSION_MAJOR * 10000 + TERMGATE_VERSION_MINOR * 100 + TERMGATE_VERSION_PATCH)

namespace termgate {
inline namespace v0 {

// The version of the loaded library, such as "0.1.0", which may be newer than the headers. Any
// thread; the text lives as long as the program.
std::string_view version() noexcept;

}  // namespace v0
}  // namespace termgate
