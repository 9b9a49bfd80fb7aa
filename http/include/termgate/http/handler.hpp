// What the owner of a server does with its requests, and by which means it answers.
//
// Each connection lives on one event loop. The loop's thread calls Handler, which must not block: it takes the request, gives it to a
// worker, and returns. Answers may be completed by any thread, at any later time, also after the server is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include <termgate/http/message.hpp>

namespace termgate::http {

// A streamed body, in chunks. One thread at a time. Destroyed before end(), it ends the connection without the last chunk, and so the
// client knows that the body was cut off.
class BodyWriter {
 public:
  static constexpr std::size_t waiting_bytes_max = 256u << 10;

  virtual ~BodyWriter() = default;
  // Blocks while more than waiting_bytes_max bytes wait for the client to read them; so never on a loop's thread. A client that reads
  // nothing for Limits::write_stalls is gone. False: it is, and nothing more will be sent.
  virtual bool write(std::string_view bytes) = 0;
  // For events of which only the last one counts: it does not block, and takes the place of what waits and is not yet on its way.
  virtual bool latest(std::shared_ptr<const std::string> bytes) = 0;
  // The body is whole. It does not block.
  virtual void end() = 0;
  virtual bool gone() const = 0;
};

// What one request is owed: exactly one of reply() and stream(), by any thread. Dropped without either, it answers 500.
class Answer {
 public:
  class Owed;
  explicit Answer(std::shared_ptr<Owed> owed) noexcept;
  ~Answer();
  Answer(Answer&&) noexcept = default;
  Answer& operator=(Answer&&) noexcept;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void reply(Reply reply);
  // `head` has no body. It does not wait.
  std::unique_ptr<BodyWriter> stream(Reply head);
  // Called once, on the loop's thread, if the client's connection ends before the answer is complete (a client that only stops sending
  // counts as gone); at once, on this thread, where that has happened already. It must not block. It is dropped with the answer's end.
  void on_gone(std::function<void()> callback);
  bool gone() const;

 private:
  std::shared_ptr<Owed> owed_;
};

enum class Kind : std::uint8_t { text, binary };

// A WebSocket that is open. Any thread; it may outlive its connection.
class Socket {
 public:
  static constexpr std::size_t waiting_bytes_max = 1u << 20;

  virtual ~Socket() = default;
  // Blocks while more than waiting_bytes_max bytes wait for the client to read them: for workers. False: the socket is closed.
  virtual bool send(std::string message, Kind kind) = 0;
  // The same without blocking: for the loop's thread. Who uses it bounds what it sends by waiting().
  virtual bool post(std::string message, Kind kind) = 0;
  virtual std::size_t waiting() const = 0;
  // Messages come again after SocketEvents::message() returned false.
  virtual void resume() = 0;
  // What was sent goes out first. `code`: RFC 6455, section 7.4 (1000 all done, 1001 going away, 1002 protocol, 1008 policy, 1011 error).
  virtual void close(std::uint16_t code, std::string_view reason) = 0;
};

// The owner's side of a WebSocket. The loop's thread calls it; nothing may block.
class SocketEvents {
 public:
  virtual ~SocketEvents() = default;
  virtual void opened(std::shared_ptr<Socket> socket) = 0;
  // Text is UTF-8. False: no more of them, for now, until Socket::resume().
  virtual bool message(std::string bytes, Kind kind) = 0;
  // The last call, made once for each opened(). `code`: of the peer's close frame, or ours; 1006: the connection was lost.
  virtual void closed(std::uint16_t code) = 0;
};

// What becomes of a request whose head is here.
struct Take {
  std::size_t body_bytes_max = 0;   // more: 413
  std::unique_ptr<Room> room = {};  // for the body as it arrives; full: 503. None: nothing is counted
};
struct Upgrade {
  std::shared_ptr<SocketEvents> events;
  std::string subprotocol = {};               // empty: none is chosen
  std::size_t message_bytes_max = 16u << 20;  // more: closed with 1009
  std::unique_ptr<Room> room = {};            // for a message as it arrives; full: closed with 1013. None: nothing is counted
};
// A Reply is the answer without the body, which is not read: the connection ends after it where there is one.
using Decision = std::variant<Take, Upgrade, Reply>;

class Handler {
 public:
  virtual ~Handler() = default;
  // Upgrade may be returned where wants_socket(head).
  virtual Decision decide(const Head& head) = 0;
  virtual void request(Request request, Answer answer) = 0;
  // The answer where the server itself refuses a request: 400, 403, 408, 413, 417, 421, 431, 500, 503, 505. `message`: plain text without a
  // line break. The connection ends with it.
  virtual Reply refusal(const Peer& peer, unsigned status, std::string_view message);
  // For the log: an accepted connection that came to nothing (a TLS handshake, a PROXY header), at most once a second.
  virtual void failed(const Endpoint&, std::string_view /*why*/) {}
};

// A GET with Upgrade: websocket, version 13.
bool wants_socket(const Head& head) noexcept;
// The first of the client's subprotocols (Sec-WebSocket-Protocol) that is among `ours`; empty: none is.
std::string chosen_subprotocol(const Head& head, std::initializer_list<std::string_view> ours);

}  // namespace termgate::http
