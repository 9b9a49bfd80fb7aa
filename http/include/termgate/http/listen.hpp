// Listening sockets: their options as an operator writes them, and opening them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/http/endpoint.hpp>

namespace termgate::http {

// A listener: [NAME=]HOST:PORT or [NAME=]unix:/path/.s.PGSQL.5432, each optionally followed by
// ,proxy (its peers speak PROXY protocol v2).
struct ListenerOptions {
  std::string name;  // the name that the operator's rules use; by default the address
  std::string host;  // empty: all addresses
  std::uint16_t port = 0;
  std::string path;  // for a Unix socket; host and port are then not used
  bool proxy_protocol = false;
  int inherited = -1;  // a socket that systemd has opened; -1: none
};
// Throws std::invalid_argument.
ListenerOptions parse_listener(std::string_view text);

struct OpenListener {
  int descriptor = -1;
  ListenerOptions options;
  std::string address;  // as text, with the actual port
  bool is_unix = false;
};

// Opens one socket for each address of the host name (the lookup may block), or a Unix socket with
// the permissions `unix_mode`; an inherited socket is taken as it is. Throws std::runtime_error,
// which names the address or the inherited socket.
std::vector<OpenListener> open_listener(const ListenerOptions& options, bool reuse_port,
                                        unsigned unix_mode);

// Closes the listeners that are still open, and removes the files of their Unix sockets, except
// those of inherited ones.
void close_all(std::vector<OpenListener>& listeners) noexcept;

// Sets TCP_NODELAY, and TCP keepalive after this much silence (0: no keepalive). Does nothing for a
// Unix socket.
void tune(int descriptor, int family, std::chrono::seconds keepalive) noexcept;

}  // namespace termgate::http
