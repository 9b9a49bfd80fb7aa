// The port's promises on SQLite: what may be opened, what a statement may do, how values travel,
// who may read while somebody writes. Long: a case for each thing that the port promises.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include <termgate/detail/sqlite_driver.hpp>
#include <termgate/error.hpp>

#include <sql/statements.hpp>

#include "support.hpp"

using namespace sqlite_test;
using namespace termgate;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

std::unique_ptr<detail::Driver> open(const std::string& path_and_options) {
  return detail::open_sqlite(path_and_options, {.connections_max = 4, .check_wait = 2s});
}

std::unique_ptr<detail::Driver> installed(const std::string& path_and_options) {
  auto driver = open(path_and_options);
  driver->install();
  return driver;
}

Rows run(detail::Driver& driver, sql::Call call, std::vector<Value> values = {}) {
  return driver.call(call, values, false);
}
Rows run(detail::Driver& driver, std::string_view sql, std::vector<Value> values = {}) {
  Rows rows;
  driver.transact({},
                  [&](detail::OpenTransaction& session) { rows = session.execute(sql, values); });
  return rows;
}
Rows read(detail::Driver& driver, std::string_view sql, std::vector<Value> values = {}) {
  return driver.query(sql, values);
}
Rows read(detail::Driver& driver, sql::Call call, std::vector<Value> values = {}) {
  return driver.call(call, values, true);
}

template <class What>
std::int64_t read_int(detail::Driver& driver, What what, std::vector<Value> values = {}) {
  return read(driver, what, std::move(values)).one()[0].as_int();
}
template <class What>
std::string read_text(detail::Driver& driver, What what, std::vector<Value> values = {}) {
  return read(driver, what, std::move(values)).one()[0].as_text();
}
template <class What>
std::int64_t run_int(detail::Driver& driver, What what, std::vector<Value> values = {}) {
  return run(driver, what, std::move(values)).one()[0].as_int();
}

}  // namespace

TEST_CASE("open: what is no database is refused and nothing is made", "[sqlite]") {
  Folder folder;
  CHECK_THROWS_AS(open(""), InvalidInput);
  CHECK_THROWS_AS(open(folder.file("x") + "?cache=shared"), InvalidInput);
  CHECK_THROWS_AS(open(folder.file("x") + "?journal_mode=memory"), InvalidInput);
  CHECK_THROWS_AS(open(folder.file("x") + "?synchronous=sometimes"), InvalidInput);
  CHECK_THROWS_WITH(open(folder.file("")), Contains("is a directory"));
  auto missing = open(folder.file("missing.db"));
  CHECK(missing->installed_version() == 0);
  CHECK_THROWS_AS(run(*missing, "SELECT 1"), Unavailable);
  CHECK_THROWS_WITH(read(*missing, "SELECT 1"), Contains("termgate init"));
  CHECK_FALSE(std::filesystem::exists(folder.file("missing.db")));
  CHECK_THROWS_AS(open(folder.file("no/such/folder.db"))->install(), Unavailable);
  {
    std::ofstream text(folder.file("text.db"));
    for (int line = 0; line < 200; ++line)
      text << "this is no database, it only looks like one to nobody\n";
  }
  const auto size = std::filesystem::file_size(folder.file("text.db"));
  CHECK_THROWS_WITH(open(folder.file("text.db"))->install(),
                    Contains("text.db") && Contains("not a database"));
  CHECK(std::filesystem::file_size(folder.file("text.db")) == size);
}

TEST_CASE("open: a new file becomes WAL and an existing one keeps its mode", "[sqlite]") {
  Folder folder;
  const auto mode = [&](const std::string& options) {
    auto driver = installed(folder.file() + options);
    return read_text(*driver, "PRAGMA journal_mode");
  };
  SECTION("new") { CHECK(mode("") == "wal"); }
  SECTION("existing") {
    Db(folder.file(), false).must("PRAGMA journal_mode = truncate; CREATE TABLE t (x)");
    CHECK(mode("") == "delete");  // TRUNCATE is a connection's own way of the rollback journal
    CHECK(mode("?journal_mode=wal") == "wal");
    CHECK(mode("") == "wal");
  }
  SECTION("asked for") { CHECK(mode("?journal_mode=DELETE&synchronous=EXTRA") == "delete"); }
}

TEST_CASE("open: a file that may not be written is read and not written", "[sqlite]") {
  Folder folder;
  open(folder.file() + "?journal_mode=delete")->install();
  REQUIRE(chmod(folder.file().c_str(), 0444) == 0);
  REQUIRE(chmod(std::filesystem::path(folder.file()).parent_path().c_str(), 0555) == 0);
  // Root may write any file, so the case runs in a child that is nobody in particular.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int status = 0;
    try {
      if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
      auto driver = open(folder.file());
      if (read_int(*driver, "SELECT count(*) FROM termgate_fences") != 0) status |= 1;
      try {
        run(*driver, "SELECT termgate_seal('a', 1)");
        status |= 2;
      } catch (const DatabaseError& error) {
        const std::string said = error.what();
        if (said.find("readonly") == std::string::npos ||
            said.find(folder.file() + ": ") == std::string::npos)
          status |= 4;
        if (said.find("needs to write to the file") == std::string::npos) status |= 16;
      }
    } catch (const std::exception&) { status |= 8; }
    _exit(status);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  chmod(std::filesystem::path(folder.file()).parent_path().c_str(), 0755);
}

