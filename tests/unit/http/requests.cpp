// Requests over real sockets: framing, refusals, keep-alive, time.
#include "served.hpp"

namespace termgate::http::testing {
namespace {

using namespace std::chrono_literals;

TEST_CASE("http server: a connection is kept and its pipelined requests are answered in order",
          "[http]") {
  Served served;
  served.handler.answers = [](Request request, Answer answer) {
    // From another thread, and the first one last.
    std::thread([request = std::move(request), answer = std::move(answer)]() mutable {
      if (request.body == "1") std::this_thread::sleep_for(50ms);
      answer.reply({200, request.body});
    }).detach();
  };
  Client client(served.port());
  std::string all;
  for (const char* body : {"1", "2", "3"})
    all +=
        std::string("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n") + body;
  client.send(all);
  for (const char* body : {"1", "2", "3"}) {
    const std::string answer = client.answer();
    CHECK(answer.find("Keep-Alive: timeout=115\r\n") != std::string::npos);
    CHECK(answer.ends_with(std::string("\r\n\r\n") + body));
  }
  CHECK(eventually([&] { return served.server.figures().connections == 1; }));
}

TEST_CASE("http server: HTTP/1.0 ends with its answer unless it says otherwise", "[http]") {
  Served served;
  Client once(served.port());
  once.send("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
  CHECK(once.rest().ends_with("hello"));
  Client kept(served.port());
  kept.send("GET / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
  CHECK(kept.answer().find("Connection: keep-alive") != std::string::npos);
}

TEST_CASE("http server: HEAD has the length and no body", "[http]") {
  Served served;
  Client client(served.port());
  client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string answer = client.rest();
  CHECK(answer.find("Content-Length: 5\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\n"));
}

TEST_CASE("http server: what could be read in two ways is refused and the connection ends",
          "[http]") {
  Served served;
  struct Row {
    const char* name;
    std::string bytes;
    unsigned status;
  };
  const std::string post = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  const std::vector<Row> rows = {
      {"length and chunks",
       post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunks and length",
       post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400},
      {"two lengths", post + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n12345", 400},
      {"the same length twice", post + "Content-Length: 4\r\nContent-Length: 4\r\n\r\n1234", 400},
      {"a list of lengths", post + "Content-Length: 4, 4\r\n\r\n1234", 400},
      {"a signed length", post + "Content-Length: +4\r\n\r\n1234", 400},
      {"a negative length", post + "Content-Length: -4\r\n\r\n", 400},
      {"a length past 64 bits", post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"gzip", post + "Transfer-Encoding: gzip\r\n\r\n", 400},
      {"gzip and chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked twice",
       post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"identity beside chunked",
       post + "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunks in HTTP/1.0",
       "POST /echo HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {"a chunk's size that is none", post + "Transfer-Encoding: chunked\r\n\r\nxy\r\n", 400},
      {"a chunk's size past 64 bits",
       post + "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", 400},
      {"a chunk that is longer than it says",
       post + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", 400},
      {"a blank in front of the colon", "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400},
      {"two Hosts", "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
      {"no Host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"a Host with a user", "GET / HTTP/1.1\r\nHost: localhost:80@elsewhere\r\n\r\n", 400},
      {"another's Host", "GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n", 421},
      {"a page of a browser",
       "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n", 403},
      {"two tokens",
       "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer "
       "b\r\n\r\n",
       400},
      {"another expectation", "GET / HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\n\r\n", 417},
      {"HTTP/2's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
      {"a body where none is taken",
       "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n1", 413},
      {"a body that says it is too large", post + "Content-Length: 100001\r\n\r\n", 413},
      {"chunks that come to too much", post + "Transfer-Encoding: chunked\r\n\r\n186A1\r\n", 413},
      {"a huge header",
       "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", 431},
      {"a huge target", "GET /" + std::string(20'000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
       431},
      {"huge trailers",
       post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(100'000, 'x'), 400},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    Client client(served.port());
    client.send(row.bytes + get);
    const std::string answer = client.rest();
    CHECK(status_of(answer) == row.status);
    CHECK(answer.find("Connection: close") != std::string::npos);
    // Nothing of what followed was taken for a request.
    CHECK(answer.find("hello") == std::string::npos);
  }
  CHECK(eventually([&] { return served.server.figures().connections == 0; }));
}

TEST_CASE("http server: a token lets a page in and an own name is served", "[http]") {
  ServerOptions options = options_for_tests();
  options.hosts = {"db.example"};
  Served served(std::move(options));
  Client client(served.port());
  client.send(
      "GET / HTTP/1.1\r\nHost: DB.example:80\r\nOrigin: http://localhost\r\nAuthorization: Bearer "
      "x\r\n\r\n");
  CHECK(status_of(client.answer()) == 200);
}

TEST_CASE("http server: trailers are not headers", "[http]") {
  Served served;
  std::string seen = "nothing";
  served.handler.answers = [&](Request request, Answer answer) {
    seen = request.head.header("Authorization");
    answer.reply({200, request.body});
  };
  Client client(served.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
      "chunked\r\n\r\n1\r\nx\r\n0\r\nAuthorization: Bearer a\r\n\r\n");
  CHECK(client.answer().ends_with("x"));
  CHECK(seen.empty());
}

TEST_CASE("http server: a client that waits hears that its body is wanted", "[http]") {
  Served served;
  Client client(served.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: "
      "100-continue\r\n\r\n");
  CHECK(client.until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  CHECK(client.answer().ends_with("abc"));
  client.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\nExpect: "
      "100-continue\r\n\r\n");
  CHECK(status_of(client.answer()) == 413);
}

TEST_CASE("http server: a head or a body that trickles in is answered 408", "[http]") {
  ServerOptions options = options_for_tests();
  options.limits.head_takes = 300ms;
  options.limits.body_takes = 300ms;
  options.limits.keep_alive = 600ms;
  Served served(std::move(options));
  const auto began = std::chrono::steady_clock::now();
  Client head(served.port()), body(served.port()), silent(served.port());
  body.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n");
  for (int i = 0; i < 40; ++i) {
    head.send(i == 0 ? "GET / HTTP/1.1\r\nX: " : "x");
    body.send("x");
    std::this_thread::sleep_for(20ms);
  }
  CHECK(status_of(head.rest()) == 408);
  CHECK(status_of(body.rest()) == 408);
  CHECK(silent.rest().empty());
  CHECK(std::chrono::steady_clock::now() - began < 8s);
}

TEST_CASE("http server: a client that reads nothing is let go and what it reads slowly arrives",
          "[http]") {
  ServerOptions options = options_for_tests();
  options.limits.write_stalls = 500ms;
  Served served(std::move(options));
  served.handler.answers = [](Request, Answer answer) {
    answer.reply({200, std::string(20u << 20, 'x')});
  };
  Client deaf(served.port()), slow(served.port());
  deaf.send(get);
  slow.send(get);
  const std::string head = slow.until("\r\n\r\n");
  CHECK(status_of(head) == 200);
  std::size_t got = 0;
  // Longer than write_stalls in all, never so long at a time.
  for (int i = 0; i < 20; ++i) {
    got += slow.exactly(512u << 10).size();
    std::this_thread::sleep_for(50ms);
  }
  got += slow.exactly(10u << 20).size();
  CHECK(got == 20u << 20);
  CHECK(eventually([&] { return served.server.figures().connections == 1; }));
}

TEST_CASE(
    "http server: past the limit the one that is silent for longest goes and who is at work stays",
    "[http]") {
  ServerOptions options = options_for_tests(1);
  options.limits.connections = 3;
  Served served(std::move(options));
  HeldAnswers held;
  served.handler.answers = held.taker();
  Client working(served.port());
  working.send(get);
  REQUIRE(eventually([&] { return held.count() == 1; }));
  Client oldest(served.port()), older(served.port());
  oldest.send("G");
  REQUIRE(eventually([&] { return served.server.figures().connections == 3; }));
  Client newest(served.port());
  CHECK(oldest.rest().empty());
  for (Client* client : {&older, &newest}) { client->send(get); }
  REQUIRE(eventually([&] { return held.count() == 3; }));
  Client refused(served.port());
  CHECK(refused.rest().empty());
  for (Answer& answer : held.all()) answer.reply({200, "late"});
  for (Client* client : {&working, &older, &newest}) CHECK(client->answer().ends_with("late"));
}

TEST_CASE("http server: drain ends idle connections at once and others after their answer",
          "[http]") {
  Served served;
  HeldAnswers held;
  served.handler.answers = held.taker();
  Client idle(served.port()), working(served.port());
  working.send(get);
  REQUIRE(eventually([&] { return held.count() == 1; }));
  served.server.drain();
  CHECK(idle.rest().empty());
  CHECK_FALSE(served.server.ended());
  held.all()[0].reply({200, "last"});
  const std::string answer = working.rest();
  CHECK(answer.ends_with("last"));
  CHECK(answer.find("Connection: close") != std::string::npos);
}

}  // namespace
}  // namespace termgate::http::testing
