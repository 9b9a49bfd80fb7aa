// One stream over a real file: statements, transactions, savepoints, settings, claims, errors.
#include <catch2/catch.hpp>

#include <chrono>
#include <fstream>
#include <thread>

#include "support/sqlite_file_lab.hpp"

using namespace sqlite_file_lab;

namespace {

struct Table : Lab {
  explicit Table(EngineOptions options = {}) : Lab(std::move(options)) {
    Stream setup(engine, with("s", 5));
    REQUIRE(setup
                .sequence("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE); INSERT INTO t "
                          "VALUES (1, 'a'), (2, 'b')")
                .empty());
  }
  std::string ids() const {
    return outside("SELECT group_concat(id) FROM (SELECT id FROM t ORDER BY id)");
  }
};

}  // namespace

TEST_CASE("sqlite_file: a text is one statement", "[sqlite_file]") {
  Table lab;
  Stream stream(lab.engine, with("s", 5));
  CHECK(stream.ask("SELECT id, v FROM t ORDER BY id;  -- all\n") == "id|v 1|a 2|b");
  CHECK(stream.ask("SELECT v FROM t WHERE id = 7") == "v");
  CHECK(stream.ask("") == "! SQL_NO_STATEMENT the text holds no statement");
  CHECK(stream.ask(" -- nothing\n;;").starts_with("! SQL_NO_STATEMENT"));
  CHECK(stream.ask("INSERT INTO t VALUES (3, 'c'); SELECT 1").starts_with("! SQL_MANY_STATEMENTS"));
  CHECK(stream.ask("BEGIN; SELECT 1").starts_with("! SQL_MANY_STATEMENTS"));
  CHECK(lab.ids() == "1,2;");
  CHECK(stream.ask("INSERT INTO t VALUES (?, ?) RETURNING id, v", {std::int64_t{3}, "c"}) ==
        "id|v 3|c");
  CHECK(lab.ids() == "1,2,3;");
  CHECK(stream.ask("SELECT ?1 + ?1", {std::int64_t{1} << 62}).find("9223372036854775808") ==
        std::string::npos);
  CHECK(stream.ask("SELECT ?", {}).starts_with("! ARGS_INVALID"));
  CHECK(stream.ask("SELECT ?", {std::int64_t{1}, std::int64_t{2}}).starts_with("! ARGS_INVALID"));
  CHECK(stream.ask("SELECT typeof(?)", {hrana::Blob{""}}).ends_with(" blob"));
  const std::string bad = stream.ask("SELECT id, CAST(x'ff' AS TEXT) AS z FROM t");
  CHECK(bad.starts_with("! SQLITE_MISMATCH"));
  CHECK(bad.find("row 1, column 2 (z)") != std::string::npos);
}

TEST_CASE("sqlite_file: a parameter that the text does not have needs no value", "[sqlite_file]") {
  Lab lab;
  Stream stream(lab.engine);
  const auto named = [&](std::string_view sql) {
    return Stream::told([&] {
      Text rows;
      hrana::Statement statement;
      statement.sql = sql;
      statement.named = {{"3", std::int64_t{7}}};
      stream.session.execute(statement, stream.permit, rows);
      return rows.line;
    });
  };
  CHECK(named("SELECT ?3 AS a") == "a 7");
  CHECK(
      named("SELECT ?3 AS a, '?', \"?\" FROM (SELECT 1 AS \"?\") -- ?").starts_with("a|'?'|? 7|"));
  CHECK(named("SELECT ?3 AS a, ?1") == "! ARGS_INVALID parameter ?1 has no value");
  CHECK(named("SELECT ?, ?3") == "! ARGS_INVALID parameter 1 has no value");
  CHECK(named("SELECT ?3, ?") == "! ARGS_INVALID parameter 1 has no value");
}

TEST_CASE("sqlite_file: what a statement keeps when it fails is kept", "[sqlite_file]") {
  Table lab;
  Stream stream(lab.engine, with("s", 5));
  CHECK(stream.ask("INSERT OR FAIL INTO t VALUES (3, 'c'), (4, 'a'), (5, 'e')")
            .starts_with("! SQLITE_CONSTRAINT"));
  CHECK(lab.ids() == "1,2,3;");
  CHECK(stream.ask("INSERT INTO t VALUES (6, 'f'), (7, 'a')").starts_with("! SQLITE_CONSTRAINT"));
  CHECK(lab.ids() == "1,2,3;");
  // What we refuse of an answer keeps nothing, in a transaction as without one.
  for (const char* transaction : {"", "BEGIN"}) {
    if (*transaction != 0) stream.ask(transaction);
    CHECK(stream.ask("INSERT INTO t VALUES (8, CAST(x'ff' AS TEXT)) RETURNING v")
              .starts_with("! SQLITE_MISMATCH"));
    CHECK(stream.ask("SELECT count(*) AS n FROM t WHERE id = 8") == "n 0");
    if (*transaction != 0) {
      CHECK(stream.ask("INSERT INTO t VALUES (8, 'h') RETURNING id") == "id 8");
      CHECK(stream.ask("ROLLBACK").empty());
    }
  }
  // A stale one keeps nothing.
  lab.outside("SELECT termgate_seal('s', 6)");
  CHECK(stream.ask("INSERT OR FAIL INTO t VALUES (8, 'h'), (9, 'a')").starts_with("! TG001"));
  CHECK(lab.ids() == "1,2,3;");
}