TEST_CASE("reading: another's exclusive lock is named", "[F4][sqlite][issue-2]") {
  Folder folder;
  const std::string url = folder.file() + "?journal_mode=delete";
  const auto quick = [&] {
    return detail::open_sqlite(url, {.connections_max = 4, .check_wait = 50ms});
  };
  auto driver = quick();
  driver->install();
  CHECK(read_int(*driver, "SELECT count(*) FROM termgate_fences") == 0);
  Db other(folder.file());
  other.must("BEGIN EXCLUSIVE");
  const auto names = Contains("TG006 blocked: another connection of this process");
  CHECK_THROWS_WITH(read(*driver, "SELECT count(*) FROM termgate_fences"), names);
  CHECK_THROWS_WITH(read(*quick(), "SELECT count(*) FROM termgate_fences"), names);
  CHECK_THROWS_WITH(run(*quick(), "SELECT termgate_seal('a', 1)"), names);
  other.must("COMMIT");
  run(*driver, "SELECT termgate_seal('a', 1)");
}

TEST_CASE("statement: DDL has changed no rows", "[sqlite][issue-2]") {
  auto driver = installed(":memory:");
  driver->transact({}, [&](detail::OpenTransaction& session) {
    session.execute("SELECT termgate_claim_write('a', 1, '0a1b2c3d-0000-4000-8000-00000000000a')",
                    {});
    CHECK(session.execute("CREATE TABLE t (x)", {}).affected == 0);
    CHECK(session.execute("INSERT INTO t VALUES (1), (2)", {}).affected == 2);
    CHECK(session.execute("CREATE INDEX t_x ON t (x)", {}).affected == 0);
    CHECK(session.execute("UPDATE t SET x = 3 WHERE x > 5", {}).affected == 0);
    CHECK(session.execute("DELETE FROM t", {}).affected == 2);
  });
}

// A plan that is kept is that of a schema which is gone, and SQLite reads freed memory for some of
// them.
TEST_CASE("statement: EXPLAIN and PRAGMA answer from the schema as it is", "[F7][sqlite]") {
  Folder folder;
  auto driver = installed(folder.file());
  run(*driver, "CREATE TABLE t (id INTEGER PRIMARY KEY, v)");
  Db other(folder.file());
  const auto plan = [&] {
    return read(*driver, "EXPLAIN QUERY PLAN SELECT * FROM t WHERE v = 1").one()[3].as_text();
  };
  const auto indexes = [&] { return read(*driver, "PRAGMA index_list('t')").rows.size(); };
  for (int again = 0; again < 20; ++again) {
    CHECK_THAT(plan(), !Contains("by_v"));
    CHECK(read(*driver, "EXPLAIN DELETE FROM t").rows.size() > 3);
    CHECK(indexes() == 0);
    other.must("CREATE INDEX by_v ON t (v)");
    CHECK_THAT(plan(), Contains("by_v"));
    CHECK(read(*driver, "EXPLAIN DELETE FROM t").rows.size() > 3);
    CHECK(indexes() == 1);
    other.must("DROP INDEX by_v");
  }
}

TEST_CASE("open: a database without layer 1 says so once", "[sqlite][issue-2]") {
  Folder folder;
  Db(folder.file(), false).must("CREATE TABLE t (x)");
  auto driver = open(folder.file());
  std::string said;
  try {
    run(*driver, "SELECT termgate_seal('a', 1)");
  } catch (const Error& error) { said = error.what(); }
  CHECK_THAT(said, Contains("Termgate is not installed"));
  CHECK(said.find("not installed") == said.rfind("not installed"));
}

