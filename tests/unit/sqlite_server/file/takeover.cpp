// Many streams on one file: takeover of a holder that is frozen in each state, group commits,
// threads.
#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "support/sqlite_file_lab.hpp"

using namespace sqlite_file_lab;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr milliseconds grace{300};

struct Table : Lab {
  explicit Table(EngineOptions options = {}) {
    outside("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE)");
    outside("SELECT termgate_seal('s', 5)");
    sqlite::Connection connection({.path = file.path}, false, false);
    connection.layer1().operations().set_setting("eviction_grace_ms",
                                                 std::to_string(grace.count()));
    engine.reset();  // one listener for a file
    engine = open(std::move(options));
  }
  std::string ids() const {
    return outside("SELECT group_concat(id) FROM (SELECT id FROM t ORDER BY id)");
  }
};

// A stream as a front keeps it: on_lost makes another thread call end().
struct Served {
  Served(const Table& lab, hrana::Permit permit)
      : stream(lab.engine, std::move(permit), {.on_lost = [this](const hrana::Lost& lost) {
                 const std::lock_guard lock(mutex);
                 if (worker.joinable()) return;
                 worker = std::thread([this, lost] {
                   const std::lock_guard one(using_it);
                   stream.session.end(&lost);
                 });
               }}) {}
  ~Served() {
    if (worker.joinable()) worker.join();
  }
  std::string ask(std::string_view sql) {
    const std::lock_guard one(using_it);
    stream.session.heard();
    const std::string answer = stream.ask(sql);
    stream.session.answered();
    return answer;
  }
  std::mutex mutex, using_it;
  std::thread worker;
  Stream stream;
};

}  // namespace

TEST_CASE("sqlite_file: a frozen holder is evicted within the grace in every state",
          "[F4][sqlite_file]") {
  for (const std::vector<const char*>& before : std::vector<std::vector<const char*>>{
           {"BEGIN IMMEDIATE"},
           {"BEGIN", "SELECT * FROM t", "INSERT INTO t VALUES (1, 'a')"},
           {"SAVEPOINT a", "INSERT INTO t VALUES (1, 'a')"},
           {"BEGIN IMMEDIATE", "SAVEPOINT a", "INSERT INTO t VALUES (1, 'a')", "ROLLBACK TO a",
            "INSERT INTO t VALUES (1, 'b')"},
           {"BEGIN IMMEDIATE", "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (1, 'a')"},
       }) {
    CAPTURE(before);
    Table lab;
    Served old(lab, with("s", 5));
    for (const char* sql : before) old.ask(sql);
    REQUIRE(old.stream.open());
    Served next(lab, with("s", 6));
    const auto began = Clock::now();
    CHECK(next.ask("INSERT INTO t VALUES (2, 'next')").empty());
    CHECK(Clock::now() - began < grace + milliseconds(1500));
    CHECK(old.ask("COMMIT").starts_with("!! TG001 TG001 stale term 5"));
    CHECK(old.ask("INSERT INTO t VALUES (3, 'late')").starts_with("!! TG001"));
    CHECK(lab.ids() == "2;");
    CHECK(lab.engine->counters().evicted == 1);
    CHECK(Served(lab, with("s", 5)).ask("INSERT INTO t VALUES (4, 'x')").starts_with("! TG001"));
  }
}

TEST_CASE("sqlite_file: a check by SQL waits for the scope and term that it names",
          "[F4][sqlite_file]") {
  for (const auto& [begin, sql] : {std::pair("", "SELECT termgate_check_term(lower('S'), 6) AS f"),
                                   {"BEGIN", "SELECT termgate_check_term('s', 6) AS f"},
                                   {"", "SELECT termgate_seal('s', 5 + 1) IS NOT NULL AS f"}}) {
    CAPTURE(begin, sql);
    Table lab;
    Served old(lab, with("s", 5)), next(lab, {});
    REQUIRE(old.ask("BEGIN IMMEDIATE").empty());
    if (*begin != 0) next.ask(begin);
    const auto began = Clock::now();
    CHECK(next.ask(sql).starts_with("f "));
    CHECK(Clock::now() - began < grace + milliseconds(1500));
    CHECK(old.ask("COMMIT").starts_with("!! TG001"));
  }
}

