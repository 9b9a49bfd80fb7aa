// Listening sockets. Throws std::runtime_error, which names the address.
#pragma once

#include <string>
#include <vector>

#include <termgate/net/options.hpp>

namespace termgate::net {

struct OpenListener {
  int descriptor = -1;
  ListenerOptions options;
  std::string address;  // as text, with the port that was found
  bool is_unix = false;
};

// One for each address of the host name.
std::vector<OpenListener> open_listener(const ListenerOptions& options, bool reuse_port, unsigned unix_mode);

// Removes the files of Unix sockets that were opened here. Those closed already are left alone.
void close_all(std::vector<OpenListener>& listeners) noexcept;

// Nodelay, and keepalive after so much silence.
void tune(int descriptor, int family, std::chrono::seconds keepalive) noexcept;

}  // namespace termgate::net
