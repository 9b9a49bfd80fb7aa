// The interface between a server and its owner: what the owner does with requests, and how it
// answers them.
//
// Each connection lives on one event loop. The loop's thread calls Handler, which must not block:
// it takes the request, passes it to a worker, and returns. Any thread may complete an answer, at
// any later time, even after the server is gone.
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

// A streamed body, in chunks. One thread at a time. If it is destroyed before end(), the connection
// ends without the last chunk, so the client knows that the body was cut off.
class BodyWriter {
 public:
  static constexpr std::size_t waiting_bytes_max = 256u << 10;

  virtual ~BodyWriter() = default;
  // Blocks while more than waiting_bytes_max bytes wait for the client to read them, so it must not
  // be called on a loop's thread. A client that reads nothing for Limits::write_stalls counts as
  // gone. False: the client is gone, or end() was called; nothing was sent.
  virtual bool write(std::string_view bytes) = 0;
  // For events of which only the last one counts. It does not block. It replaces the bytes that the
  // connection has not begun to send.
  virtual bool latest(std::shared_ptr<const std::string> bytes) = 0;
  // Completes the body. It does not block.
  virtual void end() = 0;
  virtual bool gone() const = 0;
};

// The answer to one request: one call of reply() or stream(), from any thread; a second call does
// nothing. If it is destroyed without a call, the client gets 500.
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
  // `head` has no body. The call does not block.
  std::unique_ptr<BodyWriter> stream(Reply head);
  // `callback` is called once, on the loop's thread, if the client's connection ends before the
  // answer is complete (a client that only stops sending counts as gone). If that has already
  // happened, it is called at once, on this thread. It must not block. A second callback replaces
  // the first. It is destroyed when the answer is complete.
  void on_gone(std::function<void()> callback);
  bool gone() const;

 private:
  std::shared_ptr<Owed> owed_;
};

enum class Kind : std::uint8_t { text, binary };

// An open WebSocket. Any thread; it may outlive its connection.
class Socket {
 public:
  static constexpr std::size_t waiting_bytes_max = 1u << 20;

  virtual ~Socket() = default;
  // For workers: blocks while more than waiting_bytes_max bytes wait for the client to read them.
  // False: the socket is closed. `keeps`, for example a share of a memory budget, is kept alive
  // until the message has been sent or dropped, and may be destroyed on any thread. A message of up
  // to 16 kB is copied, and lets go of it at once.
  virtual bool send(std::string message, Kind kind, std::shared_ptr<void> keeps = {}) = 0;
  // For the loop's thread: like send(), without blocking. The caller limits what it sends by
  // looking at waiting().
  virtual bool post(std::string message, Kind kind) = 0;
  virtual std::size_t waiting() const = 0;
  // Delivers messages again after SocketEvents::message() has returned false.
  virtual void resume() = 0;
  // Closes the socket once everything sent so far is out. `code`: RFC 6455, section 7.4 (1000
  // normal, 1001 going away, 1002 protocol error, 1008 policy violation, 1011 internal error).
  virtual void close(std::uint16_t code, std::string_view reason) = 0;
};

// What the owner of a WebSocket implements. The loop's thread calls it, so no function may block.
class SocketEvents {
 public:
  virtual ~SocketEvents() = default;
  virtual void opened(std::shared_ptr<Socket> socket) = 0;
  // Text is valid UTF-8. False: no more messages until Socket::resume().
  virtual bool message(std::string bytes, Kind kind) = 0;
  // The last call, made once after opened(). If the connection is lost before opened(), neither is
  // called. `code` is from the peer's close frame or from ours; 1006: the connection was lost.
  virtual void closed(std::uint16_t code) = 0;
};

// Accepts a request whose head has arrived.
struct Take {
  std::size_t body_bytes_max = 0;  // a longer body gets 413
  // Memory for the body as it arrives; when it is full the client gets 503. nullptr: no such limit.
  std::unique_ptr<Room> room = {};
};
struct Upgrade {
  std::shared_ptr<SocketEvents> events;
  std::string subprotocol = {};               // empty: no subprotocol is chosen
  std::size_t message_bytes_max = 16u << 20;  // a longer message closes the socket with 1009
  // Memory for a message as it arrives; when it is full the socket is closed with 1013. nullptr: no
  // such limit.
  std::unique_ptr<Room> room = {};
};
// A Reply answers the request without reading its body. If there is a body, the connection ends
// after the answer.
using Decision = std::variant<Take, Upgrade, Reply>;

class Handler {
 public:
  virtual ~Handler() = default;
  // Without wants_socket(head) an Upgrade is answered with 400. An exception of decide(), or of
  // request() while it holds the Answer, is answered with 500.
  virtual Decision decide(const Head& head) = 0;
  virtual void request(Request request, Answer answer) = 0;
  // The answer when the server itself refuses a request: 400, 403, 408, 413, 417, 421, 431, 500,
  // 503, 505. `message` is plain text without a line break. The connection ends with the answer.
  virtual Reply refusal(const Peer& peer, unsigned status, std::string_view message);
  // For the log: the TLS handshake failed or the PROXY header was malformed. Called at most once a
  // second.
  virtual void failed(const Endpoint&, std::string_view /*why*/) {}
};

// Whether the head is a handshake for a WebSocket of version 13 (RFC 6455, section 4.2.1).
bool wants_socket(const Head& head) noexcept;

}  // namespace termgate::http
