// Group commit: many threads, one transaction, and none of them answerable for another. The threads
// are forced into one group by a first member that does not let go before all the others wait.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <termgate/error.hpp>

#include "support.hpp"
#include <termgate/detail/sqlite/write_queue.hpp>

using namespace sqlite_test;
using namespace termgate;
using namespace std::chrono_literals;
using sqlite::Connection;
using sqlite::GroupLimits;
using sqlite::OpenAs;
using sqlite::WriteQueue;

namespace {

struct Fixture {
  explicit Fixture(std::chrono::milliseconds wait = 5s, GroupLimits limits = {.age_max = 10s})
      : queue(connection, "full", wait, limits) {
    write([](Connection& c) {
      c.layer1().setup().install();
      c.execute("CREATE TABLE t (v UNIQUE)", {});
      c.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)", {});
      c.execute("CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED)", {});
    });
  }
  void write(const std::function<void(Connection&)>& work) { queue.run({}, work); }
  void insert(int value) { write(inserting(value)); }
  std::string rows() {
    Db reader(folder.file());
    return reader("SELECT group_concat(v) FROM (SELECT v FROM t ORDER BY v)").value();
  }

  // Runs the works as members of one group, in order; gives the error of each, "" for none. The
  // first keeps the baton until all the others wait for it.
  std::vector<std::string> together(const std::vector<std::function<void(Connection&)>>& works) {
    std::vector<std::string> errors(works.size());
    std::vector<std::thread> threads;
    std::atomic<bool> first_at_work{false};
    std::atomic<bool> all_wait{false};
    const auto run = [&](std::size_t at, const std::function<void(Connection&)>& work) {
      try {
        write(work);
      } catch (const Error& error) { errors[at] = error.what(); }
    };
    threads.emplace_back([&] {
      run(0, [&](Connection& c) {
        first_at_work = true;
        while (!all_wait) std::this_thread::yield();
        works[0](c);
      });
    });
    while (!first_at_work) std::this_thread::yield();
    for (std::size_t at = 1; at < works.size(); ++at) {
      threads.emplace_back([&, at] { run(at, works[at]); });
      while (queue.waiting() < at) std::this_thread::yield();
    }
    all_wait = true;
    for (auto& thread : threads) thread.join();
    return errors;
  }
  static std::function<void(Connection&)> inserting(int value) {
    return [value](Connection& c) {
      const Value values[] = {Value(value)};
      c.execute("INSERT INTO t VALUES ($1)", values);
    };
  }

  Folder folder;
  Connection connection{OpenAs{.path = folder.file()}, false, true};
  WriteQueue queue;
};

}  // namespace

TEST_CASE("group commit: waiting writes share one commit", "[F5][sqlite]") {
  Fixture f;
  const auto commits = f.queue.commits();
  const auto errors = f.together(
      {Fixture::inserting(1), Fixture::inserting(2), Fixture::inserting(3), Fixture::inserting(4)});
  for (const auto& error : errors) CHECK(error == "");
  CHECK(f.queue.commits() == commits + 1);
  CHECK(f.rows() == "1,2,3,4");
}

TEST_CASE("group commit: one refusal spoils no other whoever meets it", "[F5][sqlite]") {
  for (const std::vector<int>& values : {std::vector{1, 2, 3}, {2, 1, 3}, {1, 3, 2}}) {
    Fixture f;
    f.insert(2);
    const auto commits = f.queue.commits();
    const auto errors = f.together({Fixture::inserting(values[0]), Fixture::inserting(values[1]),
                                    Fixture::inserting(values[2])});
    for (std::size_t at = 0; at < values.size(); ++at)
      CHECK(errors[at] == (values[at] == 2 ? "UNIQUE constraint failed: t.v" : ""));
    CHECK(f.queue.commits() == commits + 1);
    CHECK(f.rows() == "1,2,3");
  }
}

