// The server's addresses. Those of names are kept for a few seconds. Any thread.
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
  std::string name;      // as the operator gave it
  std::size_t host = 0;  // index into Backend::hosts
};

class Resolver {
 public:
  using Addresses = std::shared_ptr<const std::vector<ServerAddress>>;
  static constexpr std::chrono::seconds fresh_for{5};

  explicit Resolver(const Backend& backend);

  // nullptr: a name must be resolved; call resolve() on a thread that may block.
  Addresses known(std::chrono::steady_clock::time_point now) const;
  // May block. Never nullptr. Empty if no name has an address. `problem` gets the reason of the
  // last name that failed. A name that was resolved before keeps its addresses while the name
  // server fails, and is tried again no sooner than after fresh_for.
  Addresses resolve(std::string& problem);

 private:
  const Backend& backend_;
  mutable std::mutex mutex_;  // guards addresses_, until_
  Addresses addresses_;
  std::chrono::steady_clock::time_point until_{};
};

}  // namespace termgate::net
