// `termgate admin` over HTTP (http/server.hpp): a pool of threads passes requests to Api, and every
// subscriber gets the events.
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
  std::vector<std::string> hosts =
      {};  // host names that requests may use besides the loopback names; "*": any
  std::chrono::milliseconds poll{
      1000};  // how often the database is read while an event stream is open
  int streams_max = 2000;
  std::function<void(const std::string&)> log =
      {};  // gets what was refused or changed, on any thread; empty: a line on standard error
};

class Server {
 public:
  // Throws std::runtime_error if the address cannot be opened. `api` must outlive it.
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