TEST_CASE("sqlite_file: a sequence that has run something is not to be repeated",
          "[F6][sqlite_file]") {
  Table lab;
  // No writer may wait, so that each write that needs the turn is busy.
  Stream stream(lab.open({.waiters_max = 0}), with("s", 5));
  const char* write = "INSERT INTO t VALUES (3, 'c')";
  REQUIRE(stream.ask(write).starts_with("!503 0 writers wait"));
  CHECK(stream.sequence(write).starts_with("!503 0 writers wait"));
  CHECK(stream.sequence(std::string("SELECT 1;") + write).starts_with("! SERVER_BUSY 0 writers"));
  CHECK(stream.session.keeps_of_sequence());
  CHECK(stream.sequence(std::string("BEGIN;") + write).starts_with("! SERVER_BUSY 0 writers"));
  CHECK_FALSE(stream.session.keeps_of_sequence());
}

TEST_CASE("sqlite_file: errors are SQLite's, with both names and the place", "[sqlite_file]") {
  Table lab;
  Stream stream(lab.engine, with("s", 5));
  const auto failure = [&](std::string_view sql) {
    Text rows;
    hrana::Statement statement;
    statement.sql = sql;
    try {
      stream.session.execute(statement, stream.permit, rows);
    } catch (const hrana::Refused& refused) { return refused; }
    return hrana::Refused("none", "none");
  };
  const hrana::Refused unique = failure("INSERT INTO t VALUES (5, 'a')");
  CHECK(unique.code == "SQLITE_CONSTRAINT");
  CHECK(unique.extended_code == "SQLITE_CONSTRAINT_UNIQUE");
  CHECK(std::string(unique.what()) == "UNIQUE constraint failed: t.v");
  const hrana::Refused syntax = failure("SELECT id FRM t");
  CHECK(syntax.code == "SQL_INPUT_ERROR");
  CHECK(syntax.offset == 14);
  CHECK(failure("SELECT * FROM nowhere").code == "SQLITE_ERROR");
  CHECK(std::string(failure("SELECT * FROM nowhere").what()) == "no such table: nowhere");
  CHECK(failure("COMMIT").code == "SQLITE_ERROR");
  CHECK(std::string(failure("ROLLBACK").what()) == "cannot rollback - no transaction is active");
  CHECK(std::string(failure("RELEASE x").what()) == "no such savepoint: x");
  CHECK(failure(std::string((1 << 20) + 1, ' ')).code == "SQLITE_TOOBIG");
  CHECK(failure("SELECT zeroblob(70000000)").code == "SQLITE_TOOBIG");
}

