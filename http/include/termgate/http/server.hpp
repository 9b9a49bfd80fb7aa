// An HTTP server: listeners and their connections. Everything is bounded: by Limits, by what the
// handler's decisions allow, and by the constants named …_max.
//
//   http::Server server(options, handler);   // listens, so that its addresses are known
//   server.start();                          // from here on handler is called
//
// Any thread may call it. `handler` must outlive it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <termgate/http/endpoint.hpp>
#include <termgate/http/handler.hpp>
#include <termgate/http/listen.hpp>
#include <termgate/http/tls.hpp>

namespace termgate::http {

struct Limits {
  // Beyond this, the connection that has waited longest for a complete request, on the new one's
  // loop, is closed; if there is none, the new one is.
  std::size_t connections = 1000;
  std::size_t head_bytes = 16u << 10;
  std::chrono::milliseconds keep_alive{
      std::chrono::seconds{120}};  // from the start, or from the last answer, to the next request
  // From the first byte of a head to its last. It also bounds a TLS handshake and a PROXY header.
  std::chrono::milliseconds head_takes{std::chrono::seconds{10}};
  std::chrono::milliseconds body_takes{
      std::chrono::seconds{30}};  // from the head to the last byte of the body
  std::chrono::milliseconds write_stalls{
      std::chrono::seconds{30}};  // how long a peer may read nothing while something is being sent
  // A WebSocket that is silent for this long gets a ping; after as long again without an answer it
  // ends.
  std::chrono::milliseconds ping_after{std::chrono::seconds{30}};
};

struct ServerOptions {
  std::vector<ListenerOptions> listeners;  // TCP, Unix sockets, or inherited from systemd
  ClientTls tls = {};
  // Who may send a PROXY header. Other peers of such a listener are served under their own address.
  std::vector<Network> proxy_protocol_from = {};
  std::vector<std::string> hosts =
      {};  // Host names that are served besides the loopback names; "*": any
  unsigned threads = 1;
  Limits limits = {};
};

class Server {
 public:
  // Throws std::runtime_error for an address that cannot be opened or a certificate that cannot be
  // read.
  Server(ServerOptions options, Handler& handler);
  // Closes all connections. Answers that come later are dropped.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void start();
  // Accepts no new connections. Those between two requests end at once, others after their answer;
  // WebSockets are closed with 1001.
  void drain();
  bool ended() const;  // whether no connection is left

  // Reads the certificates, then calls `rest`, which makes the owner's other changes and returns
  // what was wrong with them, or an empty text. reload() returns that text. If it is empty, future
  // connections get the new certificates. Throws std::runtime_error for a certificate that cannot
  // be read; then `rest` was not called and nothing has changed.
  std::string reload(const ClientTls& tls, const std::function<std::string()>& rest);

  std::vector<std::string> addresses() const;  // HOST:PORT, with the actual port

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
