// A WebSocket session: messages in, answers and jobs out.
#include "hrana/socket.hpp"

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support.hpp"

using namespace std::chrono_literals;
using namespace termgate::hrana;
using namespace termgate::hrana::fake;

namespace {

// A client, and a pool of workers that runs jobs when it is made to.
struct Client {
  Server& server;
  Socket socket;
  std::vector<std::string> answers{};
  std::deque<Socket::Job> jobs{};
  std::optional<Socket::Violation> violation{};

  explicit Client(Server& server_given, Version version = Version::hrana2)
      : server(server_given),
        socket(server.streams, version,
               [](const std::optional<std::string>& token) -> std::variant<Identity, Refused> {
                 if (token == "bad")
                   return Refused("AUTH_TOKEN_UNKNOWN", "AUTH_TOKEN_UNKNOWN no such token");
                 return Identity{"app", Permit{}};
               }) {}

  void on(Socket::Output output) {
    for (auto& answer : output.answers) answers.push_back(std::move(answer));
    for (auto& job : output.jobs) jobs.push_back(job);
    if (output.violation) violation = output.violation;
  }
  void send(const std::string& message) { on(socket.take(message)); }
  void request(int id, const std::string& request) {
    send(R"({"type":"request","request_id":)" + std::to_string(id) + R"(,"request":)" + request +
         "}");
  }
  void execute(int id, int stream, const std::string& sql) {
    request(id, R"({"type":"execute","stream_id":)" + std::to_string(stream) +
                    R"(,"stmt":{"sql":")" + sql + "\"}}");
  }
  void open(int stream) {
    request(0, R"({"type":"open_stream","stream_id":)" + std::to_string(stream) + "}");
  }
  // One request of the oldest job.
  void run_one() {
    REQUIRE(!jobs.empty());
    const auto job = jobs.front();
    jobs.pop_front();
    auto done = Socket::Job(job).run();
    if (done.answer) answers.push_back(std::move(*done.answer));
    if (done.more) jobs.push_back(job);
  }
  void run() {
    while (!jobs.empty()) run_one();
  }
  std::string last() const { return answers.empty() ? std::string() : answers.back(); }
  bool last_has(std::string_view text) const { return last().find(text) != std::string::npos; }
};

const std::string hello = R"({"type":"hello","jwt":"eyJ.token.sig"})";

struct Connected {
  Connected() {
    client.send(hello);
    client.open(0);
  }
  Server server;
  Client client{server};
};

}  // namespace

TEST_CASE("hrana socket: the subprotocol is the client's first that we speak", "[hrana]") {
  CHECK(choose_subprotocol("hrana3-protobuf,hrana3,hrana2,hrana1")->name == "hrana3");
  CHECK(choose_subprotocol("hrana2, hrana1")->version == Version::hrana2);
  CHECK(choose_subprotocol(" hrana1")->name == "hrana1");
  CHECK(choose_subprotocol(std::nullopt)->version == Version::hrana1);
  CHECK(choose_subprotocol(std::nullopt)->name.empty());
  CHECK(!choose_subprotocol("graphql-ws"));
  CHECK(!choose_subprotocol(", ,"));
  CHECK(!choose_subprotocol(""));
}

TEST_CASE("hrana socket: one stream's requests run in order and two streams beside each other",
          "[hrana]") {
  Server server;
  Client client(server);
  client.send(hello);
  client.open(1);
  client.open(2);
  client.execute(10, 1, "INSERT 1");
  client.execute(11, 1, "INSERT 2");
  client.execute(20, 2, "INSERT 3");
  CHECK(client.jobs.size() == 2);
  client.run();
  CHECK(server.file.numbers == std::vector<std::int64_t>{1, 3, 2});
}

TEST_CASE("hrana socket: what breaks the protocol closes the connection", "[hrana]") {
  const auto code_after = [](std::vector<std::string> messages, Version version = Version::hrana2) {
    Server server;
    Client client(server, version);
    for (const auto& message : messages) client.send(message);
    client.run();
    return client.violation ? client.violation->close_code : 0;
  };
  const std::string open =
      R"({"type":"request","request_id":0,"request":{"type":"open_stream","stream_id":0}})";
  const std::string store =
      R"({"type":"request","request_id":0,"request":{"type":"store_sql","sql_id":0,"sql":"SELECT"}})";
  CHECK(code_after({open}) == 1002);
  CHECK(code_after({hello, open}) == 0);
  CHECK(code_after({hello, open, open}) == 1002);
  CHECK(code_after({hello, store, store}) == 1002);
  CHECK(code_after({hello, store, store}, Version::hrana3) == 0);
  CHECK(code_after({"{"}) == 1002);
  CHECK(code_after({"{\"type\":\"hello\",\"jwt\":\"\xff\"}"}) == 1002);
  CHECK(
      code_after(
          {hello,
           R"({"type":"request","request_id":"0","request":{"type":"open_stream","stream_id":0}})"}) ==
      1002);
  CHECK(code_after({hello, R"({"type":"request","request_id":0,"request":{"type":"fly"}})"}) ==
        1002);
  CHECK(code_after({std::string(100, '[')}) == 1009);
  CHECK(code_after({hello, hello}) == 0);
  CHECK(code_after({hello, R"({"type":"hello","jwt":"bad"})"}) == 1008);
  CHECK(code_after({hello, R"({"type":")" + std::string(9 << 20, 'x') + "\"}"}) == 1013);
}