TEST_CASE("statement: parameters go by number and values come back as they were", "[sqlite]") {
  auto driver = installed(":memory:");
  const Rows rows = read(*driver, "SELECT $2, $1, $1 /* $9 */, '$3', $3, $4, $5, $6",
                         {Value("first"), Value(std::int64_t{1} << 62), Value(), Value(2.5),
                          Value(Bytes{std::string("\0\xff", 2)}), Value(std::string("a\0b", 3))});
  const Row& row = rows.one();
  CHECK(row[0].as_int() == std::int64_t{1} << 62);
  CHECK(row[1].as_text() == "first");
  CHECK(row[2].as_text() == "first");
  CHECK(row[3].as_text() == "$3");
  CHECK(row[4].is_null());
  CHECK(std::get<double>(row[5].variant()) == 2.5);
  CHECK(std::get<Bytes>(row[6].variant()).data == std::string("\0\xff", 2));
  CHECK(row[7].as_text() == std::string("a\0b", 3));
  CHECK_THROWS_AS(read(*driver, "SELECT $2", {Value(1)}), InvalidInput);
  CHECK_THROWS_AS(read(*driver, "SELECT :name", {Value(1)}), InvalidInput);
  CHECK_THROWS_AS(read(*driver, ""), InvalidInput);
  CHECK_THROWS_AS(read(*driver, "-- nothing"), InvalidInput);
  CHECK_THROWS_AS(read(*driver, "SELECT 1; SELECT 2"), InvalidInput);
  CHECK(read_int(*driver, "SELECT 1 ; -- the end\n /* really */ ;") == 1);
  CHECK(read_text(*driver, "SELECT $1", {Value(std::string(1 << 20, 'x'))}).size() == 1 << 20);
}

TEST_CASE("statement: an empty payload is empty and not NULL", "[sqlite]") {
  auto driver = installed(":memory:");
  CHECK(run_int(*driver, sql::Call::append,
                {Value("s"), Value(1), Value(Bytes{}), Value(), Value(), Value()}) == 1);
  CHECK(run_int(*driver, sql::Call::append_many,
                {Value("s"), Value(1), Value(BytesArray{"", "x"}), Value(), Value(), Value()}) ==
        3);
  CHECK(
      read_text(
          *driver,
          "SELECT group_concat(typeof(payload) || length(payload)) FROM termgate_stream_writes") ==
      "blob0,blob0,blob1");
}

TEST_CASE("statement: cannot end the transaction or change the connection", "[F5][sqlite]") {
  auto driver = installed(":memory:");
  run(*driver, "CREATE TABLE t (x)");
  for (const char* statement :
       {"COMMIT", "END", "ROLLBACK", "BEGIN", "begin immediate", "SAVEPOINT termgate_member",
        "RELEASE termgate_member", "RELEASE Termgate_Member", "ROLLBACK TO \"TERMGATE_MEMBER\"",
        "ATTACH ':memory:' AS other", "PRAGMA synchronous = OFF", "PRAGMA query_only = 1",
        "PRAGMA journal_mode = DELETE", "PRAGMA writable_schema = ON", "PRAGMA foreign_keys = OFF",
        "PRAGMA defer_foreign_keys = ON", "PRAGMA recursive_triggers(0)"}) {
    INFO(statement);
    CHECK_THROWS_AS(driver->transact({},
                                     [&](detail::OpenTransaction& session) {
                                       session.execute("INSERT INTO t VALUES (1)", {});
                                       session.execute(statement, {});
                                     }),
                    InvalidInput);
  }
  CHECK(read_int(*driver, "SELECT count(*) FROM t") == 0);
  CHECK(read(*driver, "PRAGMA table_info(t)").rows.size() == 1);
  CHECK_THROWS_AS(read(*driver, "VACUUM"), Error);
}

TEST_CASE("statement: the same text prepared again after the schema changed is right", "[sqlite]") {
  auto driver = installed(":memory:");
  run(*driver, "CREATE TABLE t (a)");
  run(*driver, "INSERT INTO t VALUES (1)");
  CHECK(read(*driver, "SELECT * FROM t").one().size() == 1);
  run(*driver, "ALTER TABLE t ADD COLUMN b DEFAULT 2");
  const Rows rows = read(*driver, "SELECT * FROM t");
  CHECK(rows.one().size() == 2);
  CHECK(rows.columns == std::vector<std::string>{"a", "b"});
}

TEST_CASE("reading: cannot write by any way round", "[F6][sqlite]") {
  Folder folder;
  for (const std::string& where : {std::string(":memory:"), folder.file()}) {
    INFO(where);
    auto driver = installed(where);
    run(*driver, "CREATE TABLE t (x)");
    for (const char* statement :
         {"INSERT INTO t VALUES (1)", "CREATE TABLE u (x)", "SELECT termgate_seal('a', 9)",
          "PRAGMA user_version = 7", "COMMIT", "PRAGMA query_only = OFF",
          "SELECT termgate_declare_untrusted('me', 'why')"}) {
      INFO(statement);
      CHECK_THROWS_AS(read(*driver, statement), Error);
    }
    CHECK(read_int(*driver, "SELECT count(*) FROM t") == 0);
    CHECK(read_int(*driver, "SELECT count(*) FROM termgate_fences") == 0);
    CHECK(run(*driver, "INSERT INTO t VALUES (1)").affected == 1);
  }
}

