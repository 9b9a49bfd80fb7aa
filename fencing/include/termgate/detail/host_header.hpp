// The Host header of an HTTP request (RFC 9110, section 7.2): uri-host [ ":" port ]. Internal; both
// HTTP servers refuse by it.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/text/ascii.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {

// The host in small letters, an IPv6 address with its brackets. None: malformed. A user name is
// refused: a reader that looks for the first colon would take localhost:80@elsewhere for localhost.
inline std::optional<std::string> host_name(std::string_view header) {
  const auto all_in = [](std::string_view text, std::string_view others, bool letters) {
    return std::all_of(text.begin(), text.end(), [&](char c) {
      const char small = text::lower(c);
      return text::is_digit(c) || (small >= 'a' && small <= (letters ? 'z' : 'f')) ||
             others.find(c) != std::string_view::npos;
    });
  };
  const auto end = header.starts_with('[') ? header.find(']') : header.find(':');
  if (header.starts_with('[') && end == std::string_view::npos) return std::nullopt;
  const std::string_view host = header.substr(0, header.starts_with('[') ? end + 1 : end);
  const std::string_view port = header.substr(host.size());
  if (host.starts_with('[') ? !all_in(host.substr(1, host.size() - 2), ":.", false) ||
                                  host.find(':') == std::string_view::npos
                            : host.empty() || !all_in(host, "-._~!$&'()*+,;=%", true))
    return std::nullopt;
  if (!port.empty() && (port[0] != ':' || port.size() > 6 ||
                        port.find_first_not_of("0123456789", 1) != std::string_view::npos))
    return std::nullopt;
  if (port.size() == 6 && port.substr(1) > "65535") return std::nullopt;
  return text::lower(host);
}

// Whether `name`, as host_name() returns it, is a loopback name or one of `allowed`; "*" allows
// any.
inline bool host_is_served(std::string_view name, const std::vector<std::string>& allowed) {
  if (name == "localhost" || name == "127.0.0.1" || name == "[::1]") return true;
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& one) { return one == "*" || host_name(one) == name; });
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
