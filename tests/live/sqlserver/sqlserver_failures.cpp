// What goes wrong on a live T-SQL server ends as what it is: refused, unavailable or unknown, each
// with the right type, and the pool recovers. The line is cut at the one request that a test names.
// TERMGATE_TEST_SQLSERVER names the server (a login that may create databases).
#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <termgate/info.hpp>

#include "payload_pieces.hpp"
#include "sqlserver_rig.hpp"
#include "support/thrown.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using namespace termgate::test;

namespace {

std::string value_of(const std::string& url, const std::string& wanted) {
  for (const auto& [key, value] : odbc::attributes_of(odbc::connection_string_of(url).text)) {
    if (key == wanted) return value;
  }
  return {};
}

// T-SQL batches are UTF-16 on the wire.
std::string wide(std::string_view text) {
  std::string result;
  for (const char letter : text) result += {letter, '\0'};
  return result;
}

// Between this process and the server, FreeTDS's connection strings only (Server, Port). The next
// request that holds `text` meets the fault.
class Line {
 public:
  enum class Fault {
    none,
    before,
    after
  };  // the request never arrives; its answer never does. Both ends are closed

  explicit Line(const std::string& url) : url_(url) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof here;
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&here), size) == 0);
    REQUIRE(listen(listener_, 16) == 0);
    REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &size) == 0);
    port = ntohs(here.sin_port);
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
  }
  ~Line() {
    thread_.request_stop();
    thread_.join();
    close(listener_);
  }
  // `skip`: so many requests with that text pass before.
  void arm(Fault fault, std::string_view text, int skip = 0) {
    const std::lock_guard lock(arming_);
    text_ = wide(text);
    skip_ = skip;
    fault_ = fault;
  }
  std::atomic<int> fired{0};
  int port = 0;

 private:
  struct ScopedTerm {
    int client, server;
    bool loses = false;
  };
  void run(std::stop_token stop) {
    std::vector<ScopedTerm> pairs;
    std::array<char, 65536> bytes;
    while (!stop.stop_requested()) {
      std::vector<pollfd> waits{{listener_, POLLIN, 0}};
      for (const ScopedTerm& pair : pairs)
        waits.insert(waits.end(), {{pair.client, POLLIN, 0}, {pair.server, POLLIN, 0}});
      if (poll(waits.data(), waits.size(), 20) <= 0) continue;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        ScopedTerm& pair = pairs[i];
        bool goes_on = true;
        if (waits[1 + 2 * i].revents != 0) goes_on = pass(pair, true, bytes);
        if (goes_on && waits[2 + 2 * i].revents != 0) goes_on = pass(pair, false, bytes);
        if (goes_on) continue;
        close(pair.client);
        close(pair.server);
        pair.client = -1;
      }
      std::erase_if(pairs, [](const ScopedTerm& pair) { return pair.client < 0; });
      if (waits[0].revents == 0) continue;
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC),
                server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in there{};
      there.sin_family = AF_INET;
      there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(value_of(url_, "Port"))));
      inet_pton(AF_INET, value_of(url_, "Server").c_str(), &there.sin_addr);
      if (::connect(server, reinterpret_cast<sockaddr*>(&there), sizeof there) == 0)
        pairs.push_back({client, server});
      else close(client), close(server);
    }
    for (const ScopedTerm& pair : pairs) close(pair.client), close(pair.server);
  }
  bool pass(ScopedTerm& pair, bool from_client, std::array<char, 65536>& bytes) {
    const ssize_t count =
        recv(from_client ? pair.client : pair.server, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    const std::string_view chunk(bytes.data(), static_cast<std::size_t>(count));
    if (!from_client && pair.loses) return false;
    if (from_client) {
      const std::lock_guard lock(arming_);
      if (fault_ != Fault::none && chunk.find(text_) != std::string_view::npos && skip_-- == 0) {
        pair.loses = true;
        ++fired;
        if (fault_.exchange(Fault::none) == Fault::before) return false;
      }
    }
    for (std::size_t sent = 0; sent < chunk.size();) {
      const ssize_t some = send(from_client ? pair.server : pair.client, chunk.data() + sent,
                                chunk.size() - sent, MSG_NOSIGNAL);
      if (some <= 0) return false;
      sent += static_cast<std::size_t>(some);
    }
    return true;
  }

  std::string url_;  // the server's
  int listener_ = -1;
  std::atomic<Fault> fault_{Fault::none};
  std::mutex arming_;  // guards text_ and skip_, for one fault may take the place of another that
                       // has not been met
  std::string text_;
  int skip_ = 0;
  std::jthread thread_;
};

const Scope billing{"billing"};
const Term five{5};

// A database with layer 1 and notes, reached by way of a line that fails on command, and directly.
struct Failing : Rig {
  Failing()
      : line(url),
        db(Database::open(
            with(url, {{"Server", "127.0.0.1"}, {"Port", std::to_string(line.port)}}))) {
    Session(url).run(
        "CREATE TABLE dbo.notes (id int NOT NULL PRIMARY KEY, note nvarchar(100) NOT NULL)");
    db.seal(billing, five);
  }
  std::int64_t notes(const std::string& note) {
    return Session(url).number("SELECT COUNT_BIG(*) FROM dbo.notes WHERE note = N'" + note + "'");
  }
  Wrote write(int id, const std::string& note, WriteOptions options = {}) {
    return db.write(
        billing, five,
        [&](Transaction& tx) {
          tx.exec("INSERT INTO dbo.notes (id, note) VALUES ($1, $2)", id, note);
        },
        options);
  }

  Line line;
  Database db;
};

}  // namespace