TEST_CASE("transaction: one that is given up leaves nothing and raises no error", "[sqlite]") {
  Folder folder;
  for (const std::string& where : {std::string(":memory:"), folder.file()}) {
    auto driver = installed(where);
    run(*driver, "CREATE TABLE t (x)");
    driver->transact({}, [&](detail::OpenTransaction& session) {
      session.execute("INSERT INTO t VALUES (1)", {});
      session.give_up();
    });
    CHECK(read_int(*driver, "SELECT count(*) FROM t") == 0);
    run(*driver, "INSERT INTO t VALUES (2)");
    CHECK(read_int(*driver, "SELECT count(*) FROM t") == 1);
  }
}

TEST_CASE("reading: goes on beside an open write and sees none of it", "[sqlite]") {
  Folder folder;
  auto driver = installed(folder.file());
  run(*driver, "CREATE TABLE t (x)");
  driver->transact({}, [&](detail::OpenTransaction& session) {
    session.execute("INSERT INTO t VALUES (1)", {});
    std::int64_t seen = -1;
    std::thread reader([&] { seen = read_int(*driver, "SELECT count(*) FROM t"); });
    reader.join();
    CHECK(seen == 0);
  });
  CHECK(read_int(*driver, "SELECT count(*) FROM t") == 1);
}

TEST_CASE("reading: several statements see one state", "[sqlite]") {
  Folder folder;
  auto driver = installed(folder.file());
  run(*driver, "CREATE TABLE t (x)");
  driver->transact(detail::TransactOptions{.read_only = true, .timeout = std::nullopt},
                   [&](detail::OpenTransaction& session) {
                     CHECK(session.execute("SELECT count(*) FROM t", {}).one()[0].as_int() == 0);
                     std::thread([&] { run(*driver, "INSERT INTO t VALUES (1)"); }).join();
                     CHECK(session.execute("SELECT count(*) FROM t", {}).one()[0].as_int() == 0);
                   });
}

TEST_CASE("nesting: a call from inside a callback is refused and not waited for", "[sqlite]") {
  Folder folder;
  for (const std::string& where : {std::string(":memory:"), folder.file()}) {
    auto driver = installed(where);
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(
        driver->transact({}, [&](detail::OpenTransaction&) { run(*driver, "SELECT 1"); }),
        Catch::StartsWith("TG005"));
    CHECK_THROWS_AS(
        driver->transact({}, [&](detail::OpenTransaction&) { read(*driver, "SELECT 1"); }),
        InvalidInput);
    CHECK_THROWS_AS(
        driver->transact(detail::TransactOptions{.read_only = true, .timeout = std::nullopt},
                         [&](detail::OpenTransaction&) {
                           driver->transact({}, [](detail::OpenTransaction&) {});
                         }),
        InvalidInput);
    CHECK(std::chrono::steady_clock::now() - start < 1s);
    // Another database from inside a callback is another matter.
    auto other = installed(":memory:");
    driver->transact({},
                     [&](detail::OpenTransaction&) { CHECK(run_int(*other, "SELECT 1") == 1); });
  }
}

TEST_CASE("known fence: is forgotten as soon as anything may have changed it", "[F1][F2][sqlite]") {
  Folder folder;
  auto driver = installed(folder.file());
  const auto check = [&](int term) {
    return run_int(*driver, sql::Call::check_term, {Value("s"), Value(term)});
  };
  const auto write = [&](int term) {
    driver->transact({}, [&](detail::OpenTransaction& session) {
      const Value values[] = {Value("s"), Value(term)};
      session.call(sql::Call::check_term, values);
    });
  };
  for (int again = 0; again < 3; ++again) write(5);
  SECTION("another connection seals") {
    Db other(folder.file());
    other.must("SELECT termgate_seal('s', 6)");
    CHECK_THROWS_AS(write(5), StaleTerm);
    other.must("SELECT termgate_declare_untrusted('ops', 'copied back')");
    CHECK_THROWS_AS(write(6), FenceUntrusted);
  }
  SECTION("another connection writes something else") {
    Db(folder.file()).must("CREATE TABLE other (x)");
    write(5);
    CHECK(check(6) == 6);
    CHECK_THROWS_AS(write(5), StaleTerm);
  }
  SECTION("a raise of our own") {
    CHECK(check(7) == 7);
    CHECK_THROWS_AS(write(5), StaleTerm);
  }
  SECTION("a raise of our own that is undone") {
    struct Undone {};
    CHECK_THROWS_AS(driver->transact({},
                                     [&](detail::OpenTransaction& session) {
                                       const Value values[] = {Value("s"), Value(9)};
                                       session.call(sql::Call::check_term, values);
                                       throw Undone{};
                                     }),
                    Undone);
    write(5);
  }
  SECTION("a raise that a savepoint undoes") {
    driver->transact({}, [&](detail::OpenTransaction& session) {
      const Value nine[] = {Value("s"), Value(9)};
      const Value five[] = {Value("s"), Value(5)};
      session.execute("SAVEPOINT one", {});
      session.call(sql::Call::check_term, nine);
      session.execute("ROLLBACK TO one", {});
      CHECK(session.call(sql::Call::check_term, five).one()[0].as_int() == 5);
    });
    write(5);
  }
  SECTION("what may be raised and by whom") {
    run(*driver, "SELECT termgate_set_raise_by('s', 'seal')");
    CHECK_THROWS_AS(write(6), InvalidInput);
    run(*driver, "SELECT termgate_declare_untrusted('me', 'test')");
    CHECK_THROWS_AS(write(5), FenceUntrusted);
  }
  SECTION("layer 1 taken away and put back") {
    driver->uninstall();
    driver->install();
    CHECK(check(1) == 1);
  }
}

