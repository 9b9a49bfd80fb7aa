// What goes wrong on a live T-SQL server ends as what it is: refused, unavailable or unknown, each
// with the right type, and the pool recovers. The line is cut at the one request that a test names.
// TERMGATE_TEST_SQLSERVER names the server (a login that may create databases and end sessions),
// TERMGATE_TEST_SQLSERVER_RESTART a shell command that kills it hard and starts it again; without
// the latter that one case is left out, and says so.
#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include <termgate/detail/odbc/connection.hpp>
#include "payload_pieces.hpp"
#include "support/thrown.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using termgate::test::thrown;
namespace odbc = termgate::detail::odbc;

namespace {

std::string server_url() { return std::getenv("TERMGATE_TEST_SQLSERVER"); }
odbc::Connection connect(const std::string& url) {
  return odbc::Connection(odbc::connection_string_of(url), 10s);
}

// The server's connection string with other values for some keys; an empty value takes the key
// away.
std::string with(const std::vector<std::pair<std::string, std::string>>& changes) {
  const auto text = odbc::connection_string_of(server_url());
  std::string url = "odbc:";
  for (const auto& [key, value] : odbc::attributes_of(text.text)) {
    bool changed = false;
    for (const auto& [name, instead] : changes) changed = changed || name == key;
    if (!changed) url += key + "=" + odbc::quoted_value(key, value, text.maker) + ";";
  }
  for (const auto& [key, value] : changes) {
    if (!value.empty()) url += key + "=" + odbc::quoted_value(key, value, text.maker) + ";";
  }
  return url;
}
std::string value_of(const std::string& wanted) {
  for (const auto& [key, value] :
       odbc::attributes_of(odbc::connection_string_of(server_url()).text)) {
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

  Line() {
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
      there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(value_of("Port"))));
      inet_pton(AF_INET, value_of("Server").c_str(), &there.sin_addr);
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

// A database with layer 1 and a ledger, reached by way of a line that fails on command, and
// directly.
struct Rig {
  Rig() {
    static int count = 0;
    name = "live_failures_" + std::to_string(getpid()) + "_" + std::to_string(count++);
    connect(server_url()).run("CREATE DATABASE " + name);
    direct = with({{"Database", name}});
    db.emplace(Database::open(
        with({{"Database", name}, {"Server", "127.0.0.1"}, {"Port", std::to_string(line.port)}})));
    Operator(*db).install();
    connect(direct).run(
        "CREATE TABLE dbo.ledger (id int NOT NULL PRIMARY KEY, note nvarchar(100) NOT NULL)");
    db->seal(billing, five);
  }
  ~Rig() {
    db.reset();
    try {
      connect(server_url()).run("DROP DATABASE " + name);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "database %s is left over: %s\n", name.c_str(), failure.what());
    }
  }
  std::int64_t rows(const std::string& note) {
    return connect(direct)
        .run("SELECT COUNT_BIG(*) FROM dbo.ledger WHERE note = N'" + note + "'")
        .one()[0]
        .as_int();
  }
  Wrote write(int id, const std::string& note, WriteOptions options = {}) {
    return db->write(
        billing, five,
        [&](Transaction& tx) {
          tx.exec("INSERT INTO dbo.ledger (id, note) VALUES ($1, $2)", id, note);
        },
        options);
  }

  Line line;
  std::string name, direct;
  std::optional<Database> db;
};

std::size_t resident_kib(const char* what) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(what)) return std::stoul(line.substr(line.find_first_of("0123456789")));
  }
  return 0;
}

}  // namespace

TEST_CASE("tsql connecting: each wrong part is said and the password is not",
          "[odbc][live][sqlserver]") {
  const auto refused = [&](const std::string& url) {
    const std::string said = thrown<Unavailable>([&] { Info(Database::open(url)).fence(billing); });
    INFO(said);
    CHECK(said.find("nothing was written") != std::string::npos);
    CHECK(said.find("hush-hush") == std::string::npos);
    return said;
  };
  refused(with({{"PWD", "hush-hush"}}));  // a login that is refused
  refused(with({{"UID", "nobody_here"}, {"PWD", "hush-hush"}}));
  CHECK(refused(with({{"Database", "no_such_database"}})).find("no_such_database") !=
        std::string::npos);
  refused(with({{"Port", "1"}, {"PWD", "hush-hush"}}));  // nobody listens
  refused(with({{"Server", "no-such-host.invalid"}, {"PWD", "hush-hush"}}));
  CHECK(refused("odbc:Driver=/no/such/folder/libtdsodbc.so;Server=127.0.0.1;PWD=hush-hush")
            .find("libtdsodbc") != std::string::npos);
  for (const std::string url :
       {"odbc:Driver={no such driver};PWD=hush-hush", "odbc:Server=127.0.0.1;PWD=hush-hush",
        "odbc:DSN=no_such_source;PWD=hush-hush", "odbc:", "odbc:Driver={FreeTDS;PWD=hush-hush",
        "sqlserver://sa:hush-hush@127.0.0.1:99999/db?driver=FreeTDS",
        "sqlserver://:hush-hush@127.0.0.1/db?driver=FreeTDS",
        "sqlserver://sa:hush-hush@/db?driver=FreeTDS",
        "sqlserver://sa:hush-hush@127.0.0.1/db?driver=none",
        "sqlserver://sa:hush-hush%@127.0.0.1/db?driver=FreeTDS"}) {
    INFO(url);
    CHECK(thrown<InvalidInput>([&] { Database::open(url); }).find("hush-hush") ==
          std::string::npos);
  }
}

