// WebSockets over real sockets.
#include <atomic>
#include <optional>

#include "frames.hpp"
#include "served.hpp"

namespace termgate::http::testing {
namespace {

using namespace std::chrono_literals;

struct Recorder : SocketEvents {
  std::mutex mutex;
  std::shared_ptr<Socket> socket;
  std::vector<std::string> messages;
  std::size_t pause_after = 1000;
  bool echoes = false;
  bool over = false;  // no socket is kept any more: it would keep this object in turn
  std::atomic<int> closed_calls{0};
  std::uint16_t code = 0;

  void opened(std::shared_ptr<Socket> open) override {
    const std::lock_guard lock(mutex);
    if (!over) socket = std::move(open);
  }
  bool message(std::string bytes, Kind kind) override {
    const std::lock_guard lock(mutex);
    if (echoes) socket->post(bytes, kind);
    messages.push_back(std::move(bytes));
    return messages.size() < pause_after;
  }
  void closed(std::uint16_t with) override {
    const std::lock_guard lock(mutex);
    ++closed_calls;
    code = with;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return messages.size();
  }
  bool is_closed(std::uint16_t with) {
    const std::lock_guard lock(mutex);
    return closed_calls == 1 && code == with;
  }
};

const std::string upgrade =
    "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: keep-alive, "
    "Upgrade\r\nSec-WebSocket-Key: "
    "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: hrana9, "
    "hrana2,hrana1\r\n\r\n";

std::string frame(unsigned first, std::string_view payload) {
  std::string bytes = frame_head(Opcode::text, payload.size());
  bytes[0] = static_cast<char>(first);
  bytes[1] = static_cast<char>(static_cast<unsigned char>(bytes[1]) | 0x80);
  bytes += std::string(4, '\0');  // a mask that changes nothing
  return bytes += payload;
}

struct Sockets {
  explicit Sockets(ServerOptions options = options_for_tests()) : served(std::move(options)) {
    served.handler.decides = [this](const Head& head) -> Decision {
      return Upgrade{recorder, "hrana2", 1000};
    };
  }
  ~Sockets() {
    const std::lock_guard lock(recorder->mutex);
    recorder->over = true;
    recorder->socket.reset();
  }
  bool open() {
    return eventually([&] {
      const std::lock_guard lock(recorder->mutex);
      return recorder->socket != nullptr;
    });
  }
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  Served served;
};

// A client behind its handshake.
struct Opened : Client {
  explicit Opened(Sockets& sockets, const std::string& more = {}) : Client(sockets.served.port()) {
    send(upgrade + more);
    until("\r\n\r\n");
  }
};

TEST_CASE("http websocket: the handshake names the subprotocol and proves that it was understood",
          "[http]") {
  Sockets sockets;
  Client client(sockets.served.port());
  client.send(upgrade);
  const std::string head = client.until("\r\n\r\n");
  CHECK(status_of(head) == 101);
  // The example of RFC 6455, section 1.3.
  CHECK(head.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") != std::string::npos);
  CHECK(head.find("Sec-WebSocket-Protocol: hrana2\r\n") != std::string::npos);
}

TEST_CASE("http websocket: what is no handshake is refused", "[http]") {
  Sockets sockets;
  const auto without = [&](const std::string& text, const std::string& instead) {
    std::string changed = upgrade;
    const auto at = changed.find(text);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, text.size(), instead);
  };
  for (const std::string& wrong :
       {without("Upgrade: websocket", "Upgrade: h2c"), without("keep-alive, Upgrade", "keep-alive"),
        without("Version: 13", "Version: 8"), without("dGhlIHNhbXBsZSBub25jZQ==", "short"),
        without("HTTP/1.1", "HTTP/1.0"), without("GET ", "POST ")}) {
    INFO(wrong);
    Client client(sockets.served.port());
    client.send(wrong);
    CHECK(status_of(client.rest()) == 400);
  }
  Client page(sockets.served.port());
  page.send(without("Host: localhost\r\n", "Host: localhost\r\nOrigin: http://localhost\r\n"));
  CHECK(status_of(page.rest()) == 403);
}

TEST_CASE("http websocket: messages go both ways also those that come with the handshake",
          "[http]") {
  Sockets sockets;
  sockets.recorder->echoes = true;
  Opened client(sockets,
                frame(0x81, "early") + frame(0x82, std::string(700, 'b')) + frame(0x89, "ping"));
  CHECK(client.exactly(7) == frame_head(Opcode::text, 5) + "early");
  CHECK(client.exactly(704) == frame_head(Opcode::binary, 700) + std::string(700, 'b'));
  CHECK(client.exactly(6) == frame_head(Opcode::pong, 4) + "ping");
  client.send(frame(0x88, std::string("\x03\xe8", 2)));
  CHECK(client.rest() == close_frame(1000, ""));
  CHECK(eventually([&] { return sockets.recorder->is_closed(1000); }));
  CHECK(eventually([&] { return sockets.served.server.figures().sockets == 0; }));
}

TEST_CASE("http websocket: the owner closes and the peer's close ends it", "[http]") {
  Sockets sockets;
  Opened client(sockets);
  REQUIRE(sockets.open());
  sockets.recorder->socket->send("last", Kind::text);
  sockets.recorder->socket->close(1008, "enough");
  CHECK(client.exactly(6) == frame_head(Opcode::text, 4) + "last");
  const std::string close = close_frame(1008, "enough");
  CHECK(client.exactly(close.size()) == close);
  CHECK_FALSE(sockets.recorder->socket->send("after", Kind::text));
  client.send(frame(0x81, "too late") + frame(0x88, std::string("\x03\xf0", 2)));
  CHECK(client.rest().empty());
  CHECK(eventually([&] { return sockets.recorder->is_closed(1008); }));
  CHECK(sockets.recorder->count() == 0);
}

TEST_CASE("http websocket: bad frames close with their code and a lost connection with 1006",
          "[http]") {
  Sockets sockets;
  {
    Opened client(sockets, frame(0x81, std::string(1001, 'x')));
    CHECK(client.rest().find(close_frame(1009, "the message is too large")) == 0);
    CHECK(eventually([&] { return sockets.recorder->is_closed(1009); }));
  }
  sockets.recorder->closed_calls = 0;
  { Opened client(sockets); }
  CHECK(eventually([&] { return sockets.recorder->is_closed(1006); }));
}

TEST_CASE("http websocket: none that was not opened is closed", "[http]") {
  Sockets sockets;
  std::optional<Client> client(std::in_place, sockets.served.port());
  std::atomic<bool> decided{false};
  // The peer resets the connection before the answer to its handshake is sent.
  sockets.served.handler.decides = [&](const Head&) -> Decision {
    client->reset();
    client.reset();
    decided = true;
    return Upgrade{sockets.recorder, {}, 1000};
  };
  client->send(upgrade);
  REQUIRE(eventually([&] { return decided.load(); }));
  CHECK(eventually([&] { return sockets.recorder.use_count() == 1; }));
  CHECK(sockets.recorder->closed_calls == 0);
  CHECK(sockets.recorder->socket == nullptr);
}

TEST_CASE("http websocket: a silent peer gets a ping and goes if it says nothing", "[http]") {
  ServerOptions options = options_for_tests();
  options.limits.ping_after = 400ms;
  Sockets sockets(std::move(options));
  Opened client(sockets);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(client.exactly(2) == frame_head(Opcode::ping, 0));
    client.send(frame(0x8a, ""));
  }
  CHECK(sockets.recorder->closed_calls == 0);
  CHECK(client.rest() == frame_head(Opcode::ping, 0));
  CHECK(eventually([&] { return sockets.recorder->is_closed(1006); }));
}

TEST_CASE("http websocket: after a pause no more is read and what waits comes later", "[http]") {
  Sockets sockets;
  sockets.recorder->pause_after = 10;
  Opened client(sockets);
  std::atomic<int> sent{0};
  std::thread sender([&] {
    for (int i = 0; i < 20'000 && client.send(frame(0x81, std::string(1000, 'x'))); ++i) ++sent;
  });
  REQUIRE(eventually([&] { return sockets.recorder->count() == 10; }));
  std::this_thread::sleep_for(300ms);
  CHECK(sockets.recorder->count() == 10);
  CHECK(sent < 20'000);
  {
    const std::lock_guard lock(sockets.recorder->mutex);
    sockets.recorder->pause_after = 1'000'000;
  }
  sockets.recorder->socket->resume();
  CHECK(eventually([&] { return sockets.recorder->count() == 20'000; }));
  sender.join();
}

TEST_CASE("http websocket: a sender waits for a peer that does not read", "[http]") {
  ServerOptions options = options_for_tests();
  options.limits.write_stalls = 700ms;
  Sockets sockets(std::move(options));
  Opened client(sockets);
  REQUIRE(sockets.open());
  const auto socket = sockets.recorder->socket;
  std::size_t sent = 0;
  while (socket->send(std::string(100'000, 'x'), Kind::binary)) sent += 100'000;
  CHECK(sent < 64u << 20);
  CHECK(eventually([&] { return sockets.recorder->is_closed(1006); }));
}

TEST_CASE("http websocket: what a message keeps is let go once it is sent or dropped", "[http]") {
  constexpr std::size_t size = 32u << 20;  // more than the sockets' buffers take
  Sockets sockets;
  std::optional<Opened> client(std::in_place, sockets);
  REQUIRE(sockets.open());
  const auto socket = sockets.recorder->socket;
  const auto send = [&] {
    auto keeps = std::make_shared<int>();
    const std::weak_ptr<int> kept = keeps;
    CHECK(socket->send(std::string(size, 'x'), Kind::binary, std::move(keeps)));
    return kept;
  };
  const auto sent = send();
  REQUIRE(client->exactly(100).size() == 100);
  CHECK_FALSE(sent.expired());
  client->exactly(size + 10 - 100);
  CHECK(eventually([&] { return sent.expired(); }));
  const auto dropped = send();
  CHECK_FALSE(dropped.expired());
  client.reset();
  CHECK(eventually([&] { return dropped.expired(); }));
}

TEST_CASE("http websocket: drain says 1001", "[http]") {
  Sockets sockets;
  Opened client(sockets);
  sockets.served.server.drain();
  CHECK(client.exactly(4).substr(2) == std::string("\x03\xe9", 2));
  client.send(frame(0x88, std::string("\x03\xe9", 2)));
  CHECK(eventually([&] { return sockets.served.server.ended(); }));
}

}  // namespace
}  // namespace termgate::http::testing