// What raises a fence is not always a check: a seal and an adopted row do too, and each of them may
// stand behind a savepoint.
TEST_CASE("savepoint: what undoes a raise undoes the pass that rested on it",
          "[F1][F2][sqlite][issue-2]") {
  Folder folder;
  auto driver = installed(folder.file());
  run(*driver, "CREATE TABLE t (scope TEXT, v)");
  run(*driver, "CREATE TABLE adopted (scope TEXT, term INTEGER)");
  run(*driver, "CREATE INDEX adopted_scope_term ON adopted (scope, term)");
  run(*driver, "SELECT termgate_protect('t', NULL, 'x')");
  run(*driver, "SELECT termgate_adopt('adopted', 'scope', 'term')");
  run(*driver, "SELECT termgate_seal('x', 5)");
  const auto check = [&](detail::OpenTransaction& session, const char* scope, int term) {
    const Value values[] = {Value(scope), Value(term)};
    session.call(sql::Call::check_term, values);
  };
  for (const char* raise :
       {"SELECT termgate_seal('x', 9)", "INSERT INTO adopted VALUES ('x', 9)"}) {
    INFO(raise);
    driver->transact({}, [&](detail::OpenTransaction& session) {
      check(session, "A", 1);
      session.execute("SAVEPOINT s", {});
      session.execute(raise, {});
      check(session, "x", 9);
      session.execute("INSERT INTO t VALUES ('x', 'by 9')", {});
      session.execute("ROLLBACK TO s", {});
      CHECK_THROWS_AS(session.execute("INSERT INTO t VALUES ('x', 'by 9, which is undone')", {}),
                      TermRequired);
      CHECK_THROWS_WITH(session.execute("SELECT termgate_append('st', 4, 'x', NULL, 'x')", {}),
                        Contains("the fence stands at 5"));
    });
    CHECK(read_int(*driver, "SELECT term FROM termgate_fences WHERE scope = 'x'") == 5);
    // Nor is the 9 remembered beyond the commit.
    driver->transact({}, [&](detail::OpenTransaction& session) {
      check(session, "x", 5);
      session.execute("INSERT INTO t VALUES ('x', 'by 5')", {});
    });
  }
  CHECK(read_text(*driver, "SELECT group_concat(DISTINCT v) FROM t") == "by 5");
  // The way down and to trust again counts as much as the way up.
  driver->transact({}, [&](detail::OpenTransaction& session) {
    session.execute("SAVEPOINT s", {});
    session.execute("SELECT termgate_reset_fence('x', 3, 'me', 'a test')", {});
    check(session, "x", 3);
    session.execute("ROLLBACK TO s", {});
    CHECK_THROWS_AS(session.execute("INSERT INTO t VALUES ('x', 'by 3')", {}), TermRequired);
    CHECK_THROWS_AS(check(session, "x", 3), StaleTerm);
  });
  run(*driver, "SELECT termgate_declare_untrusted('me', 'a test')");
  driver->transact({}, [&](detail::OpenTransaction& session) {
    session.execute("SAVEPOINT s", {});
    session.execute("SELECT termgate_declare_nothing_lost('me', 'a test')", {});
    check(session, "x", 5);
    session.execute("ROLLBACK TO s", {});
    CHECK_THROWS_AS(session.execute("INSERT INTO t VALUES ('x', 'untrusted')", {}), Error);
    CHECK_THROWS_AS(check(session, "x", 5), FenceUntrusted);
  });
}