TEST_CASE("tsql faults: a COMMIT whose answer is lost is unknown and did happen",
          "[F5][odbc][live][sqlserver]") {
  Rig rig;
  const WriteId id = WriteId::random();
  rig.line.arm(Line::Fault::after, "COMMIT TRANSACTION");
  thrown<OutcomeUnknown>([&] { rig.write(1, "answered to nobody", {.write_id = id}); });
  CHECK(rig.line.fired == 1);
  CHECK(rig.rows("answered to nobody") == 1);
  REQUIRE(rig.db->outcome(id));
  CHECK(rig.write(1, "answered to nobody", {.write_id = id}) == Wrote::before);
  CHECK(rig.rows("answered to nobody") == 1);
}

TEST_CASE("tsql faults: a COMMIT that never arrived is unknown and did not happen",
          "[F5][odbc][live][sqlserver]") {
  Rig rig;
  const WriteId id = WriteId::random();
  rig.line.arm(Line::Fault::before, "COMMIT TRANSACTION");
  thrown<OutcomeUnknown>([&] { rig.write(1, "lost", {.write_id = id, .retries = 5}); });
  CHECK(rig.line.fired == 1);
  CHECK(rig.rows("lost") == 0);
  CHECK_FALSE(rig.db->outcome(id));
  CHECK(rig.write(1, "lost", {.write_id = id}) == Wrote::now);
  CHECK(rig.rows("lost") == 1);
}

TEST_CASE(
    "tsql faults: a statement that is cut off in a transaction wrote nothing and the pool recovers",
    "[F5][odbc][live][sqlserver]") {
  Rig rig;
  for (const auto fault : {Line::Fault::before, Line::Fault::after}) {
    rig.line.arm(fault, "INSERT INTO dbo.ledger");
    thrown<Unavailable>([&] { rig.write(1, "nothing"); });
    CHECK(rig.rows("nothing") == 0);
  }
  CHECK(rig.line.fired == 2);
  CHECK(rig.write(2, "after") == Wrote::now);
  CHECK(rig.rows("after") == 1);
}

TEST_CASE("tsql faults: sessions that KILL has ended are replaced", "[F5][odbc][live][sqlserver]") {
  Rig rig;
  auto other = connect(rig.direct);
  // In the middle of a transaction: nothing was written.
  thrown<Unavailable>([&] {
    rig.db->write(billing, five, [&](Transaction& tx) {
      tx.exec("INSERT INTO dbo.ledger (id, note) VALUES (1, N'killed')");
      const std::int64_t session = tx.exec("SELECT CAST(@@SPID AS bigint)").one()[0].as_int();
      other.run("KILL " + std::to_string(session));
      tx.exec("INSERT INTO dbo.ledger (id, note) VALUES (2, N'killed')");
    });
  });
  CHECK(rig.rows("killed") == 0);
  // While it lies idle in the pool.
  const std::int64_t idle = rig.db->query("SELECT CAST(@@SPID AS bigint)").one()[0].as_int();
  other.run("KILL " + std::to_string(idle));
  std::this_thread::sleep_for(150ms);  // beyond that the pool asks before it sends
  CHECK(rig.write(3, "after") == Wrote::now);
  CHECK(rig.rows("after") == 1);
}

