// If every host is a literal address or a path, all are known from the start, and resolve() is not
// needed.
#include "resolver.hpp"

#include <netdb.h>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace termgate::net {
namespace {

std::optional<Endpoint> literal(const Backend::Host& host) {
  return host.path.empty() ? Endpoint::numeric(host.address, host.port)
                           : Endpoint::unix_socket(host.path);
}

}  // namespace

Resolver::Resolver(const Backend& backend) : backend_(backend) {
  std::vector<ServerAddress> all;
  for (const auto& host : backend.hosts) {
    const auto endpoint = literal(host);
    if (!endpoint) return;
    all.push_back({*endpoint, host.name, all.size()});
  }
  addresses_ = std::make_shared<const std::vector<ServerAddress>>(std::move(all));
  until_ = std::chrono::steady_clock::time_point::max();
}

Resolver::Addresses Resolver::known(std::chrono::steady_clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  return now < until_ ? addresses_ : nullptr;
}

Resolver::Addresses Resolver::resolve(std::string& problem) {
  auto all = std::make_shared<std::vector<ServerAddress>>();
  Addresses former;
  {
    const std::lock_guard lock(mutex_);
    former = addresses_;
  }
  for (std::size_t index = 0; index < backend_.hosts.size(); ++index) {
    const auto& host = backend_.hosts[index];
    if (const auto endpoint = literal(host)) {
      all->push_back({*endpoint, host.name, index});
      continue;
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    const int failure =
        getaddrinfo(host.address.c_str(), std::to_string(host.port).c_str(), &hints, &found);
    if (failure != 0) {
      problem = fmt::format("no address for {}: {}", host.address, gai_strerror(failure));
      // A failing name server must not remove addresses that worked.
      if (former)
        std::copy_if(former->begin(), former->end(), std::back_inserter(*all),
                     [&](const ServerAddress& one) { return one.host == index; });
      continue;
    }
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
      all->push_back({Endpoint(one->ai_addr, one->ai_addrlen), host.name, index});
    freeaddrinfo(found);
  }
  const std::lock_guard lock(mutex_);
  if (all->empty()) return all;
  addresses_ = all;
  until_ = std::chrono::steady_clock::now() + fresh_for;
  return addresses_;
}

}  // namespace termgate::net
