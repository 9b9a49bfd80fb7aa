#include "dialer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace termgate::net {

void Dialer::begin() {
  state_ = State::idle;
  next_ = 0;
  problem_.clear();
}

// Among several servers, the one that the proxy's own connection uses comes first. If the URL
// restricts the kind of server, libpq has checked that, and no other server is used.
void Dialer::use(Resolver::Addresses addresses, std::string problem) {
  problem_ = std::move(problem);
  addresses_ = std::move(addresses);
  const Backend& backend = worker_.shared().backend;
  if (backend.hosts.size() < 2 && !backend.follows) return;
  const conversation::ServedBy served_by = worker_.shared().authority.served_by();
  const auto is_it = [&](const ServerAddress& address) {
    const Backend::Host& host = backend.hosts[address.host];
    return (host.name.empty() ? host.address : host.name) == served_by.host &&
           std::to_string(host.port) == served_by.port;
  };
  auto ordered = std::make_shared<std::vector<ServerAddress>>(*addresses_);
  const auto others = std::stable_partition(ordered->begin(), ordered->end(), is_it);
  if (backend.follows) {
    ordered->erase(others, ordered->end());
    if (ordered->empty() && problem_.empty())
      problem_ =
          "the proxy's own connection has not found yet which server of --backend is the right one";
  }
  addresses_ = std::move(ordered);
}

Dialer::State Dialer::next(const Options& options) {
  for (state_ = State::idle;;) {
    server_.close();
    if (next_ >= addresses_->size()) {
      if (problem_.empty()) problem_ = "the server has no address";
      return state_ = State::failed;
    }
    const Endpoint& endpoint = (*addresses_)[next_++].endpoint;
    const int descriptor = socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor >= 0) {
      server_.open(descriptor);
      http::tune(descriptor, endpoint.family(), options.keepalive);
      if (connect(descriptor, endpoint.address(), endpoint.size()) == 0)
        return state_ = State::connected;
      if (errno == EINPROGRESS) return state_ = State::under_way;
      if (errno == EAGAIN) {
        // A Unix socket whose queue is full: the server runs, and is busy.
        server_.close();
        --next_;
        return state_ = State::busy;
      }
    }
    add_problem(std::strerror(errno));
  }
}

void Dialer::add_problem(std::string_view why) {
  // It was to be tried again, and is given up.
  if (busy()) ++next_, state_ = State::idle;
  if (!problem_.empty()) problem_ += "; ";
  problem_ += fmt::format("{}: {}", address().endpoint.text(), why);
}

const ServerAddress& Dialer::address() const noexcept {
  return (*addresses_)[next_ == 0 ? 0 : std::min(next_ - 1, addresses_->size() - 1)];
}

}  // namespace termgate::net