TEST_CASE("sqlite_file: a transaction is begun, read, written and ended", "[F1][sqlite_file]") {
  Table lab;
  Stream stream(lab.engine, with("s", 5)), other(lab.engine, with("s", 5));
  SECTION("commit") {
    CHECK(stream.ask("BEGIN").empty());
    CHECK(stream.open());
    CHECK(stream.ask("BEGIN") == "! SQLITE_ERROR cannot start a transaction within a transaction");
    CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").empty());
    CHECK(stream.ask("SELECT count(*) AS n FROM t") == "n 3");
    CHECK(other.ask("SELECT count(*) AS n FROM t") == "n 2");
    CHECK(stream.ask("COMMIT").empty());
    CHECK_FALSE(stream.open());
    CHECK(other.ask("SELECT count(*) AS n FROM t") == "n 3");
  }
  SECTION("rollback") {
    CHECK(stream.ask("BEGIN IMMEDIATE").empty());
    CHECK(stream.ask("DELETE FROM t").empty());
    CHECK(stream.ask("ROLLBACK").empty());
    CHECK(lab.ids() == "1,2;");
  }
  SECTION("an error of a statement leaves it open") {
    stream.ask("BEGIN");
    stream.ask("INSERT INTO t VALUES (3, 'c')");
    CHECK(stream.ask("INSERT INTO t VALUES (4, 'c')").starts_with("! SQLITE_CONSTRAINT"));
    CHECK(stream.open());
    CHECK(stream.ask("COMMIT").empty());
    CHECK(lab.ids() == "1,2,3;");
  }
  SECTION("OR ROLLBACK ends it, and that is said") {
    stream.ask("BEGIN");
    stream.ask("INSERT INTO t VALUES (3, 'c')");
    CHECK(
        stream.ask("INSERT OR ROLLBACK INTO t VALUES (4, 'c')").starts_with("! SQLITE_CONSTRAINT"));
    CHECK_FALSE(stream.open());
    CHECK(stream.ask("COMMIT").starts_with("! SQLITE_ERROR cannot commit"));
    CHECK(lab.ids() == "1,2;");
    CHECK(other.ask("INSERT INTO t VALUES (9, 'z')").empty());
  }
  SECTION("a snapshot is the transaction's, and an old one cannot become a writer") {
    stream.ask("BEGIN");
    CHECK(stream.ask("SELECT count(*) AS n FROM t") == "n 2");
    other.ask("INSERT INTO t VALUES (3, 'c')");
    CHECK(stream.ask("SELECT count(*) AS n FROM t") == "n 2");
    const std::string answer = stream.ask("INSERT INTO t VALUES (4, 'd')");
    CHECK(answer.starts_with("! SQLITE_BUSY"));
    CHECK(stream.open());
    CHECK(other.ask("INSERT INTO t VALUES (5, 'e')").empty());  // the turn was given back
    CHECK(stream.ask("ROLLBACK").empty());
  }
  SECTION("a reader becomes the writer with its own snapshot") {
    stream.ask("BEGIN");
    stream.ask("SELECT * FROM t");
    CHECK(stream.ask("INSERT INTO t SELECT max(id) + 1, 'c' FROM t").empty());
    CHECK(stream.ask("COMMIT").empty());
    CHECK(lab.ids() == "1,2,3;");
  }
  SECTION("a read only one writes nothing") {
    for (const char* begin : {"BEGIN TRANSACTION READONLY", "BEGIN READONLY"}) {
      CHECK(stream.ask(begin).empty());
      CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").starts_with("! SQLITE_READONLY"));
      CHECK(stream.ask("SELECT 1 AS n") == "n 1");
      CHECK(stream.ask("COMMIT").empty());
    }
  }
  SECTION("a deferred key fails the commit and leaves it open") {
    stream.sequence("CREATE TABLE c (of REFERENCES t DEFERRABLE INITIALLY DEFERRED)");
    stream.ask("BEGIN");
    stream.ask("INSERT INTO c VALUES (77)");
    CHECK(stream.ask("COMMIT") == "! SQLITE_CONSTRAINT FOREIGN KEY constraint failed");
    CHECK(stream.open());
    stream.ask("DELETE FROM c");
    CHECK(stream.ask("COMMIT").empty());
  }
}

TEST_CASE("sqlite_file: savepoints are SQLite's, whenever the file is first touched",
          "[sqlite_file]") {
  for (const char* first : {"", "SELECT * FROM t", "UPDATE t SET v = v"}) {
    for (const char* second : {"", "SELECT * FROM t", "UPDATE t SET v = v"}) {
      CAPTURE(first, second);
      Table lab;
      Stream stream(lab.engine, with("s", 5));
      stream.ask("BEGIN");
      if (*first != 0) stream.ask(first);
      CHECK(stream.ask("SAVEPOINT a").empty());
      CHECK(stream.ask("SAVEPOINT \"B c\"").empty());
      if (*second != 0) stream.ask(second);
      CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").empty());
      CHECK(stream.ask("ROLLBACK TO \"b C\"").empty());
      CHECK(stream.ask("INSERT INTO t VALUES (4, 'd')").empty());
      CHECK(stream.ask("RELEASE A").empty());
      CHECK(stream.ask("ROLLBACK TO a").starts_with("! SQLITE_ERROR no such savepoint"));
      CHECK(stream.ask("COMMIT").empty());
      CHECK(lab.ids() == "1,2,4;");
    }
  }
  Table lab;
  Stream stream(lab.engine, with("s", 5));
  CHECK(stream.ask("SAVEPOINT outer").empty());
  CHECK(stream.open());
  CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").empty());
  CHECK(stream.ask("ROLLBACK TO outer").empty());
  CHECK(stream.open());
  CHECK(stream.ask("INSERT INTO t VALUES (4, 'd')").empty());
  CHECK(stream.ask("RELEASE outer").empty());
  CHECK_FALSE(stream.open());
  CHECK(lab.ids() == "1,2,4;");
}

