// The sockets of `termgate admin`: requests go to Api on threads of their own, events to whoever has asked for them. Bounded in everything:
// headers, bodies, connections, time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api.hpp"

namespace termgate::cli::admin {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 9091;
  int inherited = -1;                    // a listening socket that systemd opened: host is its own
  bool ipv6 = false;                     // of the inherited socket
  std::chrono::milliseconds poll{1000};  // how often the database is looked at while somebody reads events
  int streams_max = 2000;
  std::function<void(const std::string&)> log = {};  // what was refused or changed; none: a line on standard error
};

class Server {
 public:
  // Throws std::runtime_error where the address cannot be had. `api` outlives it.
  Server(const ServerOptions& options, Api& api);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  std::string address() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::cli::admin