// One transaction's random walk over savepoints, beside a model that keeps a copy for each. A pass
// that raised nothing may outlive a ROLLBACK TO; it must still be the fence's term that writes.
// Long: one walk.
TEST_CASE("savepoint: random walks never write below or above the fence",
          "[F1][F2][sqlite][issue-2]") {
  CAPTURE(Catch::rngSeed());
  std::mt19937 random(Catch::rngSeed());
  auto driver = installed(":memory:");
  run(*driver, "CREATE TABLE t (scope TEXT)");
  run(*driver, "CREATE TABLE adopted (scope TEXT, term INTEGER)");
  run(*driver, "CREATE INDEX adopted_scope_term ON adopted (scope, term)");
  run(*driver, "SELECT termgate_protect('t', 'scope')");
  run(*driver, "SELECT termgate_adopt('adopted', 'scope', 'term')");
  struct State {
    std::int64_t fence = 0;
    std::int64_t passed = 0;  // 0: not
    bool surely = true;
  };
  int written = 0;
  for (int walk = 0; walk < 1500; ++walk) {
    const std::string scope = "w" + std::to_string(walk);
    State now;
    std::string log;
    driver->transact({}, [&](detail::OpenTransaction& session) {
      std::vector<State> saved;
      const auto tried = [&](const std::string& sql) {
        log += sql + "; ";
        try {
          session.execute(sql, {});
          return true;
        } catch (const Error& error) {
          log += "-> " + std::string(error.what()) + "; ";
          return false;
        }
      };
      const int steps = 4 + static_cast<int>(random() % 16);
      for (int step = 0; step < steps; ++step) {
        const std::int64_t term =
            std::max<std::int64_t>(1, now.fence - 1 + static_cast<std::int64_t>(random() % 3));
        const std::string words = "'" + scope + "', " + std::to_string(term) + ")";
        switch (random() % 8) {
          case 0:
            if (tried("SELECT termgate_seal(" + words)) now.fence = std::max(now.fence, term);
            break;
          case 1:
            if (tried("INSERT INTO adopted VALUES (" + words))
              now.fence = std::max(now.fence, term);
            break;
          case 2:
          case 3:
            if (tried("SELECT termgate_check_term(" + words)) {
              INFO(log);
              REQUIRE(term >= now.fence);
              if (now.passed != 0 && now.surely) REQUIRE(term == now.passed);
              now = {term, term, true};
            } else if (now.passed == 0) {
              INFO(log);
              REQUIRE(term < now.fence);
            }
            break;
          case 4:
          case 5:
            if (tried("INSERT INTO t VALUES ('" + scope + "')")) {
              INFO(log);
              REQUIRE(now.passed == now.fence);
              ++written;
            } else if (now.surely) {
              INFO(log);
              REQUIRE(now.passed < std::max<std::int64_t>(now.fence, 1));
            }
            break;
          case 6:
            tried("SAVEPOINT s" + std::to_string(saved.size()));
            saved.push_back(now);
            break;
          default:
            if (!saved.empty()) {
              const std::size_t to = random() % saved.size();
              if (random() % 4 == 0) {
                tried("RELEASE s" + std::to_string(to));
                saved.resize(to);
                break;
              }
              tried("ROLLBACK TO s" + std::to_string(to));
              const State then = saved[to];
              saved.resize(to + 1);
              if (now.passed != then.passed || now.surely != then.surely)
                now = {then.fence, now.passed, false};
              now.fence = then.fence;
            }
        }
      }
    });
    INFO(log);
    // What the connection remembers is what is stored: a raise below it is refused, the fence
    // itself passes.
    if (now.fence == 0) continue;
    CHECK(run_int(*driver, "SELECT termgate_check_term($1, $2)",
                  {Value(scope), Value(now.fence)}) == now.fence);
    if (now.fence > 1)
      CHECK_THROWS_AS(run(*driver, sql::Call::check_term, {Value(scope), Value(now.fence - 1)}),
                      StaleTerm);
    CHECK(read_int(*driver, "SELECT term FROM termgate_fences WHERE scope = $1", {Value(scope)}) ==
          now.fence);
  }
  CHECK(written > 100);
}

TEST_CASE("transaction: that begins with a raise is flushed on a forgetful connection",
          "[F3][F5][sqlite][issue-2]") {
  Folder folder;
  auto driver = installed(folder.file() + "?synchronous=normal");
  run(*driver, "CREATE TABLE t (x)");
  const Value claim[] = {Value("fresh"), Value(3), Value("0a1b2c3d-0000-4000-8000-00000000000a")};
  const auto claimed = [&] {
    bool fresh = false;
    int calls = 0;
    driver->transact({}, [&](detail::OpenTransaction& session) {
      ++calls;
      fresh = session.call(sql::Call::claim_write, claim).one()[0].as_bool();
      if (fresh) session.execute("INSERT INTO t VALUES (1)", {});
      CHECK(session.execute("PRAGMA synchronous", {}).one()[0].as_int() == (fresh ? 3 : 1));
    });
    CHECK(calls == 1);
    return fresh;
  };
  CHECK(claimed());
  CHECK_FALSE(claimed());
  driver->transact({}, [&](detail::OpenTransaction& session) {
    const Value four[] = {Value("fresh"), Value(4)};
    CHECK(session.call(sql::Call::check_term, four).one()[0].as_int() == 4);
    // Flushed as it is by now, it may raise on.
    const Value other[] = {Value("other"), Value(4)};
    session.call(sql::Call::check_term, other);
  });
  // What went before cannot be run again, so a later raise is refused and says what to do.
  CHECK_THROWS_WITH(driver->transact({},
                                     [&](detail::OpenTransaction& session) {
                                       session.execute("INSERT INTO t VALUES (2)", {});
                                       const Value nine[] = {Value("fresh"), Value(9)};
                                       session.call(sql::Call::check_term, nine);
                                     }),
                    Catch::StartsWith("TG005") && Contains("synchronous"));
  CHECK(read_text(*driver, "SELECT group_concat(x) FROM t") == "1");
  CHECK(run_int(*driver, "PRAGMA synchronous") == 1);
}

