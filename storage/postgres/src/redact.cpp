// Removes passwords from messages of libpq and of the server before anybody can log them. In doubt
// it hides too much rather than too little.
#include "redact.hpp"

#include <termgate/text/hex.hpp>

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

}  // namespace

std::string redact(std::string message, std::string_view url) {
  replace_all(message, url, "postgresql://…");
  auto hide = [&](std::string_view password) {
    replace_all(message, password, "***");
    replace_all(message, text::percent_decoded_where_it_can(password), "***");
  };
  const auto authority = url.find("://");
  if (authority != std::string_view::npos) {
    const auto start = authority + 3;
    // A password may contain an unescaped '@' or '/', which makes libpq print the URL, so the last
    // '@' counts.
    const auto at = url.rfind('@');
    const auto colon = url.find(':', start);
    if (at != std::string_view::npos && colon != std::string_view::npos && colon < at)
      hide(url.substr(colon + 1, at - colon - 1));
    const auto first_at = url.find('@', start);
    if (first_at != std::string_view::npos && colon != std::string_view::npos && colon < first_at)
      hide(url.substr(colon + 1, first_at - colon - 1));
  }
  for (std::string_view key : {"password=", "sslpassword="}) {
    for (auto at = url.find(key); at != std::string_view::npos; at = url.find(key, at + 1)) {
      const auto value = at + key.size();
      hide(url.substr(value, url.find('&', value) == std::string_view::npos
                                 ? std::string_view::npos
                                 : url.find('&', value) - value));
    }
  }
  return message;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
