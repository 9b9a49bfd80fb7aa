// A driver in a shared library of its own, loaded when a URL first names its database, so that a
// program on SQLite loads neither libpq nor unixODBC. Only the shared build has them; the static
// library contains its drivers. Internal.
#pragma once

#include <memory>
#include <string_view>

#include <termgate/database.hpp>
#include <termgate/detail/driver.hpp>
#include <termgate/detail/fence_feed.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// What such a library offers through its one C function `termgate_driver_library`. `version` is
// compared first: the rest has no stable layout.
struct DriverLibrary {
  const char* version;
  std::unique_ptr<Driver> (*open)(std::string_view url, const OpenOptions& options);
  std::unique_ptr<FenceFeed> (*open_fence_feed)(std::string_view url, std::string_view schema,
                                                std::string_view database,
                                                std::string_view channel);
};

// `name`: postgresql or odbc. Loads it once; it stays loaded. Any thread. Throws InvalidInput,
// which names the file, where it is missing or of another version.
const DriverLibrary& driver_library(const char* name);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
