// The URL of a term source: SCHEME://[USER@]HOST[:PORT][,HOST[:PORT]…][/PATH][?KEY=VALUE&…]. It
// never contains a password: that comes from a file (password-file=PATH) or from the environment.
// Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::sources {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;  // 0: the service's usual port
};

struct SourceUrl {
  static constexpr std::size_t bytes_max = 4096;
  static constexpr std::size_t hosts_max = 16;

  std::string scheme;
  std::string user;
  std::vector<HostPort> hosts;
  std::string path;  // decoded, with its leading '/', or empty
  std::map<std::string, std::string> options;

  // Throws InvalidInput (TG005), whose message never quotes the URL.
  static SourceUrl parse(std::string_view text);
  // The option's value, or `fallback`.
  std::string option(const std::string& key, std::string fallback = {}) const;
  // The option `timeout`, in milliseconds: 100 ms to 1 minute; 3 s if it is not given. Throws
  // InvalidInput.
  std::chrono::milliseconds timeout() const;
  // The content of password-file without the line end, or else TERMGATE_SOURCE_PASSWORD; empty:
  // none. Throws InvalidInput if the file cannot be read, is empty, or has more than 4096 bytes.
  std::string password() const;
  // Throws InvalidInput for an option that is neither in `known` nor common to all sources.
  void allow(const std::vector<std::string_view>& known) const;
  // scheme://host:port, without user and options.
  std::string name(std::uint16_t usual_port) const;
};

}  // namespace termgate::sources
