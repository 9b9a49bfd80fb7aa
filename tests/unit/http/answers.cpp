// Answers from other threads: streams, clients that leave, answers that come late or never.
#include "served.hpp"

namespace termgate::http::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("http answers: a stream arrives in chunks and the connection goes on", "[http]") {
  Served served;
  std::thread worker;
  served.handler.answers = [&](Request, Answer answer) {
    if (worker.joinable()) worker.join();
    worker = std::thread([answer = std::move(answer)]() mutable {
      auto writer = answer.stream({200, "", "text/plain"});
      for (int i = 0; i < 100; ++i)
        writer->write(std::string(30'000, static_cast<char>('a' + i % 26)));
      writer->end();
    });
  };
  Client client(served.port());
  for (int round = 0; round < 2; ++round) {
    client.send(get);
    const std::string answer = client.answer();
    CHECK(answer.size() - answer.find("\r\n\r\n") - 4 == 3'000'000);
    CHECK(answer.ends_with("vvv"));
  }
  Client old(served.port());
  old.send("GET / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
  const std::string whole = old.rest();
  CHECK(whole.find("chunked") == std::string::npos);
  CHECK(whole.size() - whole.find("\r\n\r\n") - 4 == 3'000'000);
  worker.join();
}

TEST_CASE("http answers: a writer waits for its reader and hears that it is gone", "[http]") {
  Served served;
  std::atomic<std::size_t> written{0};
  std::atomic<bool> told{false};
  std::thread worker;
  served.handler.answers = [&](Request, Answer answer) {
    worker = std::thread([&, answer = std::move(answer)]() mutable {
      auto writer = answer.stream({200, "", "text/plain"});
      while (writer->write(std::string(64u << 10, 'x'))) written += 64u << 10;
      told = true;
    });
  };
  {
    Client client(served.port());
    client.send(get);
    client.until("\r\n\r\n");
    std::size_t before = 1;
    // It comes to rest: what waits is bounded.
    REQUIRE(eventually([&] {
      const std::size_t now = written;
      std::this_thread::sleep_for(100ms);
      return now > 0 && std::exchange(before, now) == now;
    }));
    CHECK(written < 64u << 20);
    CHECK_FALSE(told);
    // It goes on where the client reads.
    const std::size_t rested = written;
    client.exactly(8u << 20);
    CHECK(eventually([&] { return written > rested; }));
  }
  CHECK(eventually([&] { return told.load(); }));
  worker.join();
  CHECK(eventually([&] { return served.server.figures().connections == 0; }));
}

TEST_CASE("http answers: a body that is not ended is seen to be cut off", "[http]") {
  Served served;
  served.handler.answers = [&](Request, Answer answer) {
    std::thread([answer = std::move(answer)]() mutable {
      answer.stream({200, "", "text/plain"})->write("half");
    }).detach();
  };
  Client client(served.port());
  client.send(get);
  CHECK(client.answer().ends_with("<cut off>"));
}

TEST_CASE("http answers: of events only the latest waits", "[http]") {
  Served served;
  std::mutex mutex;
  std::unique_ptr<BodyWriter> writer;
  served.handler.answers = [&](Request, Answer answer) {
    const std::lock_guard lock(mutex);
    writer = answer.stream({200, "", "text/event-stream"});
  };
  Client client(served.port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  client.until("\r\n\r\n");
  REQUIRE(eventually([&] {
    const std::lock_guard lock(mutex);
    return writer != nullptr;
  }));
  // More than sockets hold, so that the first one is on its way for as long as nobody reads.
  for (int i = 0; i < 50; ++i) {
    REQUIRE(writer->latest(std::make_shared<const std::string>(
        std::string(16u << 20, static_cast<char>('a' + i % 26)))));
    std::this_thread::sleep_for(i == 0 ? 200ms : 1ms);
  }
  writer->end();
  std::string all = client.rest();
  CHECK(all.size() < 3 * (16u << 20));
  CHECK(all.find('x') != std::string::npos);  // the fiftieth
  CHECK(all.ends_with("0\r\n\r\n"));
}

TEST_CASE("http answers: who has asked is told that the client has left", "[http]") {
  Served served;
  HeldAnswers held;
  std::atomic<int> gone{0};
  served.handler.answers = [&](Request, Answer answer) {
    answer.on_gone([&] { ++gone; });
    held.hold(std::move(answer));
  };
  {
    Client leaves(served.port());
    leaves.send(get);
    REQUIRE(eventually([&] { return held.count() == 1; }));
    CHECK(gone == 0);
  }
  CHECK(eventually([&] { return gone == 1; }));
  CHECK(held.all()[0].gone());
  {
    Client resets(served.port());
    resets.send(get);
    REQUIRE(eventually([&] { return held.count() == 2; }));
    resets.reset();
  }
  CHECK(eventually([&] { return gone == 2; }));
  // One that only stops sending is told of, and still reads its answer.
  Client half_closed(served.port());
  half_closed.send(get);
  half_closed.finish();
  CHECK(eventually([&] { return gone == 3; }));
  held.all()[2].reply({200, "late"});
  CHECK(half_closed.rest().ends_with("late"));
  bool at_once = false;
  held.all()[0].on_gone([&] { at_once = true; });
  CHECK(at_once);
  held.all()[0].reply({200, "to nobody"});
  CHECK(gone == 3);
}

TEST_CASE("http answers: one that is dropped is 500 and a second one is not sent", "[http]") {
  Served served;
  served.handler.answers = [](Request request, Answer answer) {
    if (request.head.path() == "/throws") throw std::runtime_error("a mistake");
    if (request.head.path() == "/drops") return;
    answer.reply({200, "first"});
    answer.reply({200, "second"});
  };
  Client client(served.port());
  for (const char* path : {"/throws", "/drops"}) {
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(status_of(client.answer()) == 500);
  }
  client.send(get + get);
  CHECK(client.answer().ends_with("first"));
  CHECK(client.answer().ends_with("first"));
}

TEST_CASE("http answers: no header is split by what is put into it", "[http]") {
  Served served;
  served.handler.answers = [](Request, Answer answer) {
    answer.reply(
        {200, "x", "text/plain", {{"Good", "yes"}, {"Bad", "a\r\nInjected: 1"}, {"Wor\nse", "b"}}});
  };
  Client client(served.port());
  client.send(get);
  const std::string answer = client.answer();
  CHECK(answer.find("Good: yes\r\n") != std::string::npos);
  CHECK(answer.find("Injected") == std::string::npos);
  CHECK(answer.find("se: b") == std::string::npos);
}

TEST_CASE("http answers: an answer may come after the server is gone", "[http]") {
  std::vector<Answer> held;
  std::unique_ptr<BodyWriter> writer;
  auto served = std::make_unique<Served>(options_for_tests(1));
  std::atomic<int> here{0};
  served->handler.answers = [&](Request, Answer answer) {
    if (here == 0) held.push_back(std::move(answer));
    else writer = answer.stream({200, "", "text/plain"});
    ++here;
  };
  Client first(served->port()), second(served->port());
  first.send(get);
  REQUIRE(eventually([&] { return here == 1; }));
  second.send(get);
  REQUIRE(eventually([&] { return here == 2; }));
  served.reset();
  CHECK(held[0].gone());
  held[0].reply({200, "late"});
  CHECK_FALSE(writer->write("late"));
  CHECK(first.rest().empty());
}

}  // namespace
}  // namespace termgate::http::testing
