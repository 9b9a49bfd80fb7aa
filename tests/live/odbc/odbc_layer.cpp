// The ODBC layer on real drivers: odbc-postgresql before a real server, libsqliteodbc on a real
// file. What is bound comes back as it was, an error in a later result is an error, an array tells
// which row failed, and a connection that fails ends each write as what it is: refused, unknown or
// unavailable.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include <termgate/detail/odbc/connection.hpp>
#include "support/fault_proxy.hpp"
#include "support/pg_plain.hpp"
#include "support/thrown.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using termgate::test::Fault;
using termgate::test::FaultProxy;
using termgate::test::FreshDatabase;
using termgate::test::Plain;
using termgate::test::port_of;
using termgate::test::thrown;
namespace odbc = termgate::detail::odbc;

namespace {

std::string server_url() { return std::getenv("TERMGATE_TEST_POSTGRESQL"); }

// As an odbc: URL, the database of a postgresql:// one, by way of `port`.
std::string through(const std::string& url, std::uint16_t port, const std::string& more = {}) {
  return "odbc:Driver={PostgreSQL Unicode};Server=127.0.0.1;SSLmode=disable;UID=postgres;Port=" +
         std::to_string(port) + ";Database=" + url.substr(url.rfind('/') + 1) + more;
}
std::string through(const std::string& url) { return through(url, port_of(url)); }

odbc::Connection connect(const std::string& url) {
  return odbc::Connection(odbc::connection_string_of(url), 10s);
}

Rows run(odbc::Connection& connection, const std::string& sql,
         const std::vector<Value>& values = {}) {
  return connection.execute(odbc::marked(sql, values.size(), connection.family()), values, false,
                            0ms);
}

struct Folder {
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "termgate-odbc-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

std::string bytes_of(std::size_t size) {
  std::string bytes(size, '\0');
  unsigned state = 12345;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  return bytes;
}

const Scope billing{"billing"};
const Term five{5};

// A database with layer 1, a table and a fence at 5; `db` reaches it through ODBC and a proxy that
// fails on command.
struct Rig {
  explicit Rig(OpenOptions options = {})
      : fresh(server_url()),
        proxy(port_of(server_url())),
        plain(fresh.url()),
        db(Database::open(through(fresh.url(), proxy.port()), std::move(options))) {
    Operator(db).install();
    plain.run("CREATE TABLE ledger (id bigserial PRIMARY KEY, note text)");
    db.seal(billing, five);
  }
  std::string rows(const std::string& note) {
    return plain.run("SELECT count(*) FROM ledger WHERE note = '" + note + "'");
  }