TEST_CASE("tsql conflicts: a deadlock's victim is told to run again",
          "[F5][odbc][live][sqlserver]") {
  Rig rig;
  connect(rig.direct).run("INSERT INTO dbo.ledger (id, note) VALUES (101, N'a'), (102, N'b')");
  std::atomic<int> arrived{0}, conflicts{0}, done{0};
  const auto work = [&](int first, int second) {
    try {
      rig.db->write(billing, five, [&](Transaction& tx) {
        tx.exec("UPDATE dbo.ledger SET note = note + N'x' WHERE id = $1", first);
        ++arrived;
        const auto end = std::chrono::steady_clock::now() + 20s;
        while (arrived < 2 && std::chrono::steady_clock::now() < end)
          std::this_thread::sleep_for(1ms);
        tx.exec("UPDATE dbo.ledger SET note = note + N'x' WHERE id = $1", second);
      });
      ++done;
    } catch (const Conflict& error) {
      CHECK(error.code() == "1205");
      ++conflicts;
    }
  };
  std::thread one([&] { work(101, 102); });
  std::thread two([&] { work(102, 101); });
  one.join();
  two.join();
  CHECK(conflicts == 1);
  CHECK(done == 1);
  CHECK(rig.rows("ax") == 1);
  CHECK(rig.rows("bx") == 1);
}

TEST_CASE("tsql payloads: a large one arrives whole and one over the limit is not sent",
          "[odbc][live][sqlserver]") {
  Rig rig;
  const Stream stream("large");
  std::string large(std::size_t{64} << 20, '\0');
  unsigned state = 12345;
  for (char& byte : large) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  CHECK(rig.db->append(stream, five, large, {.scope = billing}).value() == 1);
  const std::string length =
      connect(rig.direct)
          .run("SELECT CAST(DATALENGTH(payload) AS nvarchar(30)) FROM termgate.stream_writes")
          .one()[0]
          .as_text();
  CHECK(length == std::to_string(large.size()));
  const auto page = Info(*rig.db).read_stream(stream, SequenceNo(0), 1);
  REQUIRE(page.size() == 1);
  CHECK((page[0].payload == large));
  large.clear();
  large.shrink_to_fit();

  // The setting allows 256 MiB, and nothing allows more than 1 GiB.
  const std::string gigabyte((std::size_t{1} << 30) + 1, 'x');
  const std::string_view within = std::string_view(gigabyte).substr(1);
  const std::size_t before = resident_kib("VmHWM");
  const auto refused = [&](std::string_view payload, std::string_view words) {
    INFO(payload.size());
    CHECK(thrown<InvalidInput>([&] {
            rig.db->append(stream, five, payload, {.scope = billing});
          }).find(words) != std::string::npos);
    CHECK(thrown<InvalidInput>([&] {
            rig.db->write(billing, five, [&](Transaction& tx) { tx.append(stream, payload); });
          }).find(words) != std::string::npos);
  };
  refused(gigabyte, "over the limit of 1073741824");
  refused(within, "the setting payload_bytes_max allows 268435456");
  CHECK(resident_kib("VmHWM") - before < 64 * 1024);  // no copy was made of it
  CHECK(Info(*rig.db).stream(stream)->last_no == 1);
}

TEST_CASE("tsql payloads: a line that is cut among the pieces wrote nothing",
          "[F5][odbc][live][sqlserver]") {
  Rig rig;
  const Stream stream("pieces");
  const std::string payload(3 * odbc::payload_piece_bytes, 'x');
  const WriteId id = WriteId::random();
  for (const auto fault : {Line::Fault::before, Line::Fault::after}) {
    rig.line.arm(fault, "INSERT INTO #termgate_pieces", 1);
    CHECK(thrown<Unavailable>([&] {
            rig.db->append(stream, five, payload, {.scope = billing, .write_id = id});
          }).find("nothing was written") != std::string::npos);
    rig.line.arm(fault, "INSERT INTO #termgate_pieces", 1);
    thrown<Unavailable>([&] {
      rig.db->append_many(stream, five, {"small", payload}, {.scope = billing});
    });
    rig.line.arm(fault, "INSERT INTO #termgate_pieces", 1);
    thrown<Unavailable>([&] {
      rig.db->write(billing, five, [&](Transaction& tx) { tx.append(stream, payload); });
    });
  }
  CHECK(rig.line.fired == 6);
  CHECK_FALSE(Info(*rig.db).stream(stream));
  CHECK_FALSE(rig.db->outcome(id));
  // Once the append itself was sent its end is unknown, and the write id tells.
  rig.line.arm(Line::Fault::after, "@termgate_payload varbinary");
  thrown<OutcomeUnknown>(
      [&] { rig.db->append(stream, five, payload, {.scope = billing, .write_id = id}); });
  CHECK(rig.line.fired == 7);
  CHECK(rig.db->append(stream, five, payload, {.scope = billing, .write_id = id}).value() == 1);
  CHECK(Info(*rig.db).stream(stream)->last_no == 1);
}