TEST_CASE("grant: SQLite has no roles and says so", "[sqlite]") {
  auto driver = open(":memory:");
  CHECK_THROWS_AS(driver->grant("app", "write"), InvalidInput);
}

TEST_CASE("full disk: what does not fit is refused and what was acknowledged stays",
          "[F5][sqlite]") {
  Folder folder;
  auto driver = installed(folder.file());
  run(*driver, "CREATE TABLE t (x)");
  // A limit on the size of files stands for the full disk; the signal that comes with it is no part
  // of it.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  rlimit small = old;
  small.rlim_cur = 1'000'000;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  int acknowledged = 0;
  std::string refusal;
  for (int attempt = 0; attempt < 200 && refusal.empty(); ++attempt) {
    try {
      run(*driver, "INSERT INTO t VALUES (zeroblob(50000))");
      ++acknowledged;
    } catch (const Unavailable& error) { refusal = error.what(); }
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
  std::signal(SIGXFSZ, before);
  CHECK_THAT(refusal, Contains("nothing was written"));
  CHECK(acknowledged > 0);
  CHECK(read_int(*driver, "SELECT count(*) FROM t") == acknowledged);
  run(*driver, "INSERT INTO t VALUES ('room again')");
  CHECK(read_text(*driver, "PRAGMA integrity_check") == "ok");
}

// Long: the table of all calls.
TEST_CASE("calls: every one prepares with the parameters that sql/README.md gives it", "[sqlite]") {
  auto driver = installed(":memory:");
  const sql::Calls& calls = sql::sqlite_calls();
  struct Case {
    std::string_view sql;
    int parameters;
    std::string columns;
  };
  const std::string lease =
      "scope owner_id term expires_at_ms acquired_at_ms renewed_at_ms released_at_ms endpoint "
      "remaining_ms";
  const std::string fence = "scope term raised_at_ms raised_by raise_by untrusted reset_from";
  for (const Case& row : {
           Case{calls[sql::Call::check_term], 2, "fence"},
           Case{calls[sql::Call::seal], 3, "fence previous evicted sealed_at_ms"},
           Case{calls[sql::Call::seal_with_reason], 5, "fence previous evicted sealed_at_ms"},
           Case{calls[sql::Call::append], 6, "sequence_no"},
           Case{calls[sql::Call::append_many], 6, "sequence_no"},
           Case{calls[sql::Call::claim_write], 3, "fresh fence"},
           Case{calls[sql::Call::outcome], 1, "scope term stream sequence_no created_at_ms"},
           Case{calls[sql::Call::acquire_lease], 5,
                "acquired term expires_at_ms owner_id remaining_ms"},
           Case{calls[sql::Call::renew_lease], 4, "renewed expires_at_ms remaining_ms leave_in_ms"},
           Case{calls[sql::Call::renew_leases], 1, "outcome leave_in_ms"},
           Case{calls[sql::Call::require_lease], 2, "expires_at_ms"},
           Case{calls[sql::Call::request_hand_over], 5, "requested owner_id term leave_before_ms"},
           Case{calls[sql::Call::hand_overs], 2,
                "scope owner_id term successor requested_by reason requested_at_ms leave_before_ms "
                "left_at_ms next_owner next_term taken_at_ms gap_ms state"},
           Case{calls[sql::Call::release_lease], 3, "released"},
           Case{calls[sql::Call::force_release], 3, "released"},
           Case{calls[sql::Call::lease], 1, lease},
           Case{calls[sql::Call::leases], 2, lease},
           Case{calls[sql::Call::fence], 1, fence},
           Case{calls[sql::Call::fences], 2, fence},
           Case{calls[sql::Call::reset_fence], 4, "previous"},
           Case{calls[sql::Call::declare_restored], 4, "fence"},
           Case{calls[sql::Call::declare_nothing_lost], 2, "scopes"},
           Case{calls[sql::Call::declare_untrusted], 2, "scopes"},
           Case{calls[sql::Call::set_raise_by], 2, "raise_by"},
           Case{calls[sql::Call::read_stream], 4,
                "sequence_no scope term payload created_at_ms write_id payload_bytes"},
           Case{calls[sql::Call::read_payload], 4, "part"},
           Case{calls[sql::Call::stream], 1, "scope last_no first_no created_at_ms"},
           Case{calls[sql::Call::streams], 2, "stream scope last_no created_at_ms"},
           Case{calls[sql::Call::stream_move], 4, "moved"},
           Case{calls[sql::Call::prune], 2, "pruned"},
           Case{calls[sql::Call::prune_history], 1, "pruned"},
           Case{calls[sql::Call::protect], 5, "protected"},
           Case{calls[sql::Call::unprotect], 1, "unprotected"},
           Case{calls[sql::Call::adopt], 4, "scopes"},
           Case{calls[sql::Call::unadopt], 1, "unadopted"},
           Case{calls[sql::Call::doctor], 0, "severity object problem remedy"},
           Case{calls[sql::Call::verify], 1, "kind scope object detail"},
           Case{calls[sql::Call::settings], 0, "name value what"},
           Case{calls[sql::Call::set_setting], 2, "name value"},
           Case{calls[sql::Call::audit], 3, "id at_ms actor client action scope detail"},
           Case{calls[sql::Call::explain], 2, "at_ms actor client action detail"},
           Case{calls[sql::Call::record_refusal], 6, "recorded"},
           Case{calls[sql::Call::refusal_counts], 0, "code count"},
           Case{calls[sql::Call::job_start], 5, "run_id"},
           Case{calls[sql::Call::job_request], 5, "requested run_id"},
           Case{calls[sql::Call::job_take], 4, "run_id kind"},
           Case{calls[sql::Call::job_heartbeat], 2, "beaten"},
           Case{calls[sql::Call::job_heartbeat_renew], 3, "beaten renewed remaining_ms"},
           Case{calls[sql::Call::job_finish], 5, "finished"},
           Case{calls[sql::Call::follower_start], 4, "run"},
           Case{calls[sql::Call::follower_behind], 2, "run stream position last_no behind"},
           Case{calls[sql::Call::follower_advance], 5, "outcome"},
           Case{calls[sql::Call::follower_remove], 1, "removed"},
           Case{calls[sql::Call::followers], 2,
                "name stream scope run started_at_ms started_by behind behind_ms moved_at_ms"},
           Case{calls[sql::Call::jobs], 5,
                "run_id job_name scope owner_id term started_at_ms completed_at_ms status "
                "last_heartbeat_ms exit_code checkpoint detail request now_ms"},
       }) {
    INFO(row.sql);
    Installed db;
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(db.handle(), row.sql.data(), static_cast<int>(row.sql.size()),
                               &statement, nullptr) == SQLITE_OK);
    CHECK(sqlite3_bind_parameter_count(statement) == row.parameters);
    std::string columns;
    for (int at = 0; at < sqlite3_column_count(statement); ++at)
      columns += (at == 0 ? "" : " ") + std::string(sqlite3_column_name(statement, at));
    CHECK(columns == row.columns);
    sqlite3_finalize(statement);
  }
}

