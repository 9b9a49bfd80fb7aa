#include <termgate/sources/url.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::sources {
namespace {

[[noreturn]] void refuse(std::string_view why) {
  throw InvalidInput(fmt::format("TG005 the URL of the term source: {}", why));
}

std::string decoded(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      result += text[at];
      continue;
    }
    unsigned value = 0;
    if (text.size() - at < 3) refuse("a % is not followed by two hexadecimal digits");
    const char* end = text.data() + at + 3;
    const auto [stopped, error] = std::from_chars(text.data() + at + 1, end, value, 16);
    if (error != std::errc() || stopped != end)
      refuse("a % is not followed by two hexadecimal digits");
    if (value == 0) refuse("it contains a NUL");
    result += static_cast<char>(value);
    at += 2;
  }
  return result;
}

HostPort host_port(std::string_view text) {
  HostPort result;
  std::string_view host = text, port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) refuse("an address in [ ] is not closed");
    host = text.substr(1, close - 1);
    if (close + 1 < text.size()) {
      if (text[close + 1] != ':') refuse("after ] there is only a port");
      port = text.substr(close + 2);
      if (port.empty()) refuse("a port is missing after the colon");
    }
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) refuse("a port is missing after the colon");
  }
  if (host.empty()) refuse("a host is missing");
  for (const char c : host) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '%' || c == '"' || c == 0x7f)
      refuse("a host has characters that no host name has");
  }
  result.host = host;
  if (!port.empty()) {
    const auto [stopped, error] =
        std::from_chars(port.data(), port.data() + port.size(), result.port);
    if (error != std::errc() || stopped != port.data() + port.size() || result.port == 0)
      refuse("a port is not a number from 1 to 65535");
  }
  return result;
}

}  // namespace

SourceUrl SourceUrl::parse(std::string_view text) {
  if (text.size() > bytes_max) refuse(fmt::format("it has more than {} bytes", bytes_max));
  if (text.find('\0') != std::string_view::npos) refuse("it contains a NUL");
  if (text.find('#') != std::string_view::npos) refuse("it has a fragment; write # as %23");
  SourceUrl url;
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0)
    refuse("it must be SCHEME://…, for example redis://cache.example");
  url.scheme = text.substr(0, scheme);
  text.remove_prefix(scheme + 3);
  const auto question = text.find('?');
  std::string_view options =
      question == std::string_view::npos ? std::string_view() : text.substr(question + 1);
  text = text.substr(0, question);
  const auto slash = text.find('/');
  if (slash != std::string_view::npos) url.path = decoded(text.substr(slash));
  std::string_view authority = text.substr(0, slash);
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = authority.substr(0, at);
    if (user.find(':') != std::string_view::npos)
      refuse(
          "it contains a password; put that into a file and add ?password-file=PATH, or into "
          "TERMGATE_SOURCE_PASSWORD");
    url.user = decoded(user);
    authority.remove_prefix(at + 1);
  }
  while (!authority.empty()) {
    const auto comma = authority.find(',');
    if (url.hosts.size() == hosts_max) refuse(fmt::format("it has more than {} hosts", hosts_max));
    url.hosts.push_back(host_port(authority.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    authority.remove_prefix(comma + 1);
    if (authority.empty()) refuse("a host is missing after the comma");
  }
  while (!options.empty()) {
    const auto amp = options.find('&');
    const std::string_view one = options.substr(0, amp);
    const auto equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0) refuse("an option is not KEY=VALUE");
    std::string key = decoded(one.substr(0, equals));
    if (key == "password" || key == "token")
      refuse(
          "it contains a password; put that into a file and add ?password-file=PATH, or into "
          "TERMGATE_SOURCE_PASSWORD");
    if (!url.options.emplace(std::move(key), decoded(one.substr(equals + 1))).second)
      refuse("an option is given twice");
    if (amp == std::string_view::npos) break;
    options.remove_prefix(amp + 1);
  }
  return url;
}

std::string SourceUrl::option(const std::string& key, std::string fallback) const {
  const auto found = options.find(key);
  return found == options.end() ? std::move(fallback) : found->second;
}

std::chrono::milliseconds SourceUrl::timeout() const {
  const std::string text = option("timeout", "3000");
  int milliseconds = 0;
  const auto [stopped, error] =
      std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  if (error != std::errc() || stopped != text.data() + text.size() || milliseconds < 100 ||
      milliseconds > 60'000)
    refuse("timeout is a number of milliseconds from 100 to 60000");
  return std::chrono::milliseconds(milliseconds);
}

std::string SourceUrl::password() const {
  const std::string name_of_file = option("password-file");
  if (name_of_file.empty()) {
    const char* from_environment = std::getenv("TERMGATE_SOURCE_PASSWORD");
    return from_environment == nullptr ? std::string() : std::string(from_environment);
  }
  std::ifstream file(name_of_file, std::ios::binary);
  std::string text(4097, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad())
    throw InvalidInput(fmt::format("TG005 password-file {} cannot be read", name_of_file));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > 4096)
    throw InvalidInput(
        fmt::format("TG005 password-file {} has more than 4096 bytes", name_of_file));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty())
    throw InvalidInput(fmt::format("TG005 password-file {} is empty", name_of_file));
  return text;
}

void SourceUrl::allow(const std::vector<std::string_view>& known) const {
  for (const auto& [key, value] : options) {
    if (key == "timeout" || std::find(known.begin(), known.end(), key) != known.end()) continue;
    refuse(fmt::format("{} has no option {:?}", scheme, key.substr(0, 40)));
  }
}

std::string SourceUrl::name(std::uint16_t usual_port) const {
  std::string text = scheme + "://";
  for (const HostPort& one : hosts) {
    if (!text.ends_with('/')) text += ',';
    const bool six = one.host.find(':') != std::string::npos;
    text += fmt::format("{}{}{}:{}", six ? "[" : "", one.host, six ? "]" : "",
                        one.port == 0 ? usual_port : one.port);
  }
  return text;
}

}  // namespace termgate::sources
