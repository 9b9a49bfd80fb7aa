#include <termgate/http/endpoint.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

namespace termgate::http {
namespace {

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Endpoint::Endpoint(const sockaddr* address, socklen_t size)
    : size_(std::min<socklen_t>(size, sizeof storage_)) {
  std::memcpy(&storage_, address, size_);
}

std::optional<Endpoint> Endpoint::numeric(std::string_view host, std::uint16_t port) {
  const std::string name(host);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, name.c_str(), &v4.sin_addr) == 1)
    return Endpoint(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (inet_pton(AF_INET6, name.c_str(), &v6.sin6_addr) == 1)
    return Endpoint(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  return std::nullopt;
}

std::optional<Endpoint> Endpoint::unix_socket(std::string_view path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  if (path.starts_with('@')) {
    address.sun_path[0] = '\0';
    return Endpoint(reinterpret_cast<const sockaddr*>(&address),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size()));
  }
  return Endpoint(reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                         (path.empty() ? 0 : 1)));
}

std::uint16_t Endpoint::port() const noexcept {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return 0;
}

std::string Endpoint::bytes() const {
  if (family() == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr;
    return {reinterpret_cast<const char*>(&address), 4};
  }
  if (family() == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
    const auto* all = reinterpret_cast<const char*>(&address);
    return IN6_IS_ADDR_V4MAPPED(&address) ? std::string(all + 12, 4) : std::string(all, 16);
  }
  return {};
}

bool Endpoint::local() const noexcept {
  if (family() == AF_UNIX) return true;
  if (family() == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24) == 127;
  if (family() == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&address) ||
           (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
  }
  return false;
}

std::string Endpoint::host() const {
  const std::string address = bytes();
  if (address.empty()) return family() == AF_UNIX ? "local" : "nobody";
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.size() == 4 ? AF_INET : AF_INET6, address.data(), text, sizeof text);
  return text;
}

std::string Endpoint::text() const {
  if (family() == AF_UNIX) {
    const auto* address = reinterpret_cast<const sockaddr_un*>(&storage_);
    return size_ > offsetof(sockaddr_un, sun_path) && address->sun_path[0] != '\0'
               ? fmt::format("unix:{}", address->sun_path)
               : "local";
  }
  const std::string name = host();
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port())
                                             : fmt::format("[{}]:{}", name, port());
}

std::optional<Network> Network::parse(std::string_view text) {
  Network network;
  if (text == "local") return network;
  const auto slash = text.find('/');
  const auto address = Endpoint::numeric(text.substr(0, slash), 0);
  if (!address) return std::nullopt;
  network.bytes_ = address->bytes();
  network.bits_ = static_cast<unsigned>(network.bytes_.size() * 8);
  if (slash != std::string_view::npos) {
    const auto bits = number<unsigned>(text.substr(slash + 1));
    if (!bits || *bits > network.bits_) return std::nullopt;
    network.bits_ = *bits;
  }
  return network;
}

bool Network::contains(const Endpoint& endpoint) const {
  const std::string other = endpoint.bytes();
  if (other.size() != bytes_.size() || (bytes_.empty() && endpoint.family() != AF_UNIX))
    return false;
  for (unsigned bit = 0; bit < bits_; bit += 8) {
    const unsigned kept = std::min(8u, bits_ - bit);
    const auto difference = static_cast<unsigned char>(other[bit / 8] ^ bytes_[bit / 8]);
    if (difference >> (8 - kept) != 0) return false;
  }
  return true;
}

bool any_contains(const std::vector<Network>& networks, const Endpoint& endpoint) {
  return std::any_of(networks.begin(), networks.end(),
                     [&](const Network& network) { return network.contains(endpoint); });
}

std::optional<HostPort> parse_host_port(std::string_view text) {
  HostPort answer;
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos) return std::nullopt;
  const auto port = number<std::uint16_t>(text.substr(colon + 1));
  if (!port) return std::nullopt;
  answer.host = host == "*" ? "" : host;
  answer.port = *port;
  return answer;
}

}  // namespace termgate::http
