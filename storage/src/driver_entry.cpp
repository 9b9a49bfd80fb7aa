// The only function of a driver's shared library. It is compiled into that library together with
// open.cpp and fence_feed.cpp, which know only this driver there.
#include <termgate/detail/open.hpp>

#include "driver_library.hpp"

extern "C" __attribute__((visibility("default"))) const termgate::detail::DriverLibrary*
termgate_driver_library() {
  static const termgate::detail::DriverLibrary library{
      TERMGATE_VERSION, termgate::detail::open_driver, termgate::detail::open_fence_feed};
  return &library;
}
