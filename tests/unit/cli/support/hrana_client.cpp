// The client of a served SQLite file, against a server that answers from a script.
#include "cli/support/hrana_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <thread>
#include <typeindex>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <termgate/error.hpp>

using namespace termgate;
using namespace termgate::cli;

namespace {

struct Reply {
  int status = 200;
  std::string body = {};
  bool silent = false;  // the connection is closed in place of an answer
  bool last = false;    // the connection is closed after it
};

// One client after the other. What it was sent is in `requests` once the script is over.
class Scripted {
 public:
  explicit Scripted(std::deque<Reply> replies) : replies_(std::move(replies)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listener_, 8) == 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    serving_ = std::thread([this] { serve(); });
  }
  ~Scripted() {
    shutdown(listener_, SHUT_RDWR);
    if (serving_.joinable()) serving_.join();
    close(listener_);
  }
  HranaClient::Options options() const {
    return {.url = fmt::format("http://127.0.0.1:{}", port_), .timeout = std::chrono::seconds(5)};
  }
  // Waits for the end of the script.
  const std::vector<std::string>& requests() {
    if (serving_.joinable()) serving_.join();
    return requests_;
  }
  int connections() const { return connections_; }

 private:
  void serve() {
    while (!replies_.empty()) {
      const int client = accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      ++connections_;
      std::string read;
      while (!replies_.empty() && next(client, read)) {}
      close(client);
    }
  }
  bool next(int client, std::string& read) {
    std::size_t end = std::string::npos, length = 0;
    for (;;) {
      end = read.find("\r\n\r\n");
      if (end != std::string::npos) {
        const auto at = read.find("Content-Length: ");
        length = at == std::string::npos ? 0 : std::stoul(read.substr(at + 16));
        if (read.size() >= end + 4 + length) break;
      }
      char bytes[4096];
      const ssize_t got = recv(client, bytes, sizeof bytes, 0);
      if (got <= 0) return false;
      read.append(bytes, static_cast<std::size_t>(got));
    }
    requests_.push_back(read.substr(0, end + 4 + length));
    read.erase(0, end + 4 + length);
    const Reply reply = replies_.front();
    replies_.pop_front();
    if (reply.silent) return false;
    const std::string text = fmt::format(
        "HTTP/1.1 {} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        reply.status, reply.body.size(), reply.body);
    return send(client, text.data(), text.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(text.size()) &&
           !reply.last;
  }

  std::deque<Reply> replies_;
  std::vector<std::string> requests_;
  std::atomic<int> connections_ = 0;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::thread serving_;
};

std::string ok(const std::string& result, const std::string& baton = "null") {
  return fmt::format(
      R"({{"baton":{},"base_url":null,"results":[{{"type":"ok","response":{{"type":"execute","result":{}}}}}]}})",
      baton, result);
}
std::string error(const std::string& message, const std::string& code,
                  const std::string& baton = "null") {
  return fmt::format(
      R"({{"baton":{},"base_url":null,"results":[{{"type":"error","error":{{"message":"{}","code":"{}"}}}}]}})",
      baton, message, code);
}
const std::string nothing =
    R"({"cols":[],"rows":[],"affected_row_count":0,"last_insert_rowid":null})";

}  // namespace

TEST_CASE("hrana client: sends values and reads them", "[cli]") {
  Scripted server({{.body = ok(R"({"cols":[{"name":"a"},{"name":"b"},{"name":null}],"rows":[
    [{"type":"integer","value":"9223372036854775807"},{"type":"text","value":"ä"},{"type":"null"}],
    [{"type":"float","value":42.0},{"type":"blob","base64":"AAEC/w"},{"type":"integer","value":7}]],
    "affected_row_count":2,"last_insert_rowid":"5"})")}});
  HranaClient client(server.options());
  const HranaRows rows = client.execute(
      "SELECT ?, ?, ?, ?, ?",
      {std::monostate(), std::int64_t{1} << 60, 0.5, std::string("x"), HranaBlob{"\xff"}});
  CHECK(rows.columns == std::vector<std::string>{"a", "b", ""});
  REQUIRE(rows.rows.size() == 2);
  CHECK(rows.rows[0] == std::vector<HranaValue>{std::int64_t{9223372036854775807}, std::string("ä"),
                                                std::monostate()});
  CHECK(rows.rows[1] ==
        std::vector<HranaValue>{42.0, HranaBlob{std::string("\0\1\2\xff", 4)}, std::int64_t{7}});
  CHECK(rows.affected == 2);
  CHECK(rows.last_insert_rowid == 5);
  CHECK_FALSE(client.open());
  const std::string sent = server.requests().at(0);
  CHECK(sent.starts_with("POST /v2/pipeline HTTP/1.1\r\n"));
  CHECK(
      sent.find(
          R"({"requests":[{"type":"execute","stmt":{"sql":"SELECT ?, ?, ?, ?, ?","args":[{"type":"null"},)"
          R"({"type":"integer","value":"1152921504606846976"},{"type":"float","value":5E-1},{"type":"text","value":"x"},)"
          R"({"type":"blob","base64":"/w"}],"want_rows":true}}]})") != std::string::npos);
  CHECK(sent.find("Authorization") == std::string::npos);
  CHECK(sent.find("Termgate-") == std::string::npos);
}

TEST_CASE("hrana client: token, scope and term go with every request", "[cli]") {
  Scripted server({{.body = ok(nothing)}, {.body = ok(nothing)}});
  auto options = server.options();
  options.token = "secret";
  options.scope = "a b/ä";
  options.term = 7;
  HranaClient client(options);
  client.execute("SELECT 1");
  client.execute("SELECT 2");
  for (const std::string& sent : server.requests()) {
    CHECK(sent.find("Authorization: Bearer secret\r\n") != std::string::npos);
    CHECK(sent.find("Termgate-Scope: a%20b%2F%C3%A4\r\n") != std::string::npos);
    CHECK(sent.find("Termgate-Term: 7\r\n") != std::string::npos);
  }
  CHECK(server.connections() == 1);
}

TEST_CASE("hrana client: a transaction keeps its baton and ends with it", "[cli]") {
  Scripted server({{.body = ok(nothing, R"("one")")},
                   {.body = ok(nothing, R"("two")")},
                   {.body = ok(nothing)},
                   {.body = ok(nothing)}});
  HranaClient client(server.options());
  client.execute("BEGIN");
  CHECK(client.open());
  client.execute("INSERT INTO t VALUES (1)");
  client.execute("COMMIT");
  CHECK_FALSE(client.open());
  client.execute("SELECT 1");
  const auto& sent = server.requests();
  CHECK(sent.at(0).find("baton") == std::string::npos);
  CHECK(sent.at(1).find(R"("baton":"one")") != std::string::npos);
  CHECK(sent.at(2).find(R"("baton":"two")") != std::string::npos);
  CHECK(sent.at(3).find("baton") == std::string::npos);
}

TEST_CASE("hrana client: an error of a statement leaves the transaction open", "[cli]") {
  Scripted server(
      {{.body = ok(nothing, R"("one")")},
       {.body = error("UNIQUE constraint failed: t.a", "SQLITE_CONSTRAINT_UNIQUE", R"("two")")},
       {.body = R"({"baton":null,"results":[{"type":"ok","response":{"type":"close"}}]})"}});
  {
    HranaClient client(server.options());
    client.execute("BEGIN");
    try {
      client.execute("INSERT INTO t VALUES (1)");
      FAIL("it should have thrown");
    } catch (const DatabaseError& error) {
      CHECK(error.code() == "SQLITE_CONSTRAINT_UNIQUE");
      CHECK(error.what() == std::string("UNIQUE constraint failed: t.a"));
    }
    CHECK(client.open());
  }
  CHECK(server.requests().at(2).find(R"({"requests":[{"type":"close"}],"baton":"two"})") !=
        std::string::npos);
}

TEST_CASE("hrana client: a lost transaction is an error and no stream any more", "[cli]") {
  Scripted server(
      {{.body = ok(nothing, R"("one")")},
       {.status = 400,
        .body =
            R"({"message":"TG001 stale term 5 for scope \"a\": the fence stands at 6","code":"TG001","error":"x"})"},
       {.body = ok(nothing)}});
  HranaClient client(server.options());
  client.execute("BEGIN");
  CHECK_THROWS_AS(client.execute("INSERT INTO t VALUES (1)"), StaleTerm);
  CHECK_FALSE(client.open());
  client.execute("SELECT 1");
  CHECK(server.requests().at(2).find("baton") == std::string::npos);
}

TEST_CASE("hrana client: the type of an error says what may be done next", "[cli]") {
  struct Row {
    const char* name;
    std::type_index type;
    Reply reply;
  };
  const auto rows = [](const char* text) {
    return Reply{.body = ok(R"({"cols":[{"name":"a"}],"rows":)" + std::string(text) + "}")};
  };
  const Row row = GENERATE_COPY(
      Row{"stale", typeid(StaleTerm), {.body = error("TG001 stale term", "TG001")}},
      Row{"no term", typeid(TermRequired), {.body = error("TG002 no term declared", "TG002")}},
      Row{"blocked", typeid(Blocked), {.body = error("TG006 blocked", "TG006")}},
      Row{"busy", typeid(Conflict), {.body = error("database is locked", "SQLITE_BUSY")}},
      Row{"other", typeid(DatabaseError), {.body = error("no such table: t", "SQLITE_ERROR")}},
      Row{"token", typeid(DatabaseError), {401, R"({"message":"no","code":"AUTH_MISSING"})"}},
      Row{"server busy", typeid(Unavailable), {503, R"({"message":"x","code":"SERVER_BUSY"})"}},
      Row{"unknown", typeid(OutcomeUnknown), {500, R"({"message":"x","code":"OUTCOME_UNKNOWN"})"}},
      Row{"a balancer's error", typeid(OutcomeUnknown), {502, "<html>Bad Gateway</html>"}},
      Row{"another server", typeid(DatabaseError), {404, "<html>Not Found</html>"}},
      Row{"no answer", typeid(OutcomeUnknown), {.silent = true}},
      Row{"no JSON", typeid(OutcomeUnknown), {.body = "what?"}},
      Row{"no results", typeid(DatabaseError), {.body = R"({"baton":null})"}},
      Row{"ragged rows", typeid(DatabaseError), rows("[[]]")},
      Row{"no such value", typeid(DatabaseError), rows(R"([[{"type":"date"}]])")},
      Row{"no base64", typeid(DatabaseError), rows(R"([[{"type":"blob","base64":"%%%%"}]])")});
  CAPTURE(row.name);
  Scripted server({row.reply});
  HranaClient client(server.options());
  try {
    client.execute("INSERT INTO t VALUES (1)");
    FAIL("it should have thrown");
  } catch (const Error& error) {
    CAPTURE(error.what());
    CHECK(std::type_index(typeid(error)) == row.type);
  }
}

TEST_CASE("hrana client: without an answer only what may have committed is unknown", "[cli]") {
  const std::string sql =
      GENERATE("UPDATE t SET a = 1", " commit", "END", "RELEASE s", "-- COMMIT");
  const bool unknown = sql != "UPDATE t SET a = 1";
  CAPTURE(sql);
  Scripted server({{.body = ok(nothing, R"("one")")}, {.silent = true}});
  HranaClient client(server.options());
  client.execute("BEGIN");
  if (unknown) CHECK_THROWS_AS(client.execute(sql), OutcomeUnknown);
  else CHECK_THROWS_AS(client.execute(sql), Unavailable);
  CHECK_FALSE(client.open());
}

TEST_CASE("hrana client: connects again where the server has closed the connection", "[cli]") {
  Scripted server({{.body = ok(nothing), .last = true}, {.body = ok(nothing)}});
  HranaClient client(server.options());
  client.execute("SELECT 1");
  // It is found out with the request: what was sent into a closed connection is never sent again by
  // itself.
  try {
    client.execute("SELECT 1");
  } catch (const OutcomeUnknown&) {}
  client.execute("SELECT 1");
  CHECK(server.requests().size() == 2);
  CHECK(server.connections() == 2);
}

TEST_CASE("hrana client: nobody listens", "[cli]") {
  HranaClient client({.url = "http://127.0.0.1:1", .timeout = std::chrono::seconds(1)});
  CHECK_THROWS_AS(client.execute("SELECT 1"), Unavailable);
}

TEST_CASE("hrana client: a URL that is none is refused at once", "[cli]") {
  const std::string url = GENERATE("", "127.0.0.1:8080", "sqlite:app.db", "ws://a", "http://",
                                   "http://:80", "http://a:0", "http://a:99999", "http://a:8x",
                                   "http://a/path", "http://u:p@a", "http://a?x=1", "http://a b");
  CAPTURE(url);
  CHECK_THROWS_AS(HranaClient({.url = url}), InvalidInput);
}
