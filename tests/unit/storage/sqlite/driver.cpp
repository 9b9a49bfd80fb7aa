// The port's promises on SQLite: what may be opened, what a statement may do, how values travel,
// who may read while somebody writes.
#include <sys/resource.h>
#include <sys/stat.h>

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

std::int64_t read_int(detail::Driver& driver, std::string_view sql,
                      std::vector<Value> values = {}) {
  return read(driver, sql, std::move(values)).one()[0].as_int();
}
std::string read_text(detail::Driver& driver, std::string_view sql,
                      std::vector<Value> values = {}) {
  return read(driver, sql, std::move(values)).one()[0].as_text();
}
template <class What>
std::int64_t run_int(detail::Driver& driver, What what, std::vector<Value> values = {}) {
  return run(driver, what, std::move(values)).one()[0].as_int();
}

struct OnFile {
  Folder folder;
  std::unique_ptr<detail::Driver> driver = installed(folder.file());
};

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
  const std::string said = in_child([&]() -> std::string {
    if (geteuid() == 0 && setuid(65534) != 0) return "cannot";
    auto driver = open(folder.file());
    const auto fences = read_int(*driver, "SELECT count(*) FROM termgate_fences");
    try {
      run(*driver, "SELECT termgate_seal('a', 1)");
    } catch (const DatabaseError& error) { return std::to_string(fences) + " " + error.what(); }
    return "written";
  });
  CHECK_THAT(said, Catch::StartsWith("0 ") && Contains("readonly") &&
                       Contains(folder.file() + ": ") && Contains("needs to write to the file"));
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
TEST_CASE_METHOD(OnFile, "statement: EXPLAIN and PRAGMA answer from the schema as it is",
                 "[F7][sqlite]") {
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

TEST_CASE_METHOD(OnFile, "reading: goes on beside an open write and sees none of it", "[sqlite]") {
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

TEST_CASE_METHOD(OnFile, "reading: several statements see one state", "[sqlite]") {
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

TEST_CASE_METHOD(OnFile, "known fence: is forgotten as soon as anything may have changed it",
                 "[F1][F2][sqlite]") {
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

// Raises that are undone are the random walk's, below.
TEST_CASE_METHOD(
    OnFile, "savepoint: what undoes a reset or a word of trust undoes the pass that rested on it",
    "[F1][F2][sqlite][issue-2]") {
  run(*driver, "CREATE TABLE t (scope TEXT, v)");
  run(*driver, "SELECT termgate_protect('t', NULL, 'x')");
  run(*driver, "SELECT termgate_seal('x', 5)");
  const auto check = [&](detail::OpenTransaction& session, const char* scope, int term) {
    const Value values[] = {Value(scope), Value(term)};
    session.call(sql::Call::check_term, values);
  };
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

TEST_CASE_METHOD(OnFile, "full disk: what does not fit is refused and what was acknowledged stays",
                 "[F5][sqlite]") {
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
