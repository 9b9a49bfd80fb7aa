// The connection string for libpq: the user's URL, with settings that keep a program from hanging
// for ever.
#pragma once

#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail {

// Adds the client encoding, a fallback application name, and, unless the URL sets them or names a
// service: connect_timeout 10 s, and TCP keepalives and tcp_user_timeout by which a peer that has
// vanished is noticed after 60 s or less. `connect_timeout_in_environment`: PGCONNECT_TIMEOUT is
// set, so connect_timeout is not added.
std::string conninfo_of(std::string_view url, bool connect_timeout_in_environment);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
