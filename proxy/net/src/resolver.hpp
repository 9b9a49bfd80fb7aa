// The server's addresses. Names are resolved at most every few seconds, by a thread that may wait. Any thread.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <termgate/http/endpoint.hpp>
#include <termgate/net/options.hpp>

namespace termgate::net {

struct ServerAddress {
  Endpoint endpoint;
  std::string name;      // of the host, as the operator gave it
  std::size_t host = 0;  // which one of Backend's
};

class Resolver {
 public:
  using Addresses = std::shared_ptr<const std::vector<ServerAddress>>;
  static constexpr std::chrono::seconds fresh_for{5};

  explicit Resolver(const Backend& backend);

  // nullptr: a name must be asked for; call resolve() where that may take its time.
  Addresses known(std::chrono::steady_clock::time_point now) const;
  // Never nullptr; empty where no name has an address, and `problem` says why. A name that was resolved before keeps its former
  // addresses while the resolver is out of order.
  Addresses resolve(std::string& problem);

 private:
  const Backend& backend_;
  mutable std::mutex mutex_;  // guards addresses_, until_
  Addresses addresses_;
  std::chrono::steady_clock::time_point until_{};
};

}  // namespace termgate::net
