// Listening sockets: TCP for every address of a host, a Unix socket, or one that systemd has handed
// over.
#include <termgate/http/listen.hpp>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

namespace termgate::http {
namespace {

constexpr int backlog = 4096;  // the kernel limits it to net.core.somaxconn

[[noreturn]] void fail(int descriptor, const std::string& address, const char* what) {
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  throw std::runtime_error(
      fmt::format("cannot listen on {}: {}: {}", address, what, std::strerror(error)));
}

std::string bound_address(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  return Endpoint(reinterpret_cast<const sockaddr*>(&address), size).text();
}

OpenListener open_unix(const ListenerOptions& options, unsigned mode) {
  const auto endpoint = Endpoint::unix_socket(options.path);
  if (!endpoint)
    throw std::runtime_error(
        fmt::format("cannot listen on unix:{}: the path has more than 107 bytes", options.path));
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail(descriptor, options.path, "socket");
  if (bind(descriptor, endpoint->address(), endpoint->size()) != 0) {
    if (errno != EADDRINUSE) fail(descriptor, options.path, "bind");
    struct stat file {};
    if (lstat(options.path.c_str(), &file) == 0 && !S_ISSOCK(file.st_mode)) {
      errno = EADDRINUSE;
      fail(descriptor, options.path, "there is a file that is not a socket");
    }
    // A socket file without a listener was left by a process that is gone.
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool dead =
        connect(probe, endpoint->address(), endpoint->size()) != 0 && errno == ECONNREFUSED;
    close(probe);
    errno = EADDRINUSE;
    if (!dead) fail(descriptor, options.path, "another process listens there");
    unlink(options.path.c_str());
    if (bind(descriptor, endpoint->address(), endpoint->size()) != 0)
      fail(descriptor, options.path, "bind");
  }
  // The permissions are set before listen(), so that nobody can connect with other ones.
  if (chmod(options.path.c_str(), static_cast<mode_t>(mode)) != 0)
    fail(descriptor, options.path, "chmod");
  if (listen(descriptor, backlog) != 0) fail(descriptor, options.path, "listen");
  return {descriptor, options, "unix:" + options.path, true};
}

}  // namespace

ListenerOptions parse_listener(std::string_view text) {
  ListenerOptions listener;
  const std::string given(text);
  if (text.ends_with(",proxy")) {
    listener.proxy_protocol = true;
    text.remove_suffix(6);
  }
  if (const auto equals = text.find('=');
      equals != std::string_view::npos && equals < text.find(':')) {
    listener.name = text.substr(0, equals);
    text.remove_prefix(equals + 1);
    if (listener.name.empty())
      throw std::invalid_argument(fmt::format("--listen {}: the name before = is empty", given));
  }
  if (text.starts_with("unix:") || text.starts_with('/')) {
    listener.path = text.starts_with('/') ? text : text.substr(5);
    if (!listener.path.starts_with('/') || !Endpoint::unix_socket(listener.path))
      throw std::invalid_argument(fmt::format(
          "--listen {}: a socket's path begins with / and has at most 107 bytes", given));
  } else {
    const auto address = parse_host_port(text);
    if (!address)
      throw std::invalid_argument(fmt::format(
          "--listen {}: write HOST:PORT, [IPV6]:PORT or unix:/path/.s.PGSQL.5432", given));
    listener.host = address->host;
    listener.port = address->port;
  }
  if (listener.name.empty()) listener.name = text;
  return listener;
}

std::vector<OpenListener> open_listener(const ListenerOptions& options, bool reuse_port,
                                        unsigned unix_mode) {
  if (options.inherited >= 0) {
    fcntl(options.inherited, F_SETFL, fcntl(options.inherited, F_GETFL) | O_NONBLOCK);
    int family = 0;
    int type = 0;
    socklen_t size = sizeof family;
    getsockopt(options.inherited, SOL_SOCKET, SO_DOMAIN, &family, &size);
    size = sizeof type;
    getsockopt(options.inherited, SOL_SOCKET, SO_TYPE, &type, &size);
    if (type != SOCK_STREAM)
      throw std::runtime_error(
          fmt::format("the inherited socket \"{}\" is not a stream socket", options.name));
    return {{options.inherited, options, bound_address(options.inherited), family == AF_UNIX}};
  }
  if (!options.path.empty()) return {open_unix(options, unix_mode)};

  const std::string wanted =
      fmt::format("{}:{}", options.host.empty() ? "*" : options.host, options.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(options.host.empty() ? nullptr : options.host.c_str(),
                                  std::to_string(options.port).c_str(), &hints, &found);
  if (failure != 0)
    throw std::runtime_error(fmt::format("cannot listen on {}: {}", wanted, gai_strerror(failure)));
  std::vector<OpenListener> all;
  // With port 0 the kernel chooses a port for the first address; the other addresses use the same.
  std::uint16_t port = options.port;
  try {
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      const int descriptor = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      // A machine without IPv6 can still listen on all IPv4 addresses.
      if (descriptor < 0 && errno == EAFNOSUPPORT && one->ai_family == AF_INET6 &&
          options.host.empty())
        continue;
      if (descriptor < 0) fail(descriptor, wanted, "socket");
      const int yes = 1;
      setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      if (reuse_port && setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0)
        fail(descriptor, wanted, "SO_REUSEPORT");
      if (one->ai_family == AF_INET6)
        setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
      sockaddr_storage address{};
      std::memcpy(&address, one->ai_addr, one->ai_addrlen);
      // Binding port 0 a second time would choose another port.
      if (one->ai_family == AF_INET)
        reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(port);
      if (one->ai_family == AF_INET6)
        reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = htons(port);
      if (bind(descriptor, reinterpret_cast<const sockaddr*>(&address), one->ai_addrlen) != 0) {
        if (errno == EADDRNOTAVAIL && one->ai_family == AF_INET6 && options.host.empty()) {
          close(descriptor);
          continue;
        }
        fail(descriptor, wanted, "bind");
      }
      if (listen(descriptor, backlog) != 0) fail(descriptor, wanted, "listen");
      all.push_back({descriptor, options, bound_address(descriptor), false});
      socklen_t size = sizeof address;
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
      port = Endpoint(reinterpret_cast<const sockaddr*>(&address), size).port();
    }
  } catch (...) {
    freeaddrinfo(found);
    for (const OpenListener& open : all) close(open.descriptor);
    throw;
  }
  freeaddrinfo(found);
  if (all.empty())
    throw std::runtime_error(
        fmt::format("cannot listen on {}: this machine has no such address", wanted));
  return all;
}

void close_all(std::vector<OpenListener>& listeners) noexcept {
  for (OpenListener& listener : listeners) {
    if (listener.descriptor < 0) continue;
    // A file that systemd made is systemd's to remove. It is removed before the socket is closed:
    // afterwards another process may have made one in its place.
    if (listener.is_unix && listener.options.inherited < 0) unlink(listener.options.path.c_str());
    close(listener.descriptor);
    listener.descriptor = -1;
  }
}

void tune(int descriptor, int family, std::chrono::seconds keepalive) noexcept {
  if (family == AF_UNIX) return;
  const int yes = 1;
  const int idle = static_cast<int>(keepalive.count());
  const int interval = 5;
  const int count = 4;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (idle <= 0) return;
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

}  // namespace termgate::http
