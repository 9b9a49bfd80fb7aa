// Turns a --db URL into a driver. Internal.
#pragma once

#include <memory>
#include <string_view>

#include <termgate/database.hpp>
#include <termgate/detail/driver.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// Throws InvalidInput for a scheme that is unknown or that this build leaves out; the message never
// holds the URL, which may carry a password.
std::unique_ptr<Driver> open_driver(std::string_view url, const OpenOptions& options);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