TEST_CASE("tsql faults: a COMMIT that is cut off is unknown and its write id settles it",
          "[F5][odbc][live][sqlserver]") {
  Failing rig;
  for (const bool arrives : {false, true}) {
    const std::string note = arrives ? "answered to nobody" : "lost";
    const int row = arrives ? 2 : 1;
    const WriteId id = WriteId::random();
    rig.line.arm(arrives ? Line::Fault::after : Line::Fault::before, "COMMIT TRANSACTION");
    thrown<OutcomeUnknown>([&] { rig.write(row, note, {.write_id = id, .retries = 5}); });
    CHECK(rig.line.fired == row);
    CHECK(rig.notes(note) == (arrives ? 1 : 0));
    CHECK(rig.db.outcome(id).has_value() == arrives);
    CHECK(rig.write(row, note, {.write_id = id}) == (arrives ? Wrote::before : Wrote::now));
    CHECK(rig.notes(note) == 1);
  }
}

TEST_CASE("tsql payloads: a line that is cut among the pieces wrote nothing",
          "[F5][odbc][live][sqlserver]") {
  Failing rig;
  const Stream stream("pieces");
  const std::string payload(3 * odbc::payload_piece_bytes, 'x');
  const WriteId id = WriteId::random();
  for (const auto fault : {Line::Fault::before, Line::Fault::after}) {
    rig.line.arm(fault, "INSERT INTO #termgate_pieces", 1);
    CHECK(thrown<Unavailable>([&] {
            rig.db.append(stream, five, payload, {.scope = billing, .write_id = id});
          }).find("nothing was written") != std::string::npos);
    rig.line.arm(fault, "INSERT INTO #termgate_pieces", 1);
    thrown<Unavailable>([&] {
      rig.db.append_many(stream, five, {"small", payload}, {.scope = billing});
    });
    rig.line.arm(fault, "INSERT INTO #termgate_pieces", 1);
    thrown<Unavailable>(
        [&] { rig.db.write(billing, five, [&](Transaction& tx) { tx.append(stream, payload); }); });
  }
  CHECK(rig.line.fired == 6);
  CHECK_FALSE(Info(rig.db).stream(stream));
  CHECK_FALSE(rig.db.outcome(id));
  // Once the append itself was sent its end is unknown, and the write id tells.
  rig.line.arm(Line::Fault::after, "@termgate_payload varbinary");
  thrown<OutcomeUnknown>(
      [&] { rig.db.append(stream, five, payload, {.scope = billing, .write_id = id}); });
  CHECK(rig.line.fired == 7);
  CHECK(rig.db.append(stream, five, payload, {.scope = billing, .write_id = id}).value() == 1);
  CHECK(Info(rig.db).stream(stream)->last_no == 1);
}

TEST_CASE("tsql payloads: a piece that is short or missing is refused by the server",
          "[F5][odbc][live][sqlserver]") {
  Failing rig;
  auto connection = connect(rig.url);
  const std::string payload(2 * odbc::payload_piece_bytes + 3, 'x');
  const auto joined = [&](const std::string& tampered, std::size_t due) -> std::string {
    odbc::bring_pieces(connection, payload, [] { return odbc::milliseconds(60'000); });
    if (!tampered.empty()) connection.run(tampered);
    const Value values[] = {Value(due)};
    try {
      return connection
          .execute(odbc::marked(odbc::joining_text(1) +
                                    "\nSELECT CAST(DATALENGTH(@termgate_payload) AS bigint)",
                                1, odbc::Family::sqlserver),
                   values, false, 60s)
          .one()[0]
          .as_text();
    } catch (const odbc::OdbcError& failure) { return odbc::plain_message(failure.what()); }
  };
  CHECK(joined("", payload.size()) == std::to_string(payload.size()));
  CHECK(connection.run("SELECT CAST(COUNT(*) AS bigint) FROM #termgate_pieces").one()[0].as_int() ==
        0);
  for (const std::string tampered :
       {"UPDATE #termgate_pieces SET piece = 0x0102 WHERE position = 2",
        "UPDATE #termgate_pieces SET piece = 0x WHERE position = 0"}) {
    INFO(tampered);
    CHECK(joined(tampered, payload.size())
              .starts_with("TG005 a piece of the payload arrived with another length"));
  }
  for (const std::string tampered :
       {"DELETE FROM #termgate_pieces WHERE position = 0",
        "DELETE FROM #termgate_pieces WHERE position = 1",
        "DELETE FROM #termgate_pieces WHERE position = 2", "DELETE FROM #termgate_pieces"}) {
    INFO(tampered);
    CHECK(joined(tampered, payload.size())
              .starts_with("TG005 the payload arrived with another length"));
  }
  CHECK(
      joined("", payload.size() + 1).starts_with("TG005 the payload arrived with another length"));
}

TEST_CASE("tsql payloads: nothing of one stays in the session", "[odbc][live][sqlserver]") {
  Failing rig;
  const Stream stream("kept");
  const std::string payload(2 * odbc::payload_piece_bytes, 'x');
  // One call at a time takes the same connection out of the pool.
  const auto kept = [&](const char* table) {
    return rig.db.query(std::string("SELECT CAST(COUNT(*) AS bigint) FROM ") + table)
        .one()[0]
        .as_int();
  };
  rig.db.append(stream, five, payload, {.scope = billing});
  CHECK(kept("#termgate_pieces") == 0);
  rig.db.append_many(stream, five, {payload, payload});
  CHECK(kept("#termgate_pieces") == 0);
  CHECK(kept("#termgate_batch") == 0);
  rig.db.seal(billing, Term(6));
  thrown<StaleTerm>([&] { rig.db.append(stream, five, payload, {.write_id = WriteId::random()}); });
  CHECK(kept("#termgate_pieces") == 0);
}
