// What a connection must not write to: a file with two names, one mounted by itself, one whose
// locks nobody sees, one inherited by fork(). And what a raise must not rest on: a cache that
// another connection flushes, a folder that cannot be.
#include "support.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>

#include <fmt/format.h>

#include <termgate/detail/sqlite_driver.hpp>
#include <termgate/error.hpp>

using namespace sqlite_test;
using namespace termgate;
using Catch::Contains;
using Catch::StartsWith;
namespace fs = std::filesystem;

namespace {

void make(const std::string& path, const char* mode) {
  Db db(path);
  db.must(std::string("PRAGMA journal_mode = ") + mode);
  install(db);
  db.must("CREATE TABLE t (v); SELECT termgate_protect('t', NULL, 'a'), termgate_seal('a', 5)");
}

const char* const writes[] = {"SELECT termgate_declare('a', 5); INSERT INTO t VALUES ('x')",
                              "BEGIN IMMEDIATE; SELECT termgate_check_term('a', 5)",
                              "SELECT termgate_check_term('a', 6)",
                              "SELECT termgate_seal('a', 6)",
                              "SELECT termgate_append('s', 5, 'x', NULL, 'a')",
                              "SELECT termgate_acquire_lease('b', 'me', 1000)",
                              "SELECT termgate_protect('t', NULL, 'b')",
                              "SELECT termgate_init()"};

void refuses_all(Db& db, const char* why) {
  for (const char* write : writes) {
    INFO(write);
    CHECK_THAT(db(write).error, Contains(why));
    db("ROLLBACK");
  }
  db("SELECT termgate_declare(NULL, NULL)");
}

std::string state(const std::string& path) {
  Db db(path, false);
  return db.must(
      "SELECT (SELECT group_concat(scope || term) FROM termgate_fences) || ' ' || (SELECT count(*) "
      "FROM t) || ' ' || (SELECT "
      "count(*) FROM termgate_stream_writes)");
}

std::string doctor(Db& db) {
  return db.must(
      "SELECT group_concat(value ->> 'problem', '; ') FROM json_each(termgate_doctor()) WHERE "
      "value ->> 'severity' = 'error'");
}

sqlite3* open_with(const Folder& folder, const std::string& option) {
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open_v2(("file:" + folder.file("app.db") + "?" + option).c_str(), &opened,
                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, nullptr) == SQLITE_OK);
  return opened;
}

TEST_CASE("two names: a file with a hard link takes no write by either name until one is gone",
          "[F1][F2][sqlite]") {
  for (const char* mode : {"WAL", "DELETE"}) {
    INFO(mode);
    Folder folder;
    const std::string path = folder.file("app.db"), other = folder.file("other.db");
    make(path, mode);
    const std::string before = state(path);
    {
      Db early(path);
      early.must("SELECT termgate_check_term('a', 5)");
      early.must(
          "BEGIN IMMEDIATE; SELECT termgate_check_term('a', 5); INSERT INTO t VALUES ('half')");
      fs::create_hard_link(path, other);
      CHECK_THAT(early("COMMIT").error, Contains("2 names (hard links)"));
      refuses_all(early, "2 names (hard links)");
      Db late(other);
      refuses_all(late, "2 names (hard links)");
      CHECK_THAT(doctor(late), Contains("hard links"));
      CHECK_THAT(late.must("SELECT termgate_verify()"), Contains("hard links"));
      auto driver = detail::open_sqlite(other, {});
      CHECK_THROWS_AS(driver->install(), Unavailable);
      CHECK(driver->query("SELECT count(*) FROM t", {}).rows[0][0].as_int() == 0);
      fs::remove(other);
      early.must("SELECT termgate_check_term('a', 5)");
    }
    CHECK(state(path) == before);
    // A name elsewhere that came and went leaves the file usable by a driver that was open.
    auto driver = detail::open_sqlite(path, {});
    const auto write = [&] {
      driver->transact({}, [](detail::OpenTransaction& session) {
        session.execute("CREATE TABLE IF NOT EXISTS mine (v)", {});
      });
    };
    write();
    fs::create_directory(folder.file("elsewhere"));
    fs::create_hard_link(path, folder.file("elsewhere") + "/app.db");
    CHECK_THROWS_AS(write(), Unavailable);
    CHECK_THROWS_WITH(driver->transact({}, [&](detail::OpenTransaction&) {}),
                      Contains("find / -xdev -samefile"));
    fs::remove(folder.file("elsewhere") + "/app.db");
    write();
  }
}

