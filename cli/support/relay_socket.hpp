// What the relays of drill and storm have in common: where a URL leads, and the sockets of both sides. PostgreSQL only; loopback only on
// the client's side.
#pragma once

#include <string>

namespace termgate::cli {

// Where a URL leads, and as whom: what libpq makes of the URL, the environment and the password file.
struct RelayTarget {
  std::string host = {};  // an address, or a path: a Unix socket's folder
  std::string port = {}, user = {}, password = {}, database = {}, options = {}, application_name = {};
  bool encrypted = false;
  std::string demanded = {};  // where it is encrypted because the URL asks for it: "sslmode=require"
};
// Connects; throws Unavailable. Where the connection is encrypted only because server and libpq like it so (sslmode=prefer, libpq's
// default) and the server takes plain ones as well, the result is the way of a plain one.
RelayTarget locate(const std::string& url);

// A socket that listens on a free port of 127.0.0.1, which does not block. Throws Error where none can be had.
struct LoopbackListener {
  int descriptor = -1;
  int port = 0;
};
LoopbackListener listen_on_loopback();

// The next client, or -1 where none is waiting.
int accept_client(int listener);
// Blocks; -1: nobody is there. Bytes go out at once.
int connect_to_server(const std::string& host, const std::string& port);

}  // namespace termgate::cli