TEST_CASE("group commit: what a stale member had written before is not there", "[F1][F5][sqlite]") {
  Fixture f;
  f.write([](Connection& c) { c.layer1().fences().seal(Scope("s"), Term(5)); });
  const auto errors = f.together({Fixture::inserting(1),
                                  [](Connection& c) {
                                    Fixture::inserting(99)(c);
                                    c.layer1().fences().check_term(Scope("s"), Term(4));
                                  },
                                  Fixture::inserting(3)});
  CHECK(errors == std::vector<std::string>{
                      "", "TG001 stale term 4 for scope \"s\": the fence stands at 5", ""});
  CHECK(f.rows() == "1,3");
}

TEST_CASE("group commit: a raise that is rolled back with its member is not there for the next",
          "[F1][F2][sqlite]") {
  Fixture f;
  const auto errors =
      f.together({Fixture::inserting(1),
                  [](Connection& c) {
                    c.layer1().fences().check_term(Scope("s"), Term(9));
                    throw InvalidInput("TG005 changed its mind");
                  },
                  [](Connection& c) { c.layer1().fences().check_term(Scope("s"), Term(5)); }});
  CHECK(errors == std::vector<std::string>{"", "TG005 changed its mind", ""});
  Db reader(f.folder.file());
  CHECK(reader("SELECT term FROM termgate_fences").value() == "5");
}

TEST_CASE("group commit: what one member passed or declared is no other's", "[F1][F6][sqlite]") {
  Fixture f;
  f.write([](Connection& c) {
    c.execute("SELECT termgate_protect('t', NULL, 's')", {});
    c.layer1().fences().seal(Scope("s"), Term(5));
  });
  const auto errors = f.together({[](Connection& c) {
                                    c.layer1().fences().check_term(Scope("s"), Term(5));
                                    Fixture::inserting(1)(c);
                                  },
                                  Fixture::inserting(2),
                                  [](Connection& c) {
                                    c.layer1().core().declare(Scope("s"), Term(5));
                                    Fixture::inserting(3)(c);
                                  },
                                  Fixture::inserting(4)});
  CHECK(errors[0] == "");
  CHECK_THAT(errors[1], Catch::StartsWith("TG002"));
  CHECK(errors[2] == "");
  CHECK_THAT(errors[3], Catch::StartsWith("TG002"));
  CHECK(f.rows() == "1,3");
}

TEST_CASE("group commit: a deferred foreign key is the fault of who left it", "[F5][sqlite]") {
  Fixture f;
  const auto errors = f.together(
      {Fixture::inserting(1), [](Connection& c) { c.execute("INSERT INTO child VALUES (77)", {}); },
       Fixture::inserting(3)});
  CHECK(errors == std::vector<std::string>{"", "FOREIGN KEY constraint failed", ""});
  CHECK(f.rows() == "1,3");
}

TEST_CASE(
    "group commit: a rollback of everything fails every member and says that nothing was written",
    "[F5][sqlite]") {
  Fixture f;
  f.insert(2);
  const auto errors =
      f.together({Fixture::inserting(1),
                  [](Connection& c) { c.execute("INSERT OR ROLLBACK INTO t VALUES (2)", {}); },
                  Fixture::inserting(3)});
  CHECK_THAT(errors[0], Catch::Contains("nothing was written"));
  CHECK_THAT(errors[1], Catch::Contains("UNIQUE"));
  CHECK(errors[2] == "");  // came after: a group of its own
  CHECK(f.rows() == "2,3");
}

TEST_CASE("group commit: a COMMIT that fails fails all of its members and the next goes on",
          "[F5][sqlite]") {
  Fixture f;
  bool refuse = true;
  sqlite3_commit_hook(
      f.connection.handle(), [](void* held) { return *static_cast<bool*>(held) ? 1 : 0; }, &refuse);
  const auto errors =
      f.together({Fixture::inserting(1), Fixture::inserting(2), Fixture::inserting(3)});
  for (const auto& error : errors) CHECK_THAT(error, Catch::Contains("nothing was written"));
  CHECK(f.rows() == "NULL");
  refuse = false;
  f.insert(4);
  CHECK(f.rows() == "4");
}

