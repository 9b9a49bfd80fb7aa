#include "fault_proxy.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace termgate::test {
namespace {

constexpr std::size_t request_bytes_kept = 4096;  // for requests(): the head of each is enough

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// The length of the first whole request in `bytes`, or 0. The first message of a connection has no
// type byte.
std::size_t request_length(const std::string& bytes, bool startup) {
  if (startup) {
    if (bytes.size() < 4) return 0;
    const std::size_t length = number_at(bytes, 0);
    return bytes.size() >= length ? length : 0;
  }
  std::size_t at = 0;
  while (bytes.size() - at >= 5) {
    const char type = bytes[at];
    const std::size_t length = 1 + std::size_t{number_at(bytes, at + 1)};
    if (bytes.size() - at < length) return 0;
    at += length;
    // Query, Sync, a password, Terminate: after these the client waits.
    if (type == 'Q' || type == 'S' || type == 'p' || type == 'X') return at;
  }
  return 0;
}

// Whether the answers end with ReadyForQuery.
bool answered(const std::string& bytes) {
  std::size_t at = 0;
  while (bytes.size() - at >= 5) {
    const std::size_t length = 1 + std::size_t{number_at(bytes, at + 1)};
    if (bytes.size() - at < length) return false;
    if (bytes[at] == 'Z') return true;
    at += length;
  }
  return false;
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_some(int socket, std::string& bytes) {
  char part[65536];
  const auto got = recv(socket, part, sizeof part, 0);
  if (got <= 0) return false;
  bytes.append(part, static_cast<std::size_t>(got));
  return true;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

struct Socket {
  int descriptor;
  explicit Socket(int held) : descriptor(held) {}
  ~Socket() {
    if (descriptor >= 0) close(descriptor);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
};

}  // namespace

FaultProxy::FaultProxy(std::uint16_t server_port) : server_port_(server_port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      pipe2(stop_pipe_, O_CLOEXEC) != 0) {
    throw std::runtime_error("the fault proxy cannot listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

FaultProxy::~FaultProxy() {
  close(stop_pipe_[1]);  // wakes every poll
  acceptor_.join();
  for (auto& thread : threads_) thread.join();  // no new ones: the acceptor is gone
  close(listener_);
  close(stop_pipe_[0]);
}

std::string FaultProxy::url(const std::string& server_url) const {
  const auto slash = server_url.rfind('/');
  const auto colon = server_url.rfind(':', slash);
  const bool options = server_url.find('?', slash) != std::string::npos;
  return server_url.substr(0, colon + 1) + std::to_string(port_) + server_url.substr(slash) +
         (options ? "&" : "?") + "sslmode=disable&gssencmode=disable";
}

void FaultProxy::arm(Fault fault, std::string text, std::chrono::milliseconds pause) {
  const std::lock_guard lock(mutex_);
  armed_ = {fault, std::move(text), pause};
}

int FaultProxy::requests(const std::string& text) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(
      seen_.begin(), seen_.end(),
      [&](const std::string& request) { return request.find(text) != std::string::npos; }));
}

bool FaultProxy::wait_fired(int count) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return fired_ >= count; });
}

FaultProxy::Armed FaultProxy::meet(std::string_view request) {
  const std::lock_guard lock(mutex_);
  seen_.emplace_back(request.substr(0, request_bytes_kept));
  if (armed_.fault == Fault::none || request.find(armed_.text) == std::string_view::npos) return {};
  const Armed met = std::exchange(armed_, {});
  ++fired_;
  changed_.notify_all();
  return met;
}

bool FaultProxy::sleep(std::chrono::milliseconds pause) {
  pollfd stop{stop_pipe_[0], POLLIN, 0};
  return poll(&stop, 1, static_cast<int>(pause.count())) == 0;
}

void FaultProxy::accept_all() {
  for (;;) {
    pollfd ready[] = {{listener_, POLLIN, 0}, {stop_pipe_[0], POLLIN, 0}};
    poll(ready, 2, -1);
    if (ready[1].revents != 0) return;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    ++accepted_;
    const std::lock_guard lock(threads_mutex_);
    threads_.emplace_back([this, client] { relay(client); });
  }
}

void FaultProxy::relay(int held) {
  struct Counted {
    std::atomic<int>& count;
    explicit Counted(std::atomic<int>& relays) : count(relays) { ++count; }
    ~Counted() { --count; }
  };
  const Counted counted(relaying_);
  const Socket client(held);
  while (muted_) {
    if (!sleep(std::chrono::milliseconds(10))) return;
  }
  const Socket server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(server_port_);
  if (connect(server.descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return;
  std::string from_client;
  std::string from_server;
  bool startup = true;
  Armed swallowing;
  for (;;) {
    pollfd ready[] = {
        {client.descriptor, POLLIN, 0}, {server.descriptor, POLLIN, 0}, {stop_pipe_[0], POLLIN, 0}};
    poll(ready, 3, -1);
    if (ready[2].revents != 0) return;
    while (muted_) {
      if (!sleep(std::chrono::milliseconds(10))) return;
    }
    if (ready[1].revents != 0) {
      const bool open = receive_some(server.descriptor, from_server);
      if (swallowing.fault == Fault::none) {
        if (!send_all(client.descriptor, from_server)) return;
        from_server.clear();
      } else if (!open || answered(from_server)) {
        if (swallowing.fault == Fault::drop_answer) sleep(swallowing.pause);
        return;
      }
      if (!open) return;
    }
    if (ready[0].revents != 0) {
      if (!receive_some(client.descriptor, from_client)) return;
      while (const std::size_t length = request_length(from_client, startup)) {
        startup = false;
        const std::string request = from_client.substr(0, length);
        from_client.erase(0, length);
        const Armed met = meet(request);
        if (met.fault == Fault::cut_before) return;
        if (met.fault == Fault::freeze) {
          sleep(met.pause);
          return;
        }
        if (!send_all(server.descriptor, request)) return;
        if (met.fault == Fault::cut_at_once) return;
        if (met.fault == Fault::cut_after || met.fault == Fault::drop_answer) swallowing = met;
      }
    }
  }
}

}  // namespace termgate::test