// Long: each section begins where the common part ends.
TEST_CASE("sqlite_file: no write without a passed check", "[F1][F2][sqlite_file]") {
  Table lab;
  Stream nobody(lab.engine), stale(lab.engine, with("s", 4)), next(lab.engine, with("s", 6));
  const char* const write = "INSERT INTO t VALUES (3, 'c')";
  CHECK(nobody.ask(write).starts_with("! TG002 TG002"));
  CHECK(nobody.sequence(write).starts_with("! TG002"));
  CHECK(stale.ask(write).starts_with(
      "! TG001 TG001 stale term 4 for scope \"s\": the fence stands at 5"));
  nobody.ask("BEGIN IMMEDIATE");
  CHECK(nobody.open());
  CHECK(nobody.ask(write).starts_with("! TG002"));
  CHECK(next.ask("UPDATE t SET v = 'z' WHERE id = 2")
            .empty());  // nobody holds the lock without a term
  nobody.ask("ROLLBACK");
  CHECK(stale.ask("BEGIN IMMEDIATE").starts_with("! TG001"));
  CHECK_FALSE(stale.open());
  CHECK(stale.ask("BEGIN").empty());
  CHECK(stale.ask(write).starts_with("! TG001"));
  CHECK(stale.open());
  stale.ask("SELECT 1");
  CHECK(stale.ask(write).starts_with("! TG001"));
  CHECK(stale.ask("COMMIT").empty());
  CHECK(lab.ids() == "1,2;");
  SECTION("a stale snapshot with a stale claim") {
    Stream late(lab.engine, with("s", 6));
    late.ask("BEGIN");
    late.ask("SELECT * FROM t");
    CHECK(lab.outside("SELECT termgate_seal('s', 9)") != "");
    CHECK_FALSE(late.ask(write).empty());
    late.ask("ROLLBACK");
    CHECK(late.ask(write).starts_with("! TG001"));
    CHECK(lab.ids() == "1,2;");
  }
  SECTION("another claim in a transaction") {
    next.ask("BEGIN");
    next.ask(write);
    next.permit = with("other", 1);
    CHECK(next.ask("INSERT INTO t VALUES (4, 'd')").starts_with("! TG005"));
    next.permit = with("s", 7);
    CHECK(next.ask("INSERT INTO t VALUES (4, 'd')").starts_with("! TG005"));
    next.permit = with("s", 6);
    CHECK(next.ask("INSERT INTO t VALUES (4, 'd')").empty());
    CHECK(next.ask("COMMIT").empty());
    CHECK(lab.ids() == "1,2,3,4;");
  }
  SECTION("a check by SQL lets the rest of its transaction write") {
    Stream plain(lab.engine);
    CHECK(plain.ask("SELECT termgate_check_term('s', 6) AS f") == "f 6");
    CHECK(plain.ask(write).starts_with("! TG002"));
    plain.ask("BEGIN");
    CHECK(plain.ask("SELECT termgate_check_term('s', 5)").starts_with("! TG001"));
    CHECK(plain.ask(write).starts_with("! TG002"));
    CHECK(plain.ask("SELECT termgate_check_term('s', 7) AS f") == "f 7");
    CHECK(plain.ask(write).empty());
    CHECK(plain.ask("COMMIT").empty());
    CHECK(lab.ids() == "1,2,3;");
    CHECK(lab.engine->memory()->highest("s") == 7);
  }
  SECTION("a raise that a savepoint takes back is none") {
    Stream plain(lab.engine);
    plain.ask("BEGIN");
    plain.ask("SAVEPOINT a");
    CHECK(plain.ask("SELECT termgate_check_term('s', 8) AS f") == "f 8");
    plain.ask("ROLLBACK TO a");
    CHECK(plain.ask(write).starts_with("! TG002"));
    CHECK(plain.ask("COMMIT").empty());
    CHECK(lab.engine->memory()->highest("s") == 6);
    CHECK(next.ask(write).empty());
  }
  SECTION("a declaration holds from the next statement to the end of the stream") {
    Stream plain(lab.engine);
    CHECK(plain.ask("SELECT termgate_declare('s', 6)").starts_with("termgate_declare"));
    CHECK(plain.session.keeps_settings());
    CHECK(plain.ask(write).empty());
    CHECK(plain.ask("SELECT termgate_declare('s', NULL)").starts_with("! TG005"));
    CHECK(plain.ask("SELECT termgate_declare(NULL, NULL)").starts_with("termgate_declare"));
    CHECK_FALSE(plain.session.keeps_settings());
    CHECK(plain.ask("INSERT INTO t VALUES (4, 'd')").starts_with("! TG002"));
    Stream fixed(lab.engine, with("s", 6));
    fixed.permit.claim_is_final = true;
    CHECK(fixed.ask("SELECT termgate_declare('s', 7)").starts_with("! TG005"));
  }
  SECTION("what names scope and term itself is no business of the request's claim") {
    CHECK_FALSE(next.ask("SELECT termgate_seal('s', 9)").starts_with("!"));
    CHECK_FALSE(next.ask("SELECT termgate_check_term('other', 2)").starts_with("!"));
    CHECK(next.ask(write).starts_with("! TG001"));
  }
  SECTION("a final claim is the only one that its stream can write with") {
    Stream fixed(lab.engine, with("s", 6));
    fixed.permit.claim_is_final = true;
    const std::string uuid = "'018f4a6e-7c3b-7000-8000-000000000001'";
    for (const bool transaction : {false, true}) {
      for (const std::string& sql :
           {std::string("SELECT termgate_check_term('other', 9)"),
            std::string("SELECT termgate_seal('other', 9)"),
            std::string("SELECT termgate_seal('s', 9)"),
            std::string("SELECT termgate_acquire_lease('other', 'me', 60000)"),
            std::string("SELECT termgate_check_term('s', 9)"),
            std::string("SELECT termgate_append('st', 9, x'00', NULL, 'other')"),
            "SELECT termgate_claim_write('other', 9, " + uuid + ")"}) {
        CAPTURE(sql, transaction);
        if (transaction) CHECK(fixed.ask("BEGIN").empty());
        CHECK(fixed.ask(sql).starts_with("! TG005"));
        if (transaction) CHECK(fixed.ask("ROLLBACK").empty());
      }
    }
    fixed.permit.claim = {};  // its rule has no term now
    CHECK(fixed.ask("SELECT termgate_check_term('other', 9)").starts_with("! TG002"));
    CHECK(lab.outside("SELECT count(*) FROM termgate_fences WHERE scope = 'other' OR term > 6") ==
          "0;");
    CHECK(lab.ids() == "1,2;");
  }
  SECTION("levels and options") {
    next.permit.access = hrana::Access::read_only;
    CHECK(next.ask(write).starts_with("! SQLITE_AUTH"));
    Stream open(lab.engine, unfenced());
    CHECK(open.ask(write).empty());
    stale.permit.observe = true;
    CHECK(stale.ask("INSERT INTO t VALUES (4, 'd')").empty());
    CHECK(lab.engine->counters().observed == std::array<std::int64_t, 4>{1, 0, 0, 0});
    nobody.permit.observe = true;
    CHECK(nobody.ask("INSERT INTO t VALUES (5, 'e')").empty());
    CHECK(lab.engine->counters().observed == std::array<std::int64_t, 4>{1, 1, 0, 0});
  }
}