TEST_CASE("group commit: a refusal by what was never committed is not told",
          "[F2][F5][sqlite][issue-4]") {
  Fixture f;
  bool refuse = true;
  sqlite3_commit_hook(
      f.connection.handle(), [](void* held) { return *static_cast<bool*>(held) ? 1 : 0; }, &refuse);
  const auto raising = [](Connection& c) { c.layer1().fences().check_term(Scope("s"), Term(5)); };
  const auto stale = [](Connection& c) {
    c.layer1().fences().check_term(Scope("s"), Term(4));
    Fixture::inserting(1)(c);
  };
  auto errors = f.together({raising, stale, Fixture::inserting(2)});
  for (const auto& error : errors) CHECK_THAT(error, Catch::Contains("nothing was written"));
  CHECK(f.rows() == "NULL");
  refuse = false;
  errors = f.together({raising, stale, Fixture::inserting(2)});
  CHECK(errors == std::vector<std::string>{
                      "", "TG001 stale term 4 for scope \"s\": the fence stands at 5", ""});
  CHECK(f.rows() == "2");
}

TEST_CASE("group commit: a full group commits and the next begins", "[sqlite]") {
  Fixture f(5s, {.members_max = 2, .age_max = 10s});
  const auto commits = f.queue.commits();
  const auto errors =
      f.together({Fixture::inserting(1), Fixture::inserting(2), Fixture::inserting(3),
                  Fixture::inserting(4), Fixture::inserting(5)});
  for (const auto& error : errors) CHECK(error == "");
  CHECK(f.queue.commits() == commits + 3);
  CHECK(f.rows() == "1,2,3,4,5");
}

TEST_CASE("group commit: a single thread pays for no other", "[sqlite]") {
  Fixture f;
  const auto commits = f.queue.commits();
  for (int value = 0; value < 10; ++value) f.insert(value);
  CHECK(f.queue.commits() == commits + 10);
}

TEST_CASE("baton: waiting for it is bounded and names the reason", "[F4][sqlite]") {
  Fixture f(50ms);
  std::atomic<bool> at_work{false};
  std::atomic<bool> let_go{false};
  std::thread holder([&] {
    f.write([&](Connection& c) {
      Fixture::inserting(1)(c);
      at_work = true;
      while (!let_go) std::this_thread::yield();
    });
  });
  while (!at_work) std::this_thread::yield();
  CHECK_THROWS_WITH(f.insert(2), Catch::StartsWith("TG006") && Catch::Contains("another thread"));
  CHECK_THROWS_AS(f.insert(2), Blocked);
  let_go = true;
  holder.join();
  f.insert(3);
  CHECK(f.rows() == "1,3");
}

TEST_CASE("wait: another process's lock is waited for as long as the setting or the timeout says",
          "[F4][sqlite][issue-2]") {
  Folder folder;
  const auto took = [](const auto& what) {
    const auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(what(), Catch::StartsWith("TG006"));
    return std::chrono::steady_clock::now() - start;
  };
  Connection connection{OpenAs{.path = folder.file()}, false, true};
  WriteQueue queue(connection, "extra", std::nullopt);
  queue.run({}, [](Connection& c) { c.layer1().setup().install(); });
  Db other(folder.file());
  const auto nothing = [](Connection&) {};
  other.must("BEGIN IMMEDIATE");
  CHECK(took([&] { queue.run({.timeout = 100ms}, nothing); }) < 1s);
  other.must("COMMIT; SELECT termgate_set_setting('check_wait_ms', '150'); BEGIN IMMEDIATE");
  const auto by_setting = took([&] { queue.run({}, nothing); });
  CHECK(by_setting >= 150ms);
  CHECK(by_setting < 2s);
  CHECK(took([&] { queue.run({.timeout = 10s}, nothing); }) < 2s);
  other.must("COMMIT");
  queue.run({}, nothing);
}

TEST_CASE("timeout: interrupts a long statement and spoils no other", "[F5][sqlite]") {
  Fixture f;
  const auto endless = [](Connection& c) {
    Fixture::inserting(99)(c);
    c.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        {});
  };
  std::thread other([&] { f.insert(1); });
  CHECK_THROWS_WITH(f.queue.run({.timeout = 50ms}, endless),
                    Catch::Contains("timeout") && Catch::Contains("nothing was written"));
  other.join();
  f.insert(2);
  CHECK(f.rows() == "1,2");
}
