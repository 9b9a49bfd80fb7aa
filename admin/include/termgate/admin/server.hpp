// `termgate admin` over HTTP (http/server.hpp): requests go to Api on threads of their own, events to whoever has subscribed to them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <termgate/http/listen.hpp>

#include <termgate/admin/api.hpp>

namespace termgate::admin {

struct ServerOptions {
  http::ListenerOptions listener = {};
  std::vector<std::string> hosts = {};   // names that requests may use beside the loopback's; "*": any
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

}  // namespace termgate::admin