TEST_CASE("sqlite_file: an older copy of the file is found by what was seen", "[F3][sqlite_file]") {
  const auto memory = std::make_shared<termgate::detail::FenceMemory>();
  memory->saw("s", 9);
  Table lab;
  lab.engine = lab.open({.memory = memory});
  Stream stream(lab.engine, with("s", 7)), plain(lab.engine);
  CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").starts_with("! TG004"));
  CHECK(stream.ask("BEGIN IMMEDIATE").starts_with("! TG004"));
  CHECK(plain.ask("SELECT termgate_check_term('s', 7)").starts_with("! TG004"));
  CHECK(lab.outside("SELECT term FROM termgate_fences WHERE scope = 's'") == "5;");
  CHECK(Stream(lab.engine, with("s", 9)).ask("INSERT INTO t VALUES (3, 'c')").empty());
}

TEST_CASE("sqlite_file: settings are the stream's and leak to nobody", "[F7][sqlite_file]") {
  Table lab({.readers_max = 1});
  Stream stream(lab.engine, with("s", 5)), other(lab.engine, with("s", 5));
  REQUIRE(stream.sequence("CREATE TABLE c (of REFERENCES t)").empty());
  CHECK(stream.ask("PRAGMA foreign_keys") == "foreign_keys 1");
  CHECK(stream.ask("INSERT INTO c VALUES (77)").starts_with("! SQLITE_CONSTRAINT"));
  CHECK(stream.session.describe("PRAGMA foreign_keys = OFF", stream.permit).columns.empty());
  CHECK(stream.ask("EXPLAIN PRAGMA foreign_keys = OFF").find("!") == std::string::npos);
  CHECK(stream.ask("PRAGMA foreign_keys") == "foreign_keys 1");
  CHECK_FALSE(stream.session.keeps_settings());
  CHECK(stream.ask("PRAGMA foreign_keys = off").empty());
  CHECK(stream.session.keeps_settings());
  CHECK(stream.ask("PRAGMA foreign_keys") == "foreign_keys 0");
  CHECK(stream.ask("INSERT INTO c VALUES (77)").empty());
  CHECK(other.ask("INSERT INTO c VALUES (78)").starts_with("! SQLITE_CONSTRAINT"));
  // A write that fails is over, too.
  CHECK(stream.ask("INSERT INTO t VALUES (1, 'again')").starts_with("! SQLITE_CONSTRAINT"));
  CHECK_FALSE(stream.open());
  CHECK(other.ask("INSERT INTO t VALUES (9, 'other')").empty());
  CHECK(stream.ask("INSERT OR FAIL INTO t VALUES (10, 'kept'), (1, 'again'), (11, 'never')")
            .starts_with("! SQLITE_CONSTRAINT"));
  CHECK_FALSE(stream.open());
  CHECK(stream.ask("INSERT INTO t VALUES (12, CAST(x'ff' AS TEXT)) RETURNING v")
            .starts_with("! SQLITE_MISMATCH"));
  CHECK_FALSE(stream.open());
  CHECK(lab.ids().ends_with(",9,10;"));
  stream.ask("BEGIN");
  stream.ask("SELECT * FROM t");
  CHECK(stream.ask("PRAGMA foreign_keys = on").empty());  // within a transaction it does nothing
  CHECK(stream.ask("INSERT INTO c VALUES (79)").empty());
  CHECK(stream.ask("COMMIT").empty());
  CHECK(other.ask("BEGIN").empty());
  CHECK(other.ask("SELECT * FROM t").starts_with("id|v"));
  CHECK(other.ask("INSERT INTO c VALUES (80)").starts_with("! SQLITE_CONSTRAINT"));
  CHECK(other.ask("ROLLBACK").empty());
  CHECK(stream.ask("PRAGMA foreign_keys = on").empty());
  CHECK_FALSE(stream.session.keeps_settings());
  CHECK(stream.ask("PRAGMA query_only = 1").empty());
  CHECK(stream.ask("DELETE FROM t").starts_with("! SQLITE_READONLY"));
  CHECK(other.ask("DELETE FROM t WHERE id = 99").empty());
  CHECK(stream.ask("PRAGMA query_only = 0").empty());
  stream.ask("BEGIN");
  CHECK(stream.ask("PRAGMA defer_foreign_keys = ON").empty());
  CHECK(stream.ask("INSERT INTO c VALUES (88)").empty());
  CHECK(stream.ask("COMMIT").starts_with("! SQLITE_CONSTRAINT"));
  CHECK(stream.ask("ROLLBACK").empty());
  CHECK(stream.ask("PRAGMA defer_foreign_keys") == "defer_foreign_keys 0");
  CHECK(stream.ask("INSERT INTO c VALUES (88)").starts_with("! SQLITE_CONSTRAINT"));
  CHECK(stream.ask("PRAGMA synchronous = OFF").empty());
  CHECK(stream.ask("PRAGMA journal_mode = WAL") == "journal_mode WAL");
  CHECK(stream.ask("PRAGMA busy_timeout = 7") == "busy_timeout 7");
  CHECK(other.ask("PRAGMA busy_timeout") != "timeout 7");
}

