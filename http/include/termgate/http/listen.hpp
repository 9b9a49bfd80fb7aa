// Listening sockets: what an operator writes, and what is opened for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/http/endpoint.hpp>

namespace termgate::http {

// [NAME=]HOST:PORT, [NAME=]unix:/path/.s.PGSQL.5432, each optionally followed by ,proxy (PROXY protocol v2 is spoken to it).
struct ListenerOptions {
  std::string name;  // the name that rules use; without one, the address
  std::string host;  // empty: every address
  std::uint16_t port = 0;
  std::string path;  // of a Unix socket; then host and port are not used
  bool proxy_protocol = false;
  int inherited = -1;  // a socket that systemd has opened
};
// Throws std::invalid_argument.
ListenerOptions parse_listener(std::string_view text);

struct OpenListener {
  int descriptor = -1;
  ListenerOptions options;
  std::string address;  // as text, with the port that was found
  bool is_unix = false;
};

// One for each address of the host name. Throws std::runtime_error, which names the address.
std::vector<OpenListener> open_listener(const ListenerOptions& options, bool reuse_port, unsigned unix_mode);

// Removes the files of Unix sockets that were opened here. Those closed already are left alone.
void close_all(std::vector<OpenListener>& listeners) noexcept;

// Nodelay, and keepalive after so much silence.
void tune(int descriptor, int family, std::chrono::seconds keepalive) noexcept;

}  // namespace termgate::http
