// What the relays of drill and storm share: the server of a PostgreSQL URL, and the sockets of both
// sides. Clients connect on loopback only.
#pragma once

#include <string>

namespace termgate::cli {

// The server and the login that libpq derives from a URL, the environment and the password file.
struct RelayTarget {
  std::string host = {};  // an address, or the folder of a Unix socket
  std::string port = {}, user = {}, password = {}, database = {}, options = {},
              application_name = {};
  bool encrypted = false;
  // Why it is encrypted, if the URL demands it: "sslmode=require".
  std::string demanded = {};
};
// Connects; throws Unavailable. If the connection is encrypted only by default (sslmode=prefer) and
// the server accepts plain ones too, the result describes a plain one.
RelayTarget locate(const std::string& url);

// A non-blocking socket that listens on a free port of 127.0.0.1. Throws Error if there is none.
struct LoopbackListener {
  int descriptor = -1;
  int port = 0;
};
LoopbackListener listen_on_loopback();

// The next client, or -1 if none is waiting.
int accept_client(int listener);
// Connects, and blocks until it has; returns -1 if it cannot. A TCP connection has TCP_NODELAY.
int connect_to_server(const std::string& host, const std::string& port);

}  // namespace termgate::cli