TEST_CASE("sqlite_file: DDL on a protected table needs the scope that it is protected for",
          "[F2][sqlite_file]") {
  Table lab;
  lab.outside(
      "CREATE TABLE acc (id INTEGER PRIMARY KEY, scope TEXT, v); INSERT INTO acc VALUES (1, 'A', "
      "10)");
  lab.outside(
      "CREATE TABLE one (id INTEGER PRIMARY KEY, v); CREATE TABLE adopted (id INTEGER PRIMARY KEY, "
      "scope TEXT, term INTEGER)");
  REQUIRE(lab.outside("SELECT termgate_protect('acc', 'scope', NULL)") != "");
  REQUIRE(lab.outside("SELECT termgate_protect('one', NULL, 'A')") != "");
  REQUIRE(lab.outside("SELECT termgate_adopt('adopted', 'scope', 'term')") != "");
  Stream b(lab.engine, with("B", 9)), a(lab.engine, with("A", 1));
  for (const char* sql :
       {"ALTER TABLE acc RENAME COLUMN scope TO s2", "ALTER TABLE acc DROP COLUMN v",
        "ALTER TABLE acc ADD COLUMN x DEFAULT 1", "ALTER TABLE acc RENAME TO x", "DROP TABLE acc",
        "CREATE TRIGGER x AFTER INSERT ON acc BEGIN DELETE FROM t; END",
        "CREATE UNIQUE INDEX x ON acc (v)", "UPDATE acc SET v = 11", "DELETE FROM acc",
        "ALTER TABLE one ADD COLUMN x", "DROP TABLE one", "CREATE INDEX x ON one (v)",
        "DROP TABLE adopted", "ALTER TABLE adopted RENAME COLUMN term TO x"}) {
    CAPTURE(sql);
    CHECK(b.ask(sql).starts_with("! "));
    CHECK(b.ask("BEGIN").empty());
    CHECK(b.ask(sql).starts_with("! "));
    CHECK(b.ask("ROLLBACK").empty());
  }
  CHECK(lab.outside("SELECT v FROM acc") == "10;");
  CHECK(a.ask("ALTER TABLE one ADD COLUMN x").empty());
  CHECK(a.ask("CREATE INDEX i ON one (v)").empty());
  CHECK(a.ask("DROP TABLE one").starts_with("! SQLITE_AUTH"));
  CHECK(a.ask("UPDATE acc SET v = 11").empty());
  CHECK(lab.outside("SELECT v FROM acc") == "11;");
}

