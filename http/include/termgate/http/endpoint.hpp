// Addresses of peers, of listeners and of the server, and the networks that an operator trusts.
// Values; any thread. No I/O.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace termgate::http {

// An address that a socket can be connected to or came from.
class Endpoint {
 public:
  Endpoint() = default;  // no address
  Endpoint(const sockaddr* address, socklen_t size);
  // nullopt: `host` is not a numeric address.
  static std::optional<Endpoint> numeric(std::string_view host, std::uint16_t port);
  // nullopt: the path is too long for a socket (more than 107 bytes). An empty path stands for an
  // unnamed peer on this machine. A path that begins with @ is a name in the abstract namespace, as
  // libpq writes it.
  static std::optional<Endpoint> unix_socket(std::string_view path);

  int family() const noexcept { return storage_.ss_family; }
  const sockaddr* address() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const noexcept { return size_; }
  std::uint16_t port() const noexcept;
  // Whether this is a loopback address or a Unix socket.
  bool local() const noexcept;
  std::string host() const;  // "192.0.2.7", "::1", "local"
  std::string text() const;  // "192.0.2.7:5432", "[::1]:5432", "unix:/run/x", "local"
  // The bytes of an IPv4 or IPv6 address; an IPv4 address mapped into IPv6 counts as IPv4. Empty
  // for a Unix socket.
  std::string bytes() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

// A network or address: "10.0.0.0/8", "2001:db8::/32", "192.0.2.7"; "local" for Unix sockets.
// parse() returns nullopt for anything else.
class Network {
 public:
  static std::optional<Network> parse(std::string_view text);
  bool contains(const Endpoint& endpoint) const;

 private:
  std::string bytes_;  // empty: Unix sockets
  unsigned bits_ = 0;
};

bool any_contains(const std::vector<Network>& networks, const Endpoint& endpoint);

// "HOST:PORT" or "[V6]:PORT"; nullopt for anything else. An empty host or "*" means every address.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
std::optional<HostPort> parse_host_port(std::string_view text);

}  // namespace termgate::http
