// A connection whose file was moved, removed or replaced writes nothing more, whether it had begun
// or not.
#include "support.hpp"

#include <termgate/detail/sqlite_driver.hpp>
#include <termgate/error.hpp>

#include <functional>

#include <termgate/detail/sqlite/connection.hpp>
#include <termgate/detail/sqlite/errors.hpp>

namespace {

using namespace sqlite_test;
using Catch::Contains;
using Catch::StartsWith;
namespace fs = std::filesystem;

struct How {
  const char* name;
  std::function<void(const Folder&)> done;
  bool another = false;  // there is a database in its place
};

void another_file(const std::string& path) {
  Installed db(path);
  db.must("PRAGMA journal_mode = WAL; CREATE TABLE t (v TEXT)");
}

// What may become of the file app.db; the last of them are of WAL mode only.
std::vector<How> ways(bool wal) {
  // A log that is left behind would be taken for the new file's: SQLite's own "How To Corrupt".
  const auto remove_all = [](const Folder& folder) {
    for (const char* end : {"", "-wal", "-shm", "-journal"})
      fs::remove(folder.file("app.db") + end);
  };
  std::vector<How> all = {
      {"moved away", [](const Folder& f) { fs::rename(f.file("app.db"), f.file("old.db")); }},
      {"removed", [=](const Folder& f) { remove_all(f); }},
      {"moved away and made anew",
       [](const Folder& f) {
         fs::rename(f.file("app.db"), f.file("old.db"));
         for (const char* end : {"-wal", "-shm"}) fs::remove(f.file("app.db") + end);
         another_file(f.file("app.db"));
       },
       true},
      {"removed and made anew",
       [=](const Folder& f) {
         remove_all(f);
         another_file(f.file("app.db"));
       },
       true},
      {"another renamed over it",
       [](const Folder& f) {
         another_file(f.file("new.db"));
         for (const char* end : {"-wal", "-shm"}) fs::remove(f.file("app.db") + end);
         fs::rename(f.file("new.db"), f.file("app.db"));
       }},
      {"a link that leads to another in its place",
       [=](const Folder& f) {
         another_file(f.file("new.db"));
         remove_all(f);
         fs::create_symlink(f.file("new.db"), f.file("app.db"));
       },
       true},
      {"another hard link in its place",
       [=](const Folder& f) {
         another_file(f.file("new.db"));
         remove_all(f);
         fs::create_hard_link(f.file("new.db"), f.file("app.db"));
         fs::remove(f.file("new.db"));
       },
       true},
      {"a folder in its place",
       [](const Folder& f) {
         fs::rename(f.file("app.db"), f.file("old.db"));
         fs::create_directory(f.file("app.db"));
       }},
  };
  if (wal) {
    all.push_back({"its log removed", [](const Folder& f) { fs::remove(f.file("app.db-wal")); }});
    all.push_back({"its index removed", [](const Folder& f) { fs::remove(f.file("app.db-shm")); }});
    all.push_back({"its log moved away and made anew", [](const Folder& f) {
                     fs::rename(f.file("app.db-wal"), f.file("old-wal"));
                     Db other(f.file("app.db"));
                     other("SELECT count(*) FROM t");
                   }});
  }
  return all;
}

void make(const Folder& folder, bool wal) {
  Db db(folder.file("app.db"));
  db.must(wal ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE");
  install(db);
  db.must("CREATE TABLE t (v TEXT); SELECT termgate_protect('t', NULL, 'a')");
}

TEST_CASE("moved file: a connection of the extension's writes nothing more", "[F2][F5][sqlite]") {
  for (const bool wal : {true, false}) {
    for (const How& way : ways(wal)) {
      for (const bool began : {false, true}) {
        INFO(way.name << ", WAL " << wal << ", in an open transaction " << began);
        Folder folder;
        make(folder, wal);
        Db db(folder.file("app.db"));
        db.must("SELECT termgate_declare('a', 1), termgate_seal('a', 1)");
        db.must("INSERT INTO t VALUES ('before')");
        if (began) {
          db.must(
              "BEGIN IMMEDIATE; SELECT termgate_check_term('a', 1); INSERT INTO t VALUES "
              "('during')");
          way.done(folder);
          const Answer commit = db("COMMIT");
          CHECK_THAT(commit.error, Contains("was moved, removed or replaced"));
          CHECK(sqlite3_get_autocommit(db.handle()) == 1);
          CHECK(db("SELECT count(*) FROM t WHERE v = 'during'").value() != "1");
          continue;
        }
        way.done(folder);
        for (const char* write :
             {"INSERT INTO t VALUES ('after')", "SELECT termgate_append('s', 1, 'x', NULL, 'a')",
              "SELECT termgate_seal('a', 2)", "SELECT termgate_acquire_lease('a', 'me', 1000)",
              "SELECT termgate_check_term('a', 1)",
              "BEGIN IMMEDIATE; SELECT termgate_check_term('a', 1)",
              "BEGIN; INSERT INTO t VALUES ('after')"}) {
          INFO(write);
          const Answer answer = db(write);
          CHECK(answer.error != "");
          CHECK((answer.code & 0xff) != SQLITE_CONSTRAINT);
          db("ROLLBACK");
        }
      }
    }
  }
}

TEST_CASE("moved file: a link to the file that now leads to another is noticed by the library",
          "[F2][sqlite]") {
  using termgate::sqlite::Connection;
  Folder folder;
  make(folder, true);
  another_file(folder.file("other.db"));
  fs::create_symlink(folder.file("app.db"), folder.file("link.db"));
  fs::create_directory(folder.file("one"));
  fs::rename(folder.file("app.db"), folder.file("one") + "/app.db");
  fs::remove(folder.file("link.db"));
  fs::create_symlink(folder.file("one") + "/app.db", folder.file("link.db"));
  Connection connection({.path = folder.file("link.db")}, false, false);
  CHECK(connection.begin(false, std::chrono::milliseconds(0), {}, 0) == SQLITE_OK);
  connection.control("ROLLBACK");
  SECTION("the link") {
    fs::remove(folder.file("link.db"));
    fs::create_symlink(folder.file("other.db"), folder.file("link.db"));
  }
  SECTION("the file and its link, which follows it") {
    fs::rename(folder.file("one") + "/app.db", folder.file("moved.db"));
    fs::remove(folder.file("link.db"));
    fs::create_symlink(folder.file("moved.db"), folder.file("link.db"));
  }
  SECTION("the folder") {
    fs::rename(folder.file("one"), folder.file("two"));
    fs::create_directory(folder.file("one"));
    another_file(folder.file("one") + "/app.db");
  }
  CHECK(connection.begin(false, std::chrono::milliseconds(0), {}, 0) == SQLITE_READONLY_DBMOVED);
  CHECK_FALSE(connection.in_transaction());
}

TEST_CASE("moved file: what is no move is none", "[sqlite]") {
  for (const bool wal : {true, false}) {
    INFO("WAL " << wal);
    Folder folder;
    make(folder, wal);
    const auto before = fs::current_path();
    struct Back {
      fs::path to;
      ~Back() { fs::current_path(to); }
    } back{before};
    fs::current_path(fs::path(folder.file("app.db")).parent_path());
    auto driver = termgate::detail::open_sqlite("app.db", {});
    const auto write = [&] {
      driver->transact({}, [](termgate::detail::OpenTransaction& session) {
        session.execute("INSERT INTO t SELECT 'x' WHERE 0", {});
      });
    };
    write();
    fs::current_path("/");
    write();
    fs::permissions(folder.file("app.db"), fs::perms::owner_read | fs::perms::owner_write);
    write();
    {
      // The last of the other connections to close; the log stays, for ours is open.
      Db other(folder.file("app.db"));
      other.must("SELECT termgate_seal('a', 1); PRAGMA wal_checkpoint(TRUNCATE)");
    }
    write();
    Db other(folder.file("app.db"));
    if (!wal) {
      other.must("PRAGMA journal_mode = WAL");
      write();
    }
    other.must("VACUUM");
    write();
  }
  Installed memory;
  memory.must("SELECT termgate_append('s', 1, 'x')");
  Installed temporary("");
  temporary.must("SELECT termgate_append('s', 1, 'x')");
}

// What the driver does in each way, in a folder of its own.
template <class Test>
void in_each_way(Test test) {
  for (const bool wal : {true, false}) {
    for (const How& way : ways(wal)) {
      INFO(way.name << ", WAL " << wal);
      Folder folder;
      make(folder, wal);
      auto driver = termgate::detail::open_sqlite(folder.file("app.db"), {});
      test(folder, way, *driver);
    }
  }
}

TEST_CASE("moved file: the driver refuses once and then opens what is there", "[F2][F5][sqlite]") {
  in_each_way([](const Folder& folder, const How& way, termgate::detail::Driver& driver) {
    const auto write = [&](const char* sql) {
      driver.transact(
          {}, [&](termgate::detail::OpenTransaction& session) { session.execute(sql, {}); });
    };
    write("CREATE TABLE first (v)");
    CHECK(driver.installed_version() == 9);
    way.done(folder);
    CHECK_THROWS_AS(write("CREATE TABLE mine (v)"), termgate::Unavailable);
    if (!way.another) return;
    write("CREATE TABLE mine (v)");
    CHECK(driver.installed_version() == 9);
    Db there(folder.file("app.db"));
    CHECK(there.must("SELECT group_concat(name) FROM sqlite_schema WHERE name IN ('mine', "
                     "'first')") == "mine");
  });
}

TEST_CASE("moved file: one that was moved during the work is not committed to", "[F5][sqlite]") {
  in_each_way([](const Folder& folder, const How& way, termgate::detail::Driver& driver) {
    const auto work = [&](termgate::detail::OpenTransaction& session) {
      session.execute("CREATE TABLE mine (v)", {});
      way.done(folder);
    };
    CHECK_THROWS_AS(driver.transact({}, work), termgate::Unavailable);
    for (const char* name : {"app.db", "old.db"}) {
      if (!fs::is_regular_file(folder.file(name))) continue;
      Db there(folder.file(name));
      CHECK(there("SELECT count(*) FROM sqlite_schema WHERE name = 'mine'").value() == "0");
    }
  });
}

}  // namespace