TEST_CASE("jobs: an open run whose lease is over is shown as lost and may still finish",
          "[sqlite]") {
  Folder folder;
  auto driver = installed(folder.file());
  run(*driver, "SELECT termgate_acquire_lease('s', 'me', 100)");
  const std::string id =
      run(*driver, "SELECT termgate_job_start('Y', 's', 'me', 1)").rows[0][0].as_text();
  run(*driver, "SELECT termgate_job_start('Z', 'without a lease', 'me', 1)");
  const auto status = [&](const char* job) {
    return read(*driver, sql::Call::jobs, {Value(job), Value(), Value(), Value(10), Value()})
        .rows[0][7]
        .as_text();
  };
  CHECK(status("Y") == "started");
  std::this_thread::sleep_for(150ms);
  CHECK(status("Y") == "lost");
  CHECK(status("Z") == "started");
  CHECK(run(*driver, sql::Call::job_finish,
            {Value(id), Value("completed"), Value(0), Value(), Value()})
            .rows[0][0]
            .as_int() == 1);
  CHECK(status("Y") == "completed");
}

TEST_CASE("statements: what is Termgate's own is neither dropped nor altered by the application",
          "[sqlite]") {
  Folder folder;
  auto driver = installed(folder.file());
  run(*driver, "CREATE TABLE t (v)");
  run(*driver, "SELECT termgate_protect('t', NULL, 's')");
  for (const char* sql :
       {"DROP TABLE termgate_fences", "DROP TABLE main.Termgate_Fences",
        "ALTER TABLE termgate_fences RENAME TO other", "DROP TRIGGER termgate_fences_update",
        "DROP TRIGGER termgate_protect_insert_t",
        "CREATE TRIGGER mine BEFORE UPDATE ON termgate_fences BEGIN SELECT RAISE(IGNORE); END",
        "DROP TABLE termgate_here", "DROP INDEX termgate_audit_at"}) {
    INFO(sql);
    CHECK_THROWS_AS(run(*driver, sql), InvalidInput);
  }
  run(*driver, "CREATE TABLE termgate_users_own (v)");
  run(*driver, "DROP TABLE termgate_users_own");
}