TEST_CASE_METHOD(Connected, "hrana socket: unknown numbers are an error of their request",
                 "[hrana]") {
  client.execute(1, 7, "SELECT");
  CHECK(
      client.last() ==
      R"({"type":"response_error","request_id":1,"error":{"message":"stream 7 is not open","code":"PROTOCOL_ERROR"}})");
  client.request(2, R"({"type":"execute","stream_id":0,"stmt":{"sql_id":9}})");
  CHECK(client.last_has("SQL_NOT_STORED"));
  client.request(3, R"({"type":"fetch_cursor","cursor_id":0,"max_count":1})");
  CHECK(client.last_has("cursor 0 is not open"));
  CHECK(!client.violation);
}

TEST_CASE("hrana socket: a cursor is read in parts", "[hrana]") {
  Server server;
  Client client(server, Version::hrana3);
  client.send(hello);
  client.open(0);
  client.request(1, R"({"type":"open_cursor","stream_id":0,"cursor_id":4,"batch":)" +
                        batch_of({"INSERT 5", "SELECT"}) + "}");
  client.request(2, R"({"type":"fetch_cursor","cursor_id":4,"max_count":3})");
  client.request(3, R"({"type":"fetch_cursor","cursor_id":4,"max_count":100})");
  client.request(4, R"({"type":"close_cursor","cursor_id":4})");
  client.run();
  REQUIRE(client.answers.size() == 6);
  CHECK(
      client.answers[3] ==
      R"({"type":"response_ok","request_id":2,"response":{"type":"fetch_cursor","entries":[{"type":"step_begin","step":0,"cols":[]},)"
      R"({"type":"step_end","affected_row_count":1,"last_insert_rowid":"1"},{"type":"step_begin","step":1,"cols":[{"name":"n","decltype":"INTEGER"}]}],"done":false}})");
  CHECK(
      client.answers[4] ==
      R"({"type":"response_ok","request_id":3,"response":{"type":"fetch_cursor","entries":[{"type":"row","row":[{"type":"integer","value":"5"}]},)"
      R"({"type":"step_end","affected_row_count":0,"last_insert_rowid":null}],"done":true}})");
  client.request(5, R"({"type":"open_cursor","stream_id":0,"cursor_id":4,"batch":)" +
                        batch_of({"BIG 100", "SELECT"}) + "}");
  client.request(6, R"({"type":"fetch_cursor","cursor_id":4,"max_count":1000})");
  client.run();
  CHECK(client.last_has("RESPONSE_TOO_LARGE"));
  client.request(7, R"({"type":"close_stream","stream_id":0})");
  client.run();
  client.request(8, R"({"type":"fetch_cursor","cursor_id":4,"max_count":1})");
  CHECK(client.last_has("cursor 4 is not open"));
  client.on(client.socket.close());
  CHECK(server.streams.budget().used() == 0);
}

TEST_CASE("hrana socket: a lost stream answers with its code until it is closed", "[hrana]") {
  for (int lose_after = 1; lose_after < 10; ++lose_after) {
    Server server;
    Client client(server);
    client.send(hello);
    client.open(0);
    client.execute(1, 0, "BEGIN");
    client.run();
    server.file.lose_after = lose_after;
    client.request(
        2, R"({"type":"batch","stream_id":0,"batch":)" + batch_of({"INSERT 1", "INSERT 2"}) + "}");
    client.run();
    const bool lost = server.file.lose_after == 0;
    INFO(lose_after << ": " << client.last());
    CHECK(client.last_has(
              R"({"type":"response_error","request_id":2,"error":{"message":"TG001 )") == lost);
    server.file.lose_after = 0;
    for (const char* sql : {"INSERT 3", "COMMIT"}) {
      client.execute(3, 0, sql);
      client.run();
      CHECK(client.last_has("TG001") == lost);
    }
    CHECK(server.file.numbers.empty() == lost);
    client.request(4, R"({"type":"close_stream","stream_id":0})");
    client.open(0);
    client.execute(5, 0, "INSERT 4");
    client.run();
    CHECK(client.last_has("response_ok"));
  }
}

TEST_CASE_METHOD(Connected, "hrana socket: silence and drain lose transactions and nothing else",
                 "[hrana]") {
  client.open(1);
  client.execute(1, 0, "BEGIN");
  client.execute(2, 0, "INSERT 1");
  client.execute(3, 1, "INSERT 2");
  client.run();
  server.now += 9s;
  client.on(client.socket.tick());
  CHECK(client.jobs.empty());
  server.now += 1s;
  client.on(client.socket.tick());
  CHECK(client.jobs.size() == 1);
  client.run();
  client.execute(4, 0, "COMMIT");
  client.run();
  CHECK(client.last_has("TRANSACTION_TIMEOUT"));
  client.execute(5, 1, "BEGIN");
  client.run();
  client.on(client.socket.lose(Lost("DRAINED", "DRAINED the server ends")));
  client.execute(6, 1, "COMMIT");
  client.run();
  CHECK(client.last_has("DRAINED"));
  CHECK(server.file.numbers == std::vector<std::int64_t>{2});
}

TEST_CASE_METHOD(Connected, "hrana socket: 128 requests without an answer are enough", "[hrana]") {
  for (int at = 0; at < 127; ++at) client.execute(at, 0, "SELECT");
  CHECK(client.socket.may_read());
  client.execute(127, 0, "SELECT");
  CHECK(!client.socket.may_read());
  client.run_one();
  CHECK(client.socket.may_read());
}

TEST_CASE("hrana socket: the connection's end rolls back and runs nothing more", "[hrana]") {
  Server server;
  {
    Client client(server);
    client.send(hello);
    client.open(0);
    client.open(1);
    client.execute(1, 0, "BEGIN");
    client.run();
    client.execute(2, 0, "INSERT 1");
    client.execute(3, 0, "COMMIT");
    client.run_one();
    client.on(client.socket.close());
    client.run();
    CHECK(server.file.sessions == 0);
  }
  CHECK(server.file.numbers.empty());
  CHECK(server.streams.budget().used() == 0);
}