TEST_CASE("sqlite_file: one statement takes bounded memory and time", "[sqlite_file]") {
  Table lab;
  SessionOptions options;
  options.reading_bytes_max = std::size_t{64} << 20;
  options.reading_time_max = std::chrono::milliseconds(300);
  Stream stream(lab.engine, {}, options);
  std::string columns = "hex(zeroblob(15000000))";
  for (int i = 0; i < 20; ++i) columns += ", hex(zeroblob(15000000))";
  CHECK(stream.ask("SELECT " + columns).starts_with("! SQLITE_NOMEM"));
  CHECK(
      stream
          .ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000) SELECT "
               "json_group_array(hex(zeroblob(100000))) FROM n")
          .starts_with("! "));
  CHECK(stream.ask("SELECT count(*) AS n FROM t") == "n 2");
  const auto began = std::chrono::steady_clock::now();
  CHECK(stream
            .ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) "
                 "FROM n")
            .starts_with("! SQLITE_INTERRUPT"));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(5));
  Stream writer(lab.engine, with("s", 5), {.written_rows_bytes_max = 1000});
  CHECK(writer.ask("UPDATE t SET v = hex(zeroblob(1000)) || id RETURNING v")
            .starts_with("! RESPONSE_TOO_LARGE"));
  CHECK(lab.outside("SELECT v FROM t WHERE id = 1") == "a;");
}

TEST_CASE("sqlite_file: VACUUM runs alone and checked", "[F1][sqlite_file]") {
  Table lab;
  Stream stream(lab.engine, with("s", 5)), nobody(lab.engine), stale(lab.engine, with("s", 1));
  CHECK(stream.ask("VACUUM").empty());
  CHECK(nobody.ask("VACUUM").starts_with("! TG002"));
  CHECK(stale.ask("VACUUM").starts_with("! TG001"));
  stream.ask("BEGIN");
  CHECK(stream.ask("VACUUM") == "! SQLITE_ERROR cannot VACUUM from within a transaction");
  CHECK(stream.open());
  stream.ask("COMMIT");
  CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").empty());
}

