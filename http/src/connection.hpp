// One client: its socket, its current request, and what waits to be sent to it.
//
// Owner: its loop, on whose thread every function runs. Other threads reach it through Owed, Outlet
// and SocketSide (owed.cpp), which post to the loop. Invariant: one answer is owed at a time
// (owed_), and the next request is not parsed before it is sent. What the client sends meanwhile
// stays in in_; once that holds ahead_bytes_max, nothing more is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/posix/stream_descriptor.hpp>

#include <termgate/http/stream.hpp>

#include "frames.hpp"
#include "loop.hpp"
#include "outlet.hpp"
#include "reader.hpp"

namespace termgate::http {

// The frames that one WebSocket has received so far, and the receiver of its messages.
struct OpenSocket {
  explicit OpenSocket(Upgrade upgrade)
      : events(std::move(upgrade.events)),
        room(std::move(upgrade.room)),
        frames(upgrade.message_bytes_max) {}
  enum class State : std::uint8_t {
    open,
    paused,
    closing,
    closed
  };  // closing: our close frame is in the outlet
  const std::shared_ptr<SocketEvents> events;
  const std::unique_ptr<Room> room;
  FrameReader frames;
  State state = State::open;
  bool opened = false;  // events->opened() was called, so closed() follows
  bool peer_has_closed = false, pinged = false;
  std::uint16_t code = 1006;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static constexpr std::size_t ahead_bytes_max = 64u << 10;

  Connection(Loop& loop, int descriptor, const Endpoint& peer, const ListenerOptions& listener);
  ~Connection();

  void start();
  void sweep(Loop::Clock::time_point now);
  void drain();
  void close() noexcept;  // at once

  // --- called by other threads, through the loop ---
  void reply(const Answer::Owed& owed, Reply reply);
  void stream(const Answer::Owed& owed, Reply head, std::shared_ptr<Outlet> outlet);
  void pump(const Outlet& outlet);
  void resume_socket();
  void close_socket(std::uint16_t code, std::string_view reason);

 private:
  enum class Stage : std::uint8_t {
    proxy_header,
    handshake,
    reading,    // between two requests, or within a head
    body,       // the head has arrived
    working,    // the handler has the request
    answering,  // the answer is on its way
    socket,     // a WebSocket
    // Our last byte is sent. The client's bytes are read and thrown away, so that it can read the
    // answer.
    leaving,
    closed,
  };
  using Io = Stream::Io;

  // Waiting and reading.
  void wait_readable();
  void wait_writable();
  void readable();
  bool read_once();  // false: nothing more can be read now
  void got(std::string_view bytes);
  void peer_ended();
  bool may_read() const;
  // The beginning of a connection.
  void read_proxy_header();
  void greet();
  void shake_hands();
  // Requests.
  void process();
  void got_head();
  void take_body(Take take);
  void got_request();
  void refuse(const Refusal& refusal);
  void expect_request();
  // Answers.
  void send_reply(Reply reply, bool streamed);
  void send(std::string bytes);
  void flush();
  void flushed();
  void answered();
  void leave();
  // A WebSocket.
  void open_socket(Upgrade upgrade);
  void process_frames();
  void got_frame(FrameReader::Event event);
  void finish_socket(std::uint16_t code, std::string_view reason);
  // Time.
  void enter(Stage stage, std::chrono::milliseconds takes);
  void late();
  void heard();

  Loop& loop_;
  boost::asio::posix::stream_descriptor waiter_;
  Stream stream_;
  Peer peer_;
  TlsContext tls_;
  const bool proxied_;
  Stage stage_ = Stage::reading;
  bool processing_ = false, reading_waits_ = false, writing_waits_ = false, peer_has_ended_ = false;
  std::optional<Loop::Place> place_;
  Loop::Clock::time_point deadline_ = Loop::Clock::time_point::max(),
                          write_deadline_ = Loop::Clock::time_point::max(), heard_at_{};
  RequestReader reader_;
  std::string in_;              // received, and not parsed yet
  std::unique_ptr<Room> room_;  // for the body that is arriving
  // The next members belong to the current request.
  std::shared_ptr<Answer::Owed> owed_;
  bool keep_ = false, head_only_ = false, version_1_1_ = true;
  std::shared_ptr<Outlet> outlet_;  // of the answer's body or of the WebSocket
  std::unique_ptr<OpenSocket> socket_;
  std::deque<Piece> out_;
  // out_at_: bytes of out_.front() that are sent; own_bytes_: bytes at the front of out_ that do
  // not come from the outlet.
  std::size_t out_at_ = 0, own_bytes_ = 0;
  std::size_t thrown_away_ = 0;
};

}  // namespace termgate::http