TEST_CASE("tsql payloads: a piece that is short or missing is refused by the server",
          "[F5][odbc][live][sqlserver]") {
  Rig rig;
  auto connection = connect(rig.direct);
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

TEST_CASE("tsql payloads: nothing of one stays in the session and its time is for the whole",
          "[odbc][live][sqlserver]") {
  Rig rig;
  const Stream stream("kept");
  const std::string payload(2 * odbc::payload_piece_bytes, 'x');
  // One call at a time takes the same connection out of the pool.
  const auto kept = [&](const char* table) {
    return rig.db->query(std::string("SELECT CAST(COUNT(*) AS bigint) FROM ") + table)
        .one()[0]
        .as_int();
  };
  rig.db->append(stream, five, payload, {.scope = billing});
  CHECK(kept("#termgate_pieces") == 0);
  rig.db->append_many(stream, five, {payload, payload});
  CHECK(kept("#termgate_pieces") == 0);
  CHECK(kept("#termgate_batch") == 0);
  rig.db->seal(billing, Term(6));
  thrown<StaleTerm>(
      [&] { rig.db->append(stream, five, payload, {.write_id = WriteId::random()}); });
  CHECK(kept("#termgate_pieces") == 0);

  const std::string large(std::size_t{200} << 20, 'x');
  WriteOptions options;
  options.timeout = 1ms;
  CHECK(thrown<Unavailable>([&] {
          rig.db->write(
              billing, Term(6), [&](Transaction& tx) { tx.append(stream, large); }, options);
        }).find("nothing was written") != std::string::npos);
  options.timeout = 1500ms;
  const auto start = std::chrono::steady_clock::now();
  thrown<Unavailable>([&] {
    rig.db->write(
        billing, Term(6),
        [&](Transaction& tx) {
          for (;;) tx.append(stream, large);
        },
        options);
  });
  // Whole seconds by the driver, and FreeTDS gives up after about twice that.
  CHECK(std::chrono::steady_clock::now() - start < 15s);
  CHECK(Info(*rig.db).stream(stream)->last_no == 3);
}

TEST_CASE("tsql server: killed in the middle of commits and started again",
          "[F3][F5][odbc][live][sqlserver]") {
  const char* restart = std::getenv("TERMGATE_TEST_SQLSERVER_RESTART");
  if (restart == nullptr) {
    WARN("left out: TERMGATE_TEST_SQLSERVER_RESTART names no command");
    return;
  }
  Rig rig;
  struct Sent {
    int id;
    WriteId write_id;
    char outcome;
  };
  std::vector<Sent> sent;
  std::mutex mutex;  // guards sent
  std::atomic<bool> over{false};
  std::atomic<int> next{1};
  std::vector<std::jthread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&] {
      while (!over) {
        Sent one{next++, WriteId::random(), 'c'};
        try {
          rig.write(one.id, "storm", {.write_id = one.write_id});
        } catch (const OutcomeUnknown&) { one.outcome = 'u'; } catch (const Unavailable&) {
          one.outcome = 'r';
          std::this_thread::sleep_for(50ms);
        }
        const std::lock_guard lock(mutex);
        sent.push_back(one);
      }
    });
  }
  std::this_thread::sleep_for(8s);
  const int status = std::system(restart);
  const int first_after = next;
  std::this_thread::sleep_for(8s);
  over = true;
  writers.clear();
  REQUIRE(status == 0);
  int committed = 0, refused = 0, unknown = 0, after = 0;
  auto look = connect(rig.direct);
  for (const Sent& one : sent) {
    INFO(one.id << one.outcome);
    const bool there =
        look.run("SELECT COUNT_BIG(*) FROM dbo.ledger WHERE id = " + std::to_string(one.id))
            .one()[0]
            .as_int() == 1;
    if (one.outcome == 'c') CHECK(there);
    if (one.outcome == 'r') CHECK_FALSE(there);
    // The write id says what the answer did not, and its rows with it.
    if (one.outcome == 'u') CHECK(rig.db->outcome(one.write_id).has_value() == there);
    (one.outcome == 'c' ? committed : one.outcome == 'r' ? refused : unknown) += 1;
    if (one.outcome == 'c' && one.id > first_after) ++after;
  }
  std::printf("committed %d (%d of them after the restart), refused %d, unknown %d\n", committed,
              after, refused, unknown);
  CHECK(committed > 0);
  CHECK(refused + unknown > 0);
  CHECK(after > 0);
  CHECK(Info(*rig.db).fence(billing)->term == 5);
}
