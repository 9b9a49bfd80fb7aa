// What the relays of storm and drill share: the server of a PostgreSQL URL, a listener on loopback,
// and connections to the server.
#include "support/relay_socket.hpp"

#include <libpq-fe.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::cli {
namespace {

std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

int connected(int family, const sockaddr* there, socklen_t size) {
  const int server = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (server >= 0 && connect(server, there, size) == 0) return server;
  if (server >= 0) close(server);
  return -1;
}

void send_at_once(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

// Connects once with libpq, which knows all defaults, service files and password files, and reads
// from it where it has connected to. A relay must read the bytes, so the result is a connection in
// clear text unless the URL or the server demands encryption.
RelayTarget locate(const std::string& url) {
  using Held = std::unique_ptr<PGconn, decltype(&PQfinish)>;
  Held connection(PQconnectdb(url.c_str()), PQfinish);
  if (PQstatus(connection.get()) != CONNECTION_OK)
    throw Unavailable(
        fmt::format("no connection to be relayed: {}", text_of(PQerrorMessage(connection.get()))));
  const auto is_encrypted = [](const Held& one) {
    return PQsslInUse(one.get()) != 0 || PQgssEncInUse(one.get()) != 0;
  };
  RelayTarget target;
  if (is_encrypted(connection)) {
    std::string sslmode, gssencmode;
    if (PQconninfoOption* all = PQconninfo(connection.get())) {
      for (const PQconninfoOption* one = all; one->keyword != nullptr; ++one) {
        if (std::string_view(one->keyword) == "sslmode") sslmode = text_of(one->val);
        if (std::string_view(one->keyword) == "gssencmode") gssencmode = text_of(one->val);
      }
      PQconninfoFree(all);
    }
    if (sslmode == "require" || sslmode.starts_with("verify-"))
      target.demanded = "sslmode=" + sslmode;
    else if (gssencmode == "require") target.demanded = "gssencmode=require";
    else {
      // A '?' before the '@' belongs to the password. If a parameter occurs twice, libpq uses the
      // last one.
      const auto at = url.find('@');
      const bool has = url.find('?', at == std::string::npos ? 0 : at) != std::string::npos;
      Held plain(
          PQconnectdb((url + (has ? "&" : "?") + "sslmode=disable&gssencmode=disable").c_str()),
          PQfinish);
      if (PQstatus(plain.get()) == CONNECTION_OK) connection = std::move(plain);
    }
  }
  target.host = text_of(PQhostaddr(connection.get()));
  if (target.host.empty()) target.host = text_of(PQhost(connection.get()));
  target.port = text_of(PQport(connection.get()));
  target.user = text_of(PQuser(connection.get()));
  target.password = text_of(PQpass(connection.get()));
  target.database = text_of(PQdb(connection.get()));
  target.options = text_of(PQoptions(connection.get()));
  if (PQconninfoOption* all = PQconninfo(connection.get())) {
    for (const PQconninfoOption* one = all; one->keyword != nullptr; ++one) {
      if (std::string_view(one->keyword) == "application_name")
        target.application_name = text_of(one->val);
    }
    PQconninfoFree(all);
  }
  target.encrypted = is_encrypted(connection);
  return target;
}

LoopbackListener listen_on_loopback() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  if (descriptor < 0 || bind(descriptor, reinterpret_cast<sockaddr*>(&here), size) != 0 ||
      listen(descriptor, 64) != 0 ||
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&here), &size) != 0) {
    if (descriptor >= 0) close(descriptor);
    throw Error("no port for the relay");
  }
  return {descriptor, ntohs(here.sin_port)};
}

int accept_client(int listener) {
  const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (client >= 0) send_at_once(client);
  return client;
}

int connect_to_server(const std::string& host, const std::string& port) {
  if (host.starts_with('/')) {
    sockaddr_un there{};
    there.sun_family = AF_UNIX;
    const std::string path = fmt::format("{}/.s.PGSQL.{}", host, port);
    if (path.size() >= sizeof there.sun_path) return -1;
    std::copy(path.begin(), path.end(), there.sun_path);
    return connected(AF_UNIX, reinterpret_cast<sockaddr*>(&there), sizeof there);
  }
  addrinfo* found = nullptr;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0) return -1;
  const int server = connected(found->ai_family, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (server >= 0) send_at_once(server);
  return server;
}

}  // namespace termgate::cli
