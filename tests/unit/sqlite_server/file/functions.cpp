// The functions that stand in for SQLite's own give its answers, and can be stopped.
#include <catch2/catch.hpp>

#include <chrono>
#include <random>

#include "file/control.hpp"
#include "support/sqlite_file_lab.hpp"

using namespace sqlite_file_lab;

namespace {

std::string value(sqlite3* db, const std::string& sql) {
  std::string result;
  char* problem = nullptr;
  sqlite3_exec(
      db, sql.c_str(),
      [](void* to, int, char** values, char**) {
        *static_cast<std::string*>(to) = values[0] != nullptr ? values[0] : "NULL";
        return 0;
      },
      &result, &problem);
  if (problem != nullptr) result = std::string("! ") + problem;
  sqlite3_free(problem);
  return result;
}

}  // namespace

TEST_CASE("sqlite_file: stoppable functions answer as SQLite's own do", "[F7][sqlite_file]") {
  sqlite3* plain = nullptr;
  REQUIRE(sqlite3_open(":memory:", &plain) == SQLITE_OK);
  Lab lab;
  sqlite3* ours = lab.engine->writer().handle();
  std::mt19937 random(Catch::rngSeed() + 7);
  const char* const pieces[] = {"a", "b", "%", "_",  "*", "?", "[a-c]", "[^b]", "[",
                                "]", "ä", "€", "\\", "A", "",  "x''",   "-"};
  const auto text = [&] {
    if (random() % 12 == 0) return std::string(random() % 2 == 0 ? "NULL" : "x'61c3'");
    std::string made = "'";
    for (unsigned i = random() % 7; i > 0; --i) made += pieces[random() % std::size(pieces)];
    std::string quoted = "'";
    for (const char c : made.substr(1)) quoted += c == '\'' ? std::string("''") : std::string(1, c);
    return quoted + "'";
  };
  for (int i = 0; i < 6000; ++i) {
    const char* const calls[] = {"instr({0}, {1})", "replace({0}, {1}, {2})",   "trim({0}, {1})",
                                 "ltrim({0}, {1})", "rtrim({0}, {1})",          "trim({0})",
                                 "{0} LIKE {1}",    "{0} LIKE {1} ESCAPE '\\'", "{0} GLOB {1}",
                                 "ltrim({0})"};
    const std::string sql =
        "SELECT hex(quote(" +
        fmt::format(fmt::runtime(calls[random() % std::size(calls)]), text(), text(), text()) +
        "))";
    CAPTURE(sql);
    REQUIRE(value(ours, sql) == value(plain, sql));
  }
  sqlite3_close(plain);
}

TEST_CASE("sqlite_file: what takes hours within one instruction is stopped", "[F4][sqlite_file]") {
  Lab lab;
  SessionOptions options;
  options.statement_time_max = std::chrono::milliseconds(300);
  Stream stream(lab.engine, with("s", 5), options);
  REQUIRE(stream.sequence("CREATE TABLE t (a, b)").empty());
  for (const char* sql : {
           "INSERT INTO t SELECT 1, count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
           "SELECT i + 1 FROM n) SELECT i FROM n)",
           "INSERT INTO t SELECT 1, replace(hex(zeroblob(20000000)), '0', 'ab') LIKE '%' || "
           "replace(hex(zeroblob(200)), '00', 'a%b') || "
           "'x'",
           "INSERT INTO t SELECT 1, trim(hex(zeroblob(30000000)), hex(zeroblob(30000000)) || '1')",
       }) {
    CAPTURE(sql);
    const auto began = std::chrono::steady_clock::now();
    const std::string answer = stream.ask(sql);
    CHECK((answer.starts_with("! SQLITE_INTERRUPT") || answer.empty()));
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(60));
  }
}

TEST_CASE("sqlite_file: the counters are the stream's and not the connection's", "[sqlite_file]") {
  Lab lab;
  Stream one(lab.engine, with("s", 5)), other(lab.engine, with("s", 5));
  REQUIRE(one.sequence("CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE TABLE log (id INTEGER "
                       "PRIMARY KEY, of, n, r); "
                       "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log (of, n, r) VALUES "
                       "(NEW.id, changes(), last_insert_rowid()); END")
              .empty());
  CHECK(one.ask("INSERT INTO t VALUES (7, 'a')").empty());
  CHECK(one.outcome.affected_rows == 1);
  CHECK(one.outcome.last_insert_rowid == 7);
  CHECK(other.ask("INSERT INTO t VALUES (8, 'b'), (9, 'c')").empty());
  CHECK(one.ask("SELECT last_insert_rowid(), changes()") == "last_insert_rowid()|changes() 7|1");
  CHECK(other.ask("SELECT last_insert_rowid(), changes()") == "last_insert_rowid()|changes() 9|2");
  CHECK(Stream(lab.engine)
            .ask("SELECT last_insert_rowid(), changes(), total_changes() AS t")
            .ends_with(" 0|0|0"));
  CHECK(one.ask("SELECT of, r FROM log ORDER BY id") == "of|r 7|7 8|8 9|9");
  CHECK(other.ask("SELECT total_changes() AS n") == "n 4");
  CHECK(one.ask("UPDATE t SET v = 1 WHERE id > 7").empty());
  CHECK(one.outcome.affected_rows == 2);
  CHECK_FALSE(one.outcome.last_insert_rowid);
  CHECK(one.ask("CREATE TABLE u (x)").empty());
  CHECK(one.outcome.affected_rows == 0);
}
