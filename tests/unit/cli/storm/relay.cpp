// The storm's relay between real sockets: what it holds back comes whole and in order, what it
// swallows never comes, what a dead client had said still does, and it holds only so much.
#include <catch2/catch.hpp>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "cli/storm/relay.hpp"

using namespace termgate::cli;
using namespace termgate::cli::storm;
using namespace std::chrono_literals;

namespace {

struct Socket {
  explicit Socket(int of) : descriptor(of) { REQUIRE(descriptor >= 0); }
  Socket(Socket&& other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  ~Socket() { end(); }
  void end() {
    if (descriptor >= 0) close(std::exchange(descriptor, -1));
  }
  void say(const std::string& text) const {
    REQUIRE(send(descriptor, text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  // As much as comes within `patience`, at most `most`; ended: the other side has closed.
  struct Heard {
    std::string text;
    bool ended = false;
  };
  Heard hear(std::chrono::milliseconds patience, std::size_t most) const {
    Heard heard;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (heard.text.size() < most && !heard.ended) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())
              .count();
      pollfd wait{descriptor, POLLIN, 0};
      if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) <= 0) break;
      char bytes[65536];
      const ssize_t count = recv(descriptor, bytes, sizeof bytes, 0);
      if (count <= 0) heard.ended = true;
      else heard.text.append(bytes, static_cast<std::size_t>(count));
    }
    return heard;
  }
  int descriptor;
};

// A server that only listens, and a relay before it.
struct Line {
  Line()
      : listener(listen_on_loopback()),
        relay("postgresql://x@y/z?a=b",
              RelayTarget{.host = "127.0.0.1", .port = std::to_string(listener.port)}) {}
  ~Line() { close(listener.descriptor); }
  struct Connection {
    Socket client, server;
  };
  Connection connect() {
    Socket client(connect_to_server("127.0.0.1", std::to_string(relay.port())));
    pollfd wait{listener.descriptor, POLLIN, 0};
    REQUIRE(poll(&wait, 1, 5000) == 1);
    return {std::move(client), Socket(accept_client(listener.descriptor))};
  }
  LoopbackListener listener;
  Relay relay;
};

std::string numbered(int from, int count) {
  std::string text;
  for (int i = from; i < from + count; ++i) text += std::to_string(i) + ",";
  return text;
}

}  // namespace

TEST_CASE("storm relay: what is held back comes whole and in order both ways", "[cli]") {
  Line line;
  auto [client, server] = line.connect();
  line.relay.delay({.time = 10s, .most = 60ms, .seed = 7});
  std::this_thread::sleep_for(50ms);
  std::string there, back;
  for (int i = 0; i < 40; ++i) {
    there += numbered(i * 100, 100);
    client.say(numbered(i * 100, 100));
    back += numbered(i, 3);
    server.say(numbered(i, 3));
    std::this_thread::sleep_for(2ms);
  }
  CHECK(server.hear(10s, there.size()).text == there);
  CHECK(client.hear(10s, back.size()).text == back);
  CHECK(line.relay.delayed().delays == 1);
  CHECK(line.relay.delayed().pieces > 80);
}

TEST_CASE("storm relay: a connection overtakes another one", "[cli]") {
  Line line;
  auto first = line.connect();
  auto second = line.connect();
  line.relay.delay({.time = 20s, .most = 3s, .from_server = false, .seed = 1});
  std::this_thread::sleep_for(50ms);
  first.client.say(std::string(2000, 'a'));
  const auto patience = std::chrono::steady_clock::now() + 10s;
  while (line.relay.delayed().pieces == 0 && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(1ms);
  second.server.say("b");  // that way nothing is held back
  CHECK(second.client.hear(10s, 1).text == "b");
  const std::size_t before = first.server.hear(1ms, 2000).text.size();
  CHECK(before < 2000);
  CHECK(before + first.server.hear(10s, 2000 - before).text.size() == 2000);
  CHECK(line.relay.delayed().overtaken > 0);
}

TEST_CASE("storm relay: what a client said before it was gone is delivered and then its farewell",
          "[cli]") {
  Line line;
  auto [client, server] = line.connect();
  line.relay.delay({.time = 10s, .most = 300ms, .seed = 3});
  std::this_thread::sleep_for(50ms);
  client.say(numbered(0, 500));
  server.say("for nobody");
  std::this_thread::sleep_for(20ms);
  client.end();
  const auto heard = server.hear(10s, 1'000'000);
  CHECK(heard.text == numbered(0, 500));
  CHECK(heard.ended);
}

TEST_CASE("storm relay: one side is swallowed for good and the other goes on", "[cli]") {
  Line line;
  auto [client, server] = line.connect();
  std::jthread speaker([&client = client] {
    std::this_thread::sleep_for(100ms);
    client.say("lost");
  });
  REQUIRE(line.relay.lose(Relay::Loss::client_swallowed, 2s, 5s));
  speaker.join();
  client.say("lost too");
  server.say("heard");
  CHECK(client.hear(5s, 5).text == "heard");
  const auto nothing = server.hear(300ms, 1);
  CHECK((nothing.text.empty() && !nothing.ended));
  client.end();  // and so is its farewell, until the time is over
  CHECK_FALSE(server.hear(300ms, 1).ended);
  CHECK(server.hear(10s, 1).ended);
}

TEST_CASE("storm relay: it holds so much and reads no more, and lets all go when calmed", "[cli]") {
  Line line;
  auto [client, server] = line.connect();
  line.relay.delay({.time = 60s, .most = 60s, .from_server = false, .seed = 5});
  std::this_thread::sleep_for(50ms);
  const std::string block(64 * 1024, 'x');
  std::size_t sent = 0;
  // The sender is held up by what the relay does not take; the kernel's own buffers on the way are
  // a few MB at most.
  for (int idle = 0; idle < 20 && sent < 64 * 1024 * 1024;) {
    const ssize_t count =
        send(client.descriptor, block.data(), block.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
      idle = 0;
    } else {
      ++idle;
      std::this_thread::sleep_for(10ms);
    }
  }
  CHECK(sent < 32 * 1024 * 1024);
  line.relay.calm();
  std::size_t came = 0;
  while (came < sent) {
    const auto heard = server.hear(10s, 1);
    if (heard.text.empty()) break;
    came += heard.text.size();
  }
  CHECK(came == sent);
}
