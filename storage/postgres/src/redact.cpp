// Takes passwords out of messages of libpq and of the server, before anybody logs them. Rather too much is
// hidden than too little.
#include "redact.hpp"

namespace termgate::inline v0::detail {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) text.replace(at, what.size(), with);
}

int hex(char character) {
  if (character >= '0' && character <= '9') return character - '0';
  if (character >= 'a' && character <= 'f') return character - 'a' + 10;
  if (character >= 'A' && character <= 'F') return character - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '%' && at + 2 < text.size() && hex(text[at + 1]) >= 0 && hex(text[at + 2]) >= 0) {
      decoded += static_cast<char>(hex(text[at + 1]) * 16 + hex(text[at + 2]));
      at += 2;
    } else {
      decoded += text[at];
    }
  }
  return decoded;
}

}  // namespace

std::string redact(std::string message, std::string_view url) {
  replace_all(message, url, "postgresql://…");
  auto hide = [&](std::string_view password) {
    replace_all(message, password, "***");
    replace_all(message, percent_decoded(password), "***");
  };
  const auto authority = url.find("://");
  if (authority != std::string_view::npos) {
    const auto start = authority + 3;
    // A password may hold an unescaped '@' or '/', which is what makes libpq print the URL: take the widest.
    const auto at = url.rfind('@');
    const auto colon = url.find(':', start);
    if (at != std::string_view::npos && colon != std::string_view::npos && colon < at) hide(url.substr(colon + 1, at - colon - 1));
    const auto first_at = url.find('@', start);
    if (first_at != std::string_view::npos && colon != std::string_view::npos && colon < first_at)
      hide(url.substr(colon + 1, first_at - colon - 1));
  }
  for (std::string_view key : {"password=", "sslpassword="}) {
    for (auto at = url.find(key); at != std::string_view::npos; at = url.find(key, at + 1)) {
      const auto value = at + key.size();
      hide(url.substr(value, url.find('&', value) == std::string_view::npos ? std::string_view::npos : url.find('&', value) - value));
    }
  }
  return message;
}

}  // namespace termgate::inline v0::detail