  FreshDatabase fresh;
  FaultProxy proxy;
  Plain plain;
  Database db;
};

}  // namespace

TEST_CASE("odbc binding: every type comes back as it was bound", "[odbc][live]") {
  FreshDatabase fresh(server_url());
  Folder folder;
  for (const bool sqlite : {false, true}) {
    INFO((sqlite ? "SQLite" : "PostgreSQL"));
    auto connection = connect(sqlite ? "odbc:Driver={SQLite3};Database=" + folder.path + "/types.db"
                                     : through(fresh.url()));
    run(connection,
        sqlite ? "CREATE TABLE kinds (id bigint, yes bit, real double, words text, raw blob)"
               : "CREATE TABLE kinds (id bigint, yes boolean, real double precision, words text, "
                 "raw bytea)");
    std::string large_text;
    for (int i = 0; i < 40'000; ++i) large_text += "x\xC3\xA9\xF0\x9F\x94\x92";
    const std::string texts[] = {"",
                                 "plain",
                                 "\xC3\xA9\xE2\x82\xAC\xE6\xBC\xA2\xF0\x9F\x94\x92",
                                 "'\"\\;--$1?\r\n\t",
                                 std::string(4000, 'a'),
                                 std::string(4001, 'b'),
                                 large_text};
    const std::string raws[] = {"",
                                std::string(1, '\0'),
                                bytes_of(256),
                                bytes_of(8000),
                                bytes_of(8001),
                                bytes_of(3'000'001),
                                bytes_of(1023)};
    const std::int64_t numbers[] = {0,
                                    1,
                                    -1,
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min(),
                                    std::int64_t{1} << 53,
                                    -(std::int64_t{1} << 62)};
    const double reals[] = {0.0, -1.5, 1e300, 0.1, 123456.789, -2.5e-10, 3.0};
    for (std::size_t i = 0; i < 7; ++i) {
      INFO(i);
      run(connection, "DELETE FROM kinds");
      CHECK(run(connection, "INSERT INTO kinds VALUES ($1, $2, $3, $4, $5)",
                {Value(numbers[i]), Value(i % 2 == 0), Value(reals[i]), Value(texts[i]),
                 Value(Bytes{raws[i]})})
                .affected == 1);
      const Row row = run(connection, "SELECT id, yes, real, words, raw FROM kinds").one();
      CHECK(row[0].as_int() == numbers[i]);
      CHECK(row[1].as_bool() == (i % 2 == 0));
      CHECK(std::get<double>(row[2].variant()) == Approx(reals[i]));
      CHECK(row[3].as_text() == texts[i]);
      CHECK_FALSE(row[3].is_null());
      CHECK((row[4].as_bytes() == raws[i]));
      CHECK_FALSE(row[4].is_null());
      // Borrowed bytes are sent as they are, and none of them are not NULL.
      const std::string_view borrowed = i == 0 ? std::string_view() : std::string_view(raws[i]);
      run(connection, "UPDATE kinds SET raw = $1", {Value(BytesView{borrowed})});
      const Row again = run(connection, "SELECT raw FROM kinds").one();
      CHECK_FALSE(again[0].is_null());
      CHECK((again[0].as_bytes() == raws[i]));
    }
    run(connection, "DELETE FROM kinds");
    run(connection, "INSERT INTO kinds (id, words) VALUES ($1, $2)", {Value(7), Value()});
    const Rows rows = run(
        connection, "SELECT yes, real, words, raw FROM kinds WHERE id = $1 OR id = $1", {Value(7)});
    for (const Value& value : rows.one()) CHECK(value.is_null());
    CHECK(rows.columns == std::vector<std::string>{"yes", "real", "words", "raw"});
    CHECK(run(connection, "DELETE FROM kinds WHERE id = 8").affected == 0);
    CHECK(run(connection, "UPDATE kinds SET id = 9").affected == 1);
  }
}

TEST_CASE("odbc streaming: a large value is neither cut nor changed", "[odbc][live]") {
  FreshDatabase fresh(server_url());
  auto connection = connect(through(fresh.url()));
  run(connection, "CREATE TABLE blobs (raw bytea)");
  const std::string large = bytes_of((std::size_t{48} << 20) + 7);
  run(connection, "INSERT INTO blobs VALUES ($1)", {Value(Bytes{large})});
  CHECK(run(connection, "SELECT length(raw) FROM blobs").one()[0].as_int() ==
        static_cast<std::int64_t>(large.size()));
  CHECK((run(connection, "SELECT raw FROM blobs").one()[0].as_bytes() == large));
  // As long as it is, and no longer: what grows on its way must not keep twice the room.
  Rows rows = run(connection, "SELECT raw FROM blobs");
  const std::string taken = std::move(rows.rows[0][0]).take_bytes();
  CHECK((taken == large));
  CHECK(taken.capacity() < large.size() + 4096);
}

TEST_CASE("odbc results: an error in a later result is an error", "[F5][odbc][live]") {
  FreshDatabase fresh(server_url());
  auto connection = connect(through(fresh.url()));
  CHECK_THROWS_AS(connection.run("SELECT 1; SELECT 1/0"), odbc::OdbcError);
  CHECK_FALSE(connection.broken());
  CHECK(connection.run("SELECT 1; SELECT 2").one()[0].as_int() == 1);
  try {
    run(connection, "INSERT INTO no_such_table VALUES (1)");
    FAIL("nothing was thrown");
  } catch (const odbc::OdbcError& failure) {
    REQUIRE_FALSE(failure.diagnostics.empty());
    CHECK(failure.diagnostics[0].sqlstate == "42P01");
    CHECK(failure.diagnostics[0].message.find("no_such_table") != std::string::npos);
  }
}

TEST_CASE("odbc arrays: rows arrive in order and a row that fails is told", "[F5][odbc][live]") {
  FreshDatabase fresh(server_url());
  Folder folder;
  for (const bool sqlite : {false, true}) {
    INFO((sqlite ? "SQLite" : "PostgreSQL"));
    auto connection =
        connect(sqlite ? "odbc:Driver={SQLite3};Database=" + folder.path + "/arrays.db"
                       : through(fresh.url()));
    run(connection, sqlite
                        ? "CREATE TABLE rows_in (no integer PRIMARY KEY, words text, raw blob)"
                        : "CREATE TABLE rows_in (no integer PRIMARY KEY, words text, raw bytea)");
    odbc::ArrayColumn numbers, words, raw{{}, true};
    for (int i = 0; i < 2500; ++i) {
      numbers.values.emplace_back(std::to_string(i));
      if (i % 3 == 0) words.values.emplace_back(std::nullopt);
      else words.values.emplace_back(i % 3 == 1 ? "" : "\xE6\xBC\xA2 " + std::to_string(i));
      raw.values.emplace_back(bytes_of(static_cast<std::size_t>(i % 7)));
    }
    const auto insert =
        odbc::marked(sqlite ? "INSERT INTO rows_in VALUES ($1, $2, $3)"
                            : "INSERT INTO rows_in VALUES ($1::text::integer, $2, $3)",
                     3, connection.family());
    std::vector<odbc::ArrayColumn> columns{numbers, words, raw};
    connection.run("BEGIN");
    CHECK(connection.execute_rows(insert, columns, 0ms) == 2500);
    connection.run("COMMIT");
    CHECK(run(connection, "SELECT count(*), count(words), min(no), max(no) FROM rows_in")
              .one()[1]
              .as_int() == 1666);
    CHECK(run(connection, "SELECT words FROM rows_in WHERE no = 2").one()[0].as_text() ==
          "\xE6\xBC\xA2 2");
    for (int i : {0, 1, 2, 6, 2498}) {
      INFO(i);
      const std::string got =
          run(connection, "SELECT raw FROM rows_in WHERE no = " + std::to_string(i))
              .one()[0]
              .as_bytes();
      CHECK(got == bytes_of(static_cast<std::size_t>(i % 7)));
    }
    // The third of five is there already.
    std::vector<odbc::ArrayColumn> five_rows{{{"3000", "3001", "5", "3003", "3004"}, false},
                                             {{"a", "b", "c", "d", "e"}, false},
                                             {{"", "", "", "", ""}, true}};
    connection.run("BEGIN");
    CHECK_THROWS_AS(connection.execute_rows(insert, five_rows, 0ms), odbc::OdbcError);
    connection.run("ROLLBACK");
    CHECK(run(connection, "SELECT count(*) FROM rows_in").one()[0].as_int() == 2500);
    // One value that is longer than an ordinary one: row by row.
    std::vector<odbc::ArrayColumn> long_row{
        {{"4000", "4001"}, false}, {{"a", "b"}, false}, {{bytes_of(100'000), ""}, true}};
    CHECK(connection.execute_rows(insert, long_row, 0ms) == 2);
    CHECK((run(connection, "SELECT raw FROM rows_in WHERE no = 4000").one()[0].as_bytes() ==
           bytes_of(100'000)));
  }
}

TEST_CASE("odbc connecting: what is wrong is said and the password is not", "[odbc][live]") {
  const std::string url = server_url();
  const std::uint16_t port = port_of(url);
  const std::string secret = ";PWD=hush-hush";
  const auto refused = [&](const std::string& what) {
    const std::string said =
        thrown<Unavailable>([&] { Info(Database::open(what)).fence(billing); });
    INFO(said);
    CHECK(said.find("nothing was written") != std::string::npos);
    CHECK(said.find("hush") == std::string::npos);
    return said;
  };
  CHECK(refused(through("x/no_such_database", port, secret)).find("no_such_database") !=
        std::string::npos);
  CHECK(refused("odbc:Driver={PostgreSQL Unicode};Server=127.0.0.1;Port=" + std::to_string(port) +
                ";Database=postgres;UID=nobody_here" + secret)
            .find("nobody_here") != std::string::npos);
  refused(through(url, 1, secret));
  CHECK(refused("odbc:Driver=/no/such/folder/libtdsodbc.so;Server=127.0.0.1;Port=1" + secret)
            .find("libtdsodbc") != std::string::npos);
  refused("sqlserver://sa:hush-hush@127.0.0.1:1/db?driver=FreeTDS");
  // PostgreSQL's key words with SQLite's database behind them.
  CHECK_THROWS_AS(Database::open("odbc:Driver={SQLite3};Database=:memory:"), InvalidInput);
}

TEST_CASE("odbc faults: a COMMIT whose answer is lost is unknown and did happen",
          "[F5][odbc][live]") {
  Rig rig;
  for (const Fault fault : {Fault::cut_after, Fault::drop_answer}) {
    const std::string note = fault == Fault::cut_after ? "cut" : "dropped";
    const WriteId id = WriteId::random();
    int runs = 0;
    const int fired = rig.proxy.fired();
    rig.proxy.arm(fault, "COMMIT", 100ms);
    thrown<OutcomeUnknown>([&] {
      rig.db.write(billing, five,
                   [&](Transaction& tx) {
                     ++runs;
                     tx.exec("INSERT INTO ledger (note) VALUES ($1)", note);
                   },
                   {.write_id = id});
    });
    CHECK(rig.proxy.fired() == fired + 1);
    CHECK(runs == 1);
    CHECK(rig.rows(note) == "1");
    REQUIRE(rig.db.outcome(id));
    CHECK(rig.db.outcome(id)->term == five);
  }
}

TEST_CASE("odbc faults: a COMMIT that never arrived is unknown and did not happen",
          "[F5][odbc][live]") {
  Rig rig;
  const WriteId id = WriteId::random();
  const auto work = [](Transaction& tx) { tx.exec("INSERT INTO ledger (note) VALUES ('lost')"); };
  rig.proxy.arm(Fault::cut_before, "COMMIT");
  thrown<OutcomeUnknown>(
      [&] { rig.db.write(billing, five, work, {.write_id = id, .retries = 5}); });
  CHECK(rig.rows("lost") == "0");
  CHECK_FALSE(rig.db.outcome(id));
  CHECK(rig.db.write(billing, five, work, {.write_id = id}) == Wrote::now);
  CHECK(rig.rows("lost") == "1");
}

TEST_CASE("odbc faults: a statement that is cut off in a transaction wrote nothing",
          "[F5][odbc][live]") {
  Rig rig;
  for (const Fault fault : {Fault::cut_before, Fault::cut_after}) {
    rig.proxy.arm(fault, "INSERT INTO ledger");
    thrown<Unavailable>([&] {
      rig.db.write(billing, five, [](Transaction& tx) {
        tx.exec("INSERT INTO ledger (note) VALUES ('nothing')");
      });
    });
    CHECK(
        rig.plain.await("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                        "AND xact_start IS NOT NULL AND pid <> pg_backend_pid()",
                        "0"));
    CHECK(rig.rows("nothing") == "0");
  }
}

TEST_CASE("odbc pool: sessions that the server ended are replaced and nothing is unknown",
          "[odbc][live]") {
  Rig rig;
  const Stream stream("events");
  for (int round = 1; round <= 3; ++round) {
    CHECK(rig.db.append(stream, five, "x", {.scope = billing}).value() == round);
    rig.plain.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid()");
    std::this_thread::sleep_for(150ms);  // beyond that the pool asks before it sends
  }
  CHECK(rig.db.write(billing, five, [](Transaction& tx) {
    tx.exec("INSERT INTO ledger (note) VALUES ('after')");
  }) == Wrote::now);
  CHECK(rig.rows("after") == "1");
}

TEST_CASE("odbc timeouts: a write whose time is over is not there", "[F5][odbc][live]") {
  Rig rig;
  const auto start = std::chrono::steady_clock::now();
  thrown<Unavailable>([&] {
    rig.db.write(billing, five,
                 [](Transaction& tx) {
                   tx.exec("INSERT INTO ledger (note) VALUES ('slow')");
                   tx.exec("SELECT pg_sleep(30)");
                 },
                 {.timeout = 700ms});
  });
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  CHECK(rig.rows("slow") == "0");
  thrown<Unavailable>([&] {
    rig.db.write(billing, five,
                 [](Transaction& tx) {
                   std::this_thread::sleep_for(60ms);
                   tx.exec("INSERT INTO ledger (note) VALUES ('late')");
                 },
                 {.timeout = 50ms});
  });
  CHECK(rig.rows("late") == "0");
  // The next user of that connection is not bound by it.
  CHECK(rig.db.write(billing, five, [](Transaction& tx) { tx.exec("SELECT pg_sleep(1.2)"); }) ==
        Wrote::now);
}