TEST_CASE("sqlite_file: a file that was moved is written no more", "[F2][sqlite_file]") {
  std::atomic<bool> told{false};
  Table lab({.on_moved = [&] { told = true; }});
  Stream stream(lab.engine, with("s", 5)), idle(lab.engine, with("s", 5)),
      alone(lab.engine, with("s", 5));
  idle.ask("BEGIN");
  idle.ask("SELECT * FROM t");
  stream.ask("BEGIN");
  CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").empty());
  std::filesystem::rename(lab.file.path, lab.file.path + ".old");
  CHECK(stream.ask("COMMIT").starts_with("!! DATABASE_MOVED"));
  CHECK(stream.ask("SELECT 1").starts_with("!! DATABASE_MOVED"));
  CHECK(alone.ask("INSERT INTO t VALUES (4, 'd')").starts_with("!! DATABASE_MOVED"));
  CHECK(idle.ask("SELECT * FROM t").starts_with("!! DATABASE_MOVED"));
  for (int i = 0; i < 200 && !told; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(told);
  std::filesystem::rename(lab.file.path + ".old", lab.file.path);
  CHECK(lab.ids() == "1,2;");
}

TEST_CASE("sqlite_file: a full disk fails the writes and nothing else", "[F5][sqlite_file]") {
  Table lab;
  sqlite3* writer = lab.engine->writer().handle();
  REQUIRE(sqlite3_exec(writer, "PRAGMA max_page_count = 30", nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  Stream stream(lab.engine, with("s", 5));
  const char* const large = "INSERT INTO t (v) VALUES (hex(zeroblob(500000)))";
  CHECK(stream.ask(large).starts_with("! SQLITE_FULL"));
  CHECK(stream.ask("SELECT count(*) AS n FROM t") == "n 2");
  stream.ask("BEGIN");
  CHECK(stream.ask("INSERT INTO t VALUES (3, 'c')").empty());
  CHECK(stream.ask(large).starts_with("! SQLITE_FULL"));
  const bool open = stream.open();
  CHECK(stream.ask("COMMIT").empty() == open);
  CHECK(Stream(lab.engine, with("s", 5)).ask("INSERT INTO t VALUES (7, 'g')").empty());
}

TEST_CASE("sqlite_file: a batch is one member of a group commit where that comes to the same",
          "[F5][sqlite_file]") {
  Table lab;
  Stream stream(lab.engine, with("s", 5));
  std::vector<std::string> answers;
  const auto batch = [&](const std::vector<std::string_view>& texts) {
    answers.clear();
    return Stream::told([&]() -> std::string {
      const bool grouped = stream.session.together(texts, stream.permit, [&] {
        bool fine = true;
        for (std::size_t i = 0; i < texts.size(); ++i) {
          if (i + 1 == texts.size() && texts[i] == "ROLLBACK" && fine) break;
          if (!fine && texts[i] != "ROLLBACK") continue;
          answers.push_back(stream.ask(texts[i]));
          fine = fine && !answers.back().starts_with("!");
        }
      });
      return grouped ? "together" : "one by one";
    });
  };
  CHECK(batch({"BEGIN IMMEDIATE", "INSERT INTO t VALUES (3, 'c')", "SELECT count(*) AS n FROM t",
               "COMMIT", "ROLLBACK"}) == "together");
  CHECK(answers == std::vector<std::string>{"", "", "n 3", ""});
  CHECK(lab.ids() == "1,2,3;");
  CHECK(stream.session.is_autocommit());
  CHECK(batch({"BEGIN IMMEDIATE", "INSERT INTO t VALUES (4, 'd')", "INSERT INTO t VALUES (5, 'c')",
               "COMMIT", "ROLLBACK"}) == "together");
  CHECK(answers.back().empty());
  CHECK(lab.ids() == "1,2,3;");
  for (const auto& texts : std::vector<std::vector<std::string_view>>{
           {"BEGIN", "INSERT INTO t VALUES (4, 'd')"},
           {"BEGIN", "SELECT 1", "COMMIT"},
           {"BEGIN READONLY", "INSERT INTO t VALUES (4, 'd')", "COMMIT"},
           {"BEGIN", "SAVEPOINT a", "INSERT INTO t VALUES (4, 'd')", "COMMIT"},
           {"BEGIN", "SELECT termgate_check_term('x', 1)", "INSERT INTO t VALUES (4, 'd')",
            "COMMIT"},
           {"BEGIN", "CREATE TABLE n (x)", "INSERT INTO n VALUES (1)", "COMMIT"},
           {"BEGIN", "PRAGMA defer_foreign_keys = ON", "INSERT INTO t VALUES (4, 'd')", "COMMIT"},
           {"BEGIN", "VACUUM", "COMMIT"},
           {"BEGIN", "INSERT INTO t VALUES (4, 'd'); DELETE FROM t", "COMMIT"},
           {"BEGIN", "INSERT INTO t VALUES (4, 'd')", "COMMIT", "INSERT INTO t VALUES (5, 'e')"},
       }) {
    CAPTURE(texts.size());
    CHECK(batch(texts) == "one by one");
  }
  stream.permit = with("s", 4);
  CHECK(batch({"BEGIN", "INSERT INTO t VALUES (4, 'd')", "COMMIT"}) == "one by one");
  stream.permit = with("s", 5);
  CHECK(batch({"BEGIN", "INSERT OR ROLLBACK INTO t VALUES (9, 'c')", "COMMIT", "ROLLBACK"})
            .starts_with("! "));
  CHECK(batch({"BEGIN", "INSERT OR ROLLBACK INTO t VALUES (9, 'c')", "COMMIT", "ROLLBACK"}) ==
        "one by one");
  CHECK(lab.ids() == "1,2,3;");
}

TEST_CASE("sqlite_file: PRAGMA and EXPLAIN answer from the schema as it is, whoever changed it",
          "[F7][sqlite_file]") {
  Lab lab;
  Stream stream(lab.engine, with("s", 5));
  std::vector<std::string> asks;
  for (const char* call : {"foreign_key_list", "index_list", "table_info", "table_xinfo"}) {
    asks.push_back(fmt::format("PRAGMA {}('c')", call));
    asks.push_back(fmt::format("SELECT * FROM pragma_{}('c')", call));
  }
  for (const bool outside : {false, true}) {
    CAPTURE(outside);
    const auto changes = [&](const char* sql) {
      if (outside) lab.outside(sql);
      else REQUIRE(stream.ask(sql).empty());
    };
    const auto columns = [&] {
      return stream.session.describe("SELECT * FROM c", stream.permit).columns.size();
    };
    const auto plan = [&] {
      return stream.ask("EXPLAIN QUERY PLAN SELECT * FROM c WHERE v = 1").find("by_v") !=
             std::string::npos;
    };
    for (const std::string& sql : asks) CHECK(stream.ask(sql).find(' ') == std::string::npos);
    changes("CREATE TABLE c (id INTEGER PRIMARY KEY, p REFERENCES c, u UNIQUE, v)");
    for (const std::string& sql : asks) {
      CAPTURE(sql);
      CHECK(stream.ask(sql).find(' ') != std::string::npos);
    }
    CHECK(columns() == 4);
    changes("ALTER TABLE c ADD COLUMN w");
    CHECK(columns() == 5);
    changes("ALTER TABLE c DROP COLUMN w");
    CHECK(stream.ask("SELECT * FROM c").find(' ') == std::string::npos);
    for (int again = 0; again < 20; ++again) {
      CHECK_FALSE(plan());
      CHECK(stream.ask("EXPLAIN INSERT INTO c VALUES (1, 1, 2, 3)").find("OpenWrite") !=
            std::string::npos);
      changes("CREATE INDEX by_v ON c (v)");
      CHECK(plan());
      CHECK(stream.ask("SELECT * FROM c").find(' ') ==
            std::string::npos);  // reads the schema anew, where that was not done
      CHECK(stream.ask("EXPLAIN INSERT INTO c VALUES (1, 1, 2, 3)").find("OpenWrite") !=
            std::string::npos);
      changes("DROP INDEX by_v");
    }
    changes("DROP TABLE c");
    CHECK_THROWS_AS(columns(), hrana::Refused);
  }
}