TEST_CASE("two names: a folder under another name and links are one name", "[sqlite]") {
  Folder folder;
  make(folder.file("app.db"), "WAL");
  fs::create_directory_symlink(fs::path(folder.file("app.db")).parent_path(), folder.file("same"));
  fs::create_symlink(folder.file("app.db"), folder.file("link.db"));
  Db open(folder.file("app.db"));
  open.must("SELECT termgate_seal('a', 6)");
  for (const std::string& path : {folder.file("same") + "/app.db", folder.file("link.db")}) {
    INFO(path);
    CHECK_THAT(Db(path)("SELECT termgate_append('s', 5, 'x', NULL, 'a')").error,
               StartsWith("TG001"));
    Db(path).must("SELECT termgate_append('s', 6, 'x', NULL, 'a')");
  }
  const int descriptor = ::open(folder.file("app.db").c_str(), O_RDONLY | O_CLOEXEC);
  CHECK_THAT(Db(fmt::format("/proc/self/fd/{}", descriptor))(
                 "SELECT termgate_append('s', 5, 'x', NULL, 'a')")
                 .error,
             StartsWith("TG001"));
}

TEST_CASE("two names: a file that is mounted by itself takes no write", "[F1][F2][sqlite]") {
  Folder folder;
  make(folder.file("app.db"), "WAL");
  const std::string said = in_child([&]() -> std::string {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return "cannot";
    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    std::ofstream(folder.file("mounted.db")).flush();
    if (mount(folder.file("app.db").c_str(), folder.file("mounted.db").c_str(), nullptr, MS_BIND,
              nullptr) != 0)
      return "cannot";
    struct statx status {};
    if (statx(AT_FDCWD, folder.file("mounted.db").c_str(), 0, STATX_INO, &status) != 0 ||
        (status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0)
      return "cannot";
    std::string problems;
    for (const char* write : writes) {
      Db db(folder.file("mounted.db"));
      if (const std::string error = db(write).error;
          error.find("is mounted by itself") == std::string::npos)
        problems += std::string(write) + ": " + error;
      db("ROLLBACK");
    }
    // A folder that is mounted holds the log as well.
    fs::create_directory(folder.file("there"));
    mount(fs::path(folder.file("app.db")).parent_path().c_str(), folder.file("there").c_str(),
          nullptr, MS_BIND, nullptr);
    if (const std::string error =
            Db(folder.file("there") + "/app.db")("SELECT termgate_seal('a', 7)").error;
        !error.empty())
      problems += error;
    return "tried " + problems;
  });
  if (said == "cannot") {
    WARN("this machine lets no test mount a file: not tested");
    return;
  }
  CHECK(said == "tried ");
}

TEST_CASE("fork: a child writes nothing and reads no fence on a connection that it inherited",
          "[F1][F2][F3][sqlite]") {
  for (const char* mode : {"WAL", "DELETE"}) {
    INFO(mode);
    Folder folder;
    make(folder.file("app.db"), mode);
    Db db(folder.file("app.db"));
    db.must("SELECT termgate_check_term('a', 5)");
    SECTION("idle") {
      for (const char* write : writes)
        CHECK_THAT(in_child([&] { return db(write).error; }), Contains("inherited by fork()"));
      CHECK_THAT(in_child([&] { return db("SELECT termgate_fence('a')").error; }),
                 Contains("inherited by fork()"));
      db.must("SELECT termgate_declare('a', 5)");
      CHECK_THAT(in_child([&] { return db("INSERT INTO t VALUES ('child')").error; }),
                 Contains("inherited by fork()"));
    }
    SECTION("with a transaction open") {
      db.must(
          "BEGIN IMMEDIATE; SELECT termgate_check_term('a', 5); INSERT INTO t VALUES ('of the "
          "parent')");
      const std::string answer = in_child(
          [&] { return db("INSERT INTO t VALUES ('stale')").error + "|" + db("COMMIT").error; },
          [&] {
            db.must("ROLLBACK");
            Db(folder.file("app.db")).must("SELECT termgate_seal('a', 6)");
          });
      CHECK_THAT(answer.substr(0, answer.find('|')), Contains("inherited by fork()"));
      CHECK_THAT(answer.substr(answer.find('|')), Contains("inherited by fork()"));
      CHECK_THAT(state(folder.file("app.db")), StartsWith("a6 0"));
      CHECK(Db(folder.file("app.db"), false).must("PRAGMA integrity_check") == "ok");
    }
    SECTION("the library") {
      auto driver = detail::open_sqlite(folder.file("app.db"), {});
      const auto write = [&]() -> std::string {
        driver->transact({}, [](detail::OpenTransaction& session) {
          session.execute("INSERT INTO t SELECT 1 WHERE 0", {});
        });
        return "written";
      };
      CHECK(write() == "written");
      CHECK_THAT(in_child(write), Contains("inherited by fork()"));
      CHECK_THAT(in_child([&]() -> std::string {
                   return driver->query("SELECT 1", {}).rows.empty() ? "" : "read";
                 }),
                 Contains("inherited by fork()"));
      CHECK(write() == "written");
    }
    // A connection that the child opens itself is its own.
    CHECK(in_child([&] {
            return Db(folder.file("app.db"))("SELECT termgate_check_term('a', 6)").value();
          }) == "6");
  }
}

TEST_CASE("locks: a connection whose locks nobody sees is refused and doctor says so",
          "[F1][F2][sqlite]") {
  for (const char* option :
       {"nolock=1", "vfs=unix-none", "vfs=unix-dotfile", "vfs=unix-none&nolock=0"}) {
    INFO(option);
    Folder folder;
    make(folder.file("app.db"), "DELETE");
    const std::string before = state(folder.file("app.db"));
    {
      Db db{open_with(folder, option)};
      refuses_all(db, "takes no lock that others see");
      CHECK_THAT(doctor(db), Contains("takes no lock that others see"));
    }
    CHECK(state(folder.file("app.db")) == before);
  }
  {
    Folder folder;
    make(folder.file("app.db"), "DELETE");
    Db db{open_with(folder, "immutable=1")};
    for (const char* write : writes) {
      CHECK(db(write).error != "");
      db("ROLLBACK");
    }
    CHECK_THAT(db("SELECT termgate_check_term('a', 5)").error,
               Contains("takes no lock that others see"));
    CHECK_THAT(doctor(db), Contains("immutable=1"));
  }
  for (const char* option : {"vfs=unix", "vfs=unix-excl", "nolock=0", "mode=rw"}) {
    INFO(option);
    Folder folder;
    make(folder.file("app.db"), "DELETE");
    Db db{open_with(folder, option)};
    CHECK(db("SELECT termgate_check_term('a', 6)").value() == "6");
  }
}

TEST_CASE("journal mode: what this connection changes of it leaves the checks at work",
          "[sqlite]") {
  Folder folder;
  make(folder.file("app.db"), "WAL");
  Db db(folder.file("app.db"));
  int term = 5;
  const auto seal = [&] { return db(fmt::format("SELECT termgate_seal('a', {})", ++term)).error; };
  CHECK(seal() == "");
  for (const char* mode : {"DELETE", "TRUNCATE", "WAL", "PERSIST", "WAL", "WAL"}) {
    INFO(mode);
    CHECK_THAT(db.must(std::string("PRAGMA journal_mode = ") + mode),
               Catch::Equals(mode, Catch::CaseSensitive::No));
    CHECK(seal() == "");
    CHECK(seal() == "");
    db.must(fmt::format(
        "BEGIN IMMEDIATE; SELECT termgate_check_term('a', {}); INSERT INTO t VALUES (1); COMMIT",
        term));
  }
  // A log that somebody else takes away is still seen.
  fs::rename(folder.file("app.db-wal"), folder.file("gone"));
  CHECK_THAT(seal(), Contains("was moved, removed or replaced"));
}

TEST_CASE("raise: is refused while another connection shares the cache", "[F3][sqlite]") {
  Folder folder;
  make(folder.file("app.db"), "WAL");
  Db db{open_with(folder, "cache=shared")};
  db.must("SELECT termgate_seal('a', 6)");
  {
    Db careless{open_with(folder, "cache=shared")};
    careless.must("PRAGMA synchronous = OFF; SELECT count(*) FROM t");
    CHECK_THAT(db("SELECT termgate_seal('a', 7)").error,
               StartsWith("TG005") && Contains("shares its cache"));
    CHECK_THAT(doctor(db), Contains("shares its cache"));
    CHECK(db("SELECT termgate_check_term('a', 6)").value() == "6");
  }
  db.must("SELECT termgate_seal('a', 7)");
}

TEST_CASE("raise: fails where its folder cannot be flushed", "[F3][sqlite]") {
  if (geteuid() == 0) {
    // Root may read every folder: the test runs as another user.
    const std::string answers = in_child([&]() -> std::string {
      if (setgid(65534) != 0 || setuid(65534) != 0) return "cannot";
      Folder folder;
      make(folder.file("app.db"), "DELETE");
      const std::string path = fs::path(folder.file("app.db")).parent_path();
      std::string said;
      {
        Db db(folder.file("app.db"));
        chmod(path.c_str(), 0300);
        said += db("SELECT termgate_seal('a', 6)").error + "\n" +
                db("BEGIN IMMEDIATE; SELECT termgate_check_term('a', 6); COMMIT").error + "\n";
        db("ROLLBACK");
        said += db.must("SELECT term FROM termgate_fences");
        db.must("PRAGMA synchronous = EXTRA");
        chmod(path.c_str(), 0700);
        db.must("SELECT termgate_seal('a', 6)");
      }
      return said;
    });
    if (answers == "cannot") return;
    CHECK_THAT(answers, Contains("cannot be flushed") && Catch::EndsWith("\n5"));
    CHECK_THAT(answers.substr(answers.find('\n') + 1), Contains("cannot be flushed"));
  }
}

}  // namespace
