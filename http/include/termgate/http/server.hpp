// Listeners and their connections. Bounded in everything; each bound is a member of Limits.
//
//   http::Server server(options, handler);   // listens, so that its addresses are known
//   server.start();                          // from here on handler is called
//
// Any thread may call it. `handler` outlives it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <termgate/http/endpoint.hpp>
#include <termgate/http/handler.hpp>
#include <termgate/http/listen.hpp>
#include <termgate/http/tls.hpp>

namespace termgate::http {

struct Limits {
  std::size_t connections = 1000;  // past it the one that is silent for longest between two requests goes; where none is, the new one
  std::size_t head_bytes = 16u << 10;
  std::chrono::milliseconds keep_alive{std::chrono::seconds{120}};  // from an answer to the next request
  std::chrono::milliseconds head_takes{std::chrono::seconds{10}};   // from a head's first byte to its last; a TLS handshake, a PROXY header
  std::chrono::milliseconds body_takes{std::chrono::seconds{30}};   // from its first byte to its last
  std::chrono::milliseconds write_stalls{std::chrono::seconds{30}};  // a write of which the peer reads nothing
  std::chrono::milliseconds ping_after{std::chrono::seconds{30}};  // of a WebSocket's silence; without an answer for as long again it ends
};

struct ServerOptions {
  std::vector<ListenerOptions> listeners;  // TCP, or inherited from systemd
  ClientTls tls = {};
  std::vector<Network> proxy_protocol_from = {};  // who may send a PROXY header; others on such a listener are taken as they come
  std::vector<std::string> hosts = {};            // names of the Host header beside the loopback's; "*": any
  unsigned threads = 1;
  Limits limits = {};
};

class Server {
 public:
  // Throws std::runtime_error: an address that cannot be had, a certificate that cannot be read.
  Server(ServerOptions options, Handler& handler);
  // Ends what is still there; answers that are still owed go nowhere.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void start();
  // No new connection; those that wait for a request end, others after their answer; WebSockets are closed with 1001.
  void drain();
  bool ended() const;  // no connection is left

  // Certificates for connections to come. Throws std::runtime_error, and then nothing has changed.
  void reload(const ClientTls& tls);

  std::vector<std::string> addresses() const;  // HOST:PORT, with the port that was found

  struct Figures {
    std::size_t connections = 0, sockets = 0;
    std::uint64_t accepted = 0, requests = 0, refused = 0;
  };
  Figures figures() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::http
