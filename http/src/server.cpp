// The first loop accepts, and passes each connection to the loop with the fewest. Stopping ends the
// loops one after the other; a task that is posted to a loop that has ended is dropped.
#include <termgate/http/server.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include <boost/asio/post.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <fmt/format.h>

#include "loop.hpp"

namespace termgate::http {
namespace {

constexpr int accepts_at_once = 64;
constexpr std::chrono::milliseconds accept_pause{100};

// Chooses HTTP/1.1, and fails the handshake if the client offers only other protocols (ALPACA: a
// browser led to a server of another protocol).
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_bytes,
                    const unsigned char* in, unsigned int in_bytes, void*) {
  static constexpr unsigned char ours[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_bytes, ours, sizeof ours, in, in_bytes) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

TlsContext context_of(const ClientTls& options) {
  TlsContext context = context_for_clients(options);
  if (context) SSL_CTX_set_alpn_select_cb(context.get(), choose_protocol, nullptr);
  return context;
}

}  // namespace

class Server::Inside {
 public:
  Inside(ServerOptions options, Handler& handler)
      : shared(std::make_shared<Shared>(std::move(options), handler)) {
    shared->set_tls(context_of(shared->options.tls));
    const unsigned threads = std::max(1u, shared->options.threads);
    for (unsigned i = 0; i < threads; ++i) loops.push_back(std::make_shared<Loop>(shared));
    try {
      for (const ListenerOptions& listener : shared->options.listeners) open(listener);
    } catch (...) {
      close_all(listeners);
      throw;
    }
  }
  ~Inside() {
    shared->draining = true;
    for (const auto& loop : loops) loop->stop();
    acceptors.clear();
    close_all(listeners);
  }

  void start() {
    for (OpenListener& listener : listeners)
      acceptors.push_back(std::make_unique<Acceptor>(*this, listener));
    for (const auto& acceptor : acceptors) acceptor->wait();
    for (const auto& loop : loops) loop->start();
  }

  // The first loop owns the listeners, so it closes them.
  void drain() {
    if (shared->draining.exchange(true)) return;
    loops.front()->post([this] {
      for (const auto& acceptor : acceptors) acceptor->stop();
      close_all(listeners);
    });
    for (const auto& loop : loops) loop->drain();
  }

  const std::shared_ptr<Shared> shared;
  std::vector<std::shared_ptr<Loop>> loops;
  std::vector<OpenListener> listeners;
  std::vector<std::string> addresses;

 private:
  class Acceptor {
   public:
    Acceptor(Inside& inside, OpenListener& listener)
        : inside_(inside),
          listener_(listener),
          waiter_(inside.loops.front()->context(), listener.descriptor),
          pause_(inside.loops.front()->context()) {}
    ~Acceptor() { stop(); }
    Acceptor(const Acceptor&) = delete;
    Acceptor& operator=(const Acceptor&) = delete;

    void wait() {
      waiter_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [this](boost::system::error_code error) {
                           if (!error) accept();
                         });
    }
    void stop() {
      if (waiter_.is_open()) waiter_.release();
      pause_.cancel();
    }

   private:
    void accept() {
      for (int i = 0; i < accepts_at_once; ++i) {
        sockaddr_storage address{};
        socklen_t size = sizeof address;
        const int descriptor = accept4(listener_.descriptor, reinterpret_cast<sockaddr*>(&address),
                                       &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor >= 0) {
          ++inside_.shared->accepted;
          inside_.next().take(descriptor,
                              Endpoint(reinterpret_cast<const sockaddr*>(&address), size),
                              listener_.options);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
          break;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
          // A moment later a descriptor or memory may be free.
          pause_.expires_after(accept_pause);
          return pause_.async_wait([this](boost::system::error_code stopped) {
            if (!stopped) wait();
          });
        }
      }
      wait();
    }

    Inside& inside_;
    OpenListener& listener_;
    boost::asio::posix::stream_descriptor waiter_;
    boost::asio::steady_timer pause_;
  };

  void open(const ListenerOptions& options) {
    for (OpenListener& one : open_listener(options, false, 0700)) {
      listeners.push_back(one);
      addresses.push_back(one.address);
    }
  }

  // The loop for the next connection: the one with the fewest. At the limit an idle connection must
  // make room, so it is the loop with the most idle ones.
  Loop& next() {
    const bool full = shared->connections >= shared->options.limits.connections;
    const auto fewer = [&](const std::shared_ptr<Loop>& left, const std::shared_ptr<Loop>& right) {
      return full ? left->silent_count() > right->silent_count() : left->load() < right->load();
    };
    return **std::min_element(loops.begin(), loops.end(), fewer);
  }

  std::vector<std::unique_ptr<Acceptor>> acceptors;
};

Server::Server(ServerOptions options, Handler& handler)
    : inside_(std::make_unique<Inside>(std::move(options), handler)) {}
Server::~Server() = default;

void Server::start() { inside_->start(); }
void Server::drain() { inside_->drain(); }
bool Server::ended() const { return inside_->shared->connections == 0; }
std::string Server::reload(const ClientTls& tls, const std::function<std::string()>& rest) {
  auto context = context_of(tls);
  std::string problem = rest();
  if (problem.empty()) inside_->shared->set_tls(std::move(context));
  return problem;
}
std::vector<std::string> Server::addresses() const { return inside_->addresses; }

Server::Figures Server::figures() const {
  const Shared& shared = *inside_->shared;
  return {shared.connections, shared.sockets, shared.accepted, shared.requests, shared.refused};
}

}  // namespace termgate::http
