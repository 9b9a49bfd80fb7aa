// An answer is much longer than its request, whose source address may be forged. So the number of
// answers is limited, per address and in total, to make this port useless for flooding others.
#include "browser.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace termgate::net {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int answers_a_second_to_one = 5;
constexpr int answers_a_second = 200;

// Counts the answers sent in the current second.
class Allowance {
 public:
  bool take(const std::string& address, Clock::time_point now) {
    if (now - began_ >= std::chrono::seconds(1)) {
      began_ = now;
      all_ = 0;
      of_each_.clear();
    }
    if (all_ >= answers_a_second) return false;
    int& of_this = of_each_[address];
    if (of_this >= answers_a_second_to_one) return false;
    ++of_this;
    ++all_;
    return true;
  }

 private:
  Clock::time_point began_{};
  int all_ = 0;
  std::map<std::string, int> of_each_;  // at most one entry for each answer
};

std::string machine_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  std::string text = name.data();
  std::replace(text.begin(), text.end(), ';', '_');
  return text;
}

std::vector<int> open_all(const http::HostPort& address) {
  const std::string wanted =
      fmt::format("{}:{}", address.host.empty() ? "*" : address.host, address.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                  std::to_string(address.port).c_str(), &hints, &found);
  if (failure != 0)
    throw std::runtime_error(
        fmt::format("cannot answer on UDP {}: {}", wanted, gai_strerror(failure)));
  std::vector<int> all;
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int descriptor = socket(one->ai_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    const int yes = 1;
    if (one->ai_family == AF_INET6)
      setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(descriptor, one->ai_addr, one->ai_addrlen) == 0) {
      all.push_back(descriptor);
      continue;
    }
    const bool absent =
        errno == EADDRNOTAVAIL && one->ai_family == AF_INET6 && address.host.empty();
    if (!absent) error = errno;
    close(descriptor);
  }
  freeaddrinfo(found);
  if (!all.empty() && error == 0) return all;
  for (const int descriptor : all) close(descriptor);
  throw std::runtime_error(fmt::format("cannot answer on UDP {}: {}", wanted,
                                       error == 0 ? "no such address here" : std::strerror(error)));
}

}  // namespace

class Browser::Inside {
 public:
  Inside(const http::HostPort& address, std::vector<tds::BrowsedInstance> instances)
      : instances_(std::move(instances)),
        name_(machine_name()),
        sockets_(open_all(address)),
        stop_(eventfd(0, EFD_CLOEXEC)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Inside() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_, &one, sizeof one);
    thread_.join();
    for (const int descriptor : sockets_) close(descriptor);
    close(stop_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  std::string address() const {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    getsockname(sockets_.front(), reinterpret_cast<sockaddr*>(&address), &size);
    return http::Endpoint(reinterpret_cast<const sockaddr*>(&address), size).text();
  }

 private:
  void run() {
    std::vector<pollfd> waiting{{stop_, POLLIN, 0}};
    for (const int descriptor : sockets_) waiting.push_back({descriptor, POLLIN, 0});
    for (;;) {
      if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
      if (waiting[0].revents != 0) return;
      for (std::size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents != 0) answer_some(waiting[i].fd);
      }
    }
  }

  void answer_some(int descriptor) {
    constexpr int at_once = 100;
    for (int i = 0; i < at_once; ++i) {
      std::array<char, tds::browser_request_bytes_max + 1> request{};
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const ssize_t bytes = recvfrom(descriptor, request.data(), request.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      if (bytes < 0) return;
      const std::string answer =
          tds::browser_answer({request.data(), static_cast<std::size_t>(bytes)}, name_, instances_);
      if (answer.empty()) continue;
      const http::Endpoint asking(reinterpret_cast<const sockaddr*>(&from), size);
      if (!allowance_.take(asking.host(), Clock::now())) continue;
      [[maybe_unused]] const ssize_t sent =
          sendto(descriptor, answer.data(), answer.size(), 0, asking.address(), asking.size());
    }
  }

  const std::vector<tds::BrowsedInstance> instances_;
  const std::string name_;
  const std::vector<int> sockets_;
  const int stop_;
  Allowance allowance_;  // used by thread_ only
  std::thread thread_;
};

Browser::Browser(const http::HostPort& address, std::vector<tds::BrowsedInstance> instances)
    : inside_(std::make_unique<Inside>(address, std::move(instances))) {}
Browser::~Browser() = default;
std::string Browser::address() const { return inside_->address(); }

}  // namespace termgate::net