TEST_CASE("sqlite_file: a holder at work is evicted too", "[F4][sqlite_file]") {
  const char* const endless =
      "INSERT INTO t SELECT 1, count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i "
      "+ 1 FROM n) SELECT i FROM n)";
  for (const bool transaction : {false, true}) {
    CAPTURE(transaction);
    Table lab;
    Served old(lab, with("s", 5)), next(lab, with("s", 6));
    if (transaction) REQUIRE(old.ask("BEGIN IMMEDIATE").empty());
    std::string answer;
    std::thread at_work([&] { answer = old.ask(endless); });
    std::this_thread::sleep_for(milliseconds(100));
    CHECK(next.ask("INSERT INTO t VALUES (2, 'next')").empty());
    at_work.join();
    CHECK(answer.starts_with(transaction ? "!! TG001" : "! TG001"));
    CHECK(lab.ids() == "2;");
  }
}

// Run by the next one, as another process.
TEST_CASE("a child takes over", "[.child]") {
  const char* const path = std::getenv("TERMGATE_TEST_FILE");
  const char* const how = std::getenv("TERMGATE_TEST_HOW");
  const char* const term = std::getenv("TERMGATE_TEST_TERM");
  REQUIRE((path != nullptr && how != nullptr && term != nullptr));
  sqlite::Connection other({.path = path, .wait = milliseconds(1000)}, false, false);
  const termgate::Term claim(std::stoll(term));
  if (how == std::string_view("seal")) other.layer1().fences().seal(termgate::Scope("s"), claim);
  if (how == std::string_view("check"))
    other.layer1().fences().check_term(termgate::Scope("s"), claim);
  if (how == std::string_view("write")) {
    other.layer1().core().declare(termgate::Scope("s"), claim);
    other.execute("INSERT INTO t VALUES (2, 'next')", {});
  }
}

TEST_CASE("sqlite_file: another process's higher term evicts, an equal or lower one does not",
          "[F4][sqlite_file]") {
  for (const char* how : {"seal", "check", "write"}) {
    CAPTURE(how);
    // Nobody is ended for silence here.
    Table lab({.idle_holder_max = std::chrono::hours(1)});
    Served old(lab, with("s", 5));
    REQUIRE(old.ask("BEGIN IMMEDIATE").empty());
    const auto takes_over = [&](std::int64_t term) {
      const pid_t child = fork();
      if (child == 0) {
        // Another program: a child alone would take its parent's locks for its own.
        setenv("TERMGATE_TEST_FILE", lab.file.path.c_str(), 1);
        setenv("TERMGATE_TEST_HOW", how, 1);
        setenv("TERMGATE_TEST_TERM", std::to_string(term).c_str(), 1);
        execl("/proc/self/exe", "unit_sqlite_file", "a child takes over",
              static_cast<char*>(nullptr));
        _exit(127);
      }
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    };
    // A check of the fence's own term needs no lock.
    if (how != std::string_view("seal")) CHECK(takes_over(5) == (how == std::string_view("check")));
    CHECK(old.ask("INSERT INTO t VALUES (1, 'a')").empty());
    CHECK(takes_over(7));
    CHECK(old.ask("COMMIT").starts_with("!! TG001"));
  }
}

TEST_CASE("sqlite_file: a holder that says nothing is ended where others wait",
          "[F4][sqlite_file]") {
  Table lab({.idle_holder_max = milliseconds(200)});
  Served old(lab, with("s", 5)), same(lab, with("s", 5));
  REQUIRE(old.ask("BEGIN IMMEDIATE").empty());
  std::this_thread::sleep_for(milliseconds(500));
  CHECK(old.ask("INSERT INTO t VALUES (1, 'a')").empty());  // nobody waited
  CHECK(same.ask("INSERT INTO t VALUES (2, 'b')").empty());
  CHECK(old.ask("COMMIT").starts_with("!! TRANSACTION_TIMEOUT"));
  CHECK(lab.ids() == "2;");
}
