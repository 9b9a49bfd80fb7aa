// The connection string for libpq: the user's URL, with settings that keep a program from hanging
// for ever.
#pragma once

#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace detail {

// Whether those environment variables of libpq are set that change what is added.
struct ConninfoEnvironment {
  bool connect_timeout = false;  // PGCONNECT_TIMEOUT
  bool service = false;          // PGSERVICE
  static ConninfoEnvironment of_process() noexcept;
};

// Adds the client encoding, a fallback application name, and, where neither the URL nor the
// environment sets them: connect_timeout 10 s, and TCP keepalives and tcp_user_timeout by which a
// peer that has vanished is noticed after 60 s or less. With a service no time limits are added:
// its file's settings have lower priority than the URL's, and so would lose to them.
std::string conninfo_of(std::string_view url, const ConninfoEnvironment& environment);

}  // namespace detail
}  // namespace v0
}  // namespace termgate
