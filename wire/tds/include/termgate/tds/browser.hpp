// SQL Server's Browser protocol, by which a client learns the TCP port of a named instance: one
// datagram to UDP 1434, one back ([MC-SQLR]). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace termgate::tds {

struct BrowsedInstance {
  std::string name;  // at most 32 bytes, without `;` and NUL
  std::uint16_t port = 0;
};

inline constexpr std::uint16_t browser_port = 1434;
inline constexpr std::size_t browser_request_bytes_max = 34;  // the longest that is answered
inline constexpr std::size_t browser_answer_bytes_max = 1027;

// Whether an instance can have this name: 1 to 32 ASCII letters, digits, _, $ or #.
bool is_instance_name(std::string_view name) noexcept;

// The answer to one datagram. Empty: none is sent, for example for an unknown instance, or for the
// port of the dedicated administrator connection, which would bypass the proxy. Names are compared
// without regard to case. At most browser_answer_bytes_max bytes: the first instance that does not
// fit is left out, and all after it.
std::string browser_answer(std::string_view request, std::string_view server_name,
                           std::span<const BrowsedInstance> instances);

}  // namespace termgate::tds
