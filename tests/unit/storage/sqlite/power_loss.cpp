// Durability, tested by losing what was not synced: a VFS that remembers each file as it was at its
// last sync. The power fails by throwing the files away and putting those memories back (F3: a
// raise survives; F5: an acknowledged write survives, a torn one leaves no trace).
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <termgate/error.hpp>

#include "support.hpp"
#include <termgate/detail/sqlite/write_queue.hpp>

using namespace sqlite_test;
using namespace termgate;
using namespace std::chrono_literals;

namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What the disk would hold after a power cut, by path. A file that was never synced is not there.
class Disk {
 public:
  void synced(const std::string& path) {
    const std::lock_guard lock(mutex_);
    files_[path] = content(path);
  }
  void removed(const std::string& path) {
    const std::lock_guard lock(mutex_);
    files_.erase(path);
  }
  // Lays the surviving files out in another folder, as the machine finds them when it starts again.
  void survive_in(const std::string& from, const std::string& to) {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, bytes] : files_) {
      if (!path.starts_with(from) || path.ends_with("-shm")) continue;
      std::ofstream(to + path.substr(from.size()), std::ios::binary) << bytes;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> files_;
};

Disk disk;
std::atomic<bool> syncs_fail{false};

// A file of the real VFS with our xSync in front. The real file lies behind this struct.
struct Spied : sqlite3_file {
  sqlite3_io_methods methods;
  char path[512];
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
Spied* spied(sqlite3_file* file) { return static_cast<Spied*>(file); }
sqlite3_file* real(sqlite3_file* file) { return spied(file)->real(); }

// A method that the real file's own does.
template <auto method, class... Arguments>
auto passed_on(sqlite3_file* file, Arguments... arguments) {
  return (real(file)->pMethods->*method)(real(file), arguments...);
}

int open_spied(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
  auto* below = static_cast<sqlite3_vfs*>(vfs->pAppData);
  Spied* self = spied(file);
  self->pMethods = nullptr;
  std::strncpy(self->path, name != nullptr ? name : "", sizeof self->path - 1);
  self->path[sizeof self->path - 1] = '\0';
  std::memset(self->real(), 0, static_cast<std::size_t>(below->szOsFile));
  const int code = below->xOpen(below, name, self->real(), flags, out);
  if (code != SQLITE_OK) return code;
  sqlite3_io_methods& to = self->methods;
  to = *self->real()->pMethods;
  using Methods = sqlite3_io_methods;
  to.xClose = passed_on<&Methods::xClose>;
  to.xRead = passed_on<&Methods::xRead>;
  to.xWrite = passed_on<&Methods::xWrite>;
  to.xTruncate = passed_on<&Methods::xTruncate>;
  to.xSync = [](sqlite3_file* f, int how) {
    if (syncs_fail) return SQLITE_IOERR_FSYNC;
    const int synced = real(f)->pMethods->xSync(real(f), how);
    if (synced == SQLITE_OK) disk.synced(spied(f)->path);
    return synced;
  };
  to.xFileSize = passed_on<&Methods::xFileSize>;
  to.xLock = passed_on<&Methods::xLock>;
  to.xUnlock = passed_on<&Methods::xUnlock>;
  to.xCheckReservedLock = passed_on<&Methods::xCheckReservedLock>;
  to.xFileControl = passed_on<&Methods::xFileControl>;
  to.xSectorSize = passed_on<&Methods::xSectorSize>;
  to.xDeviceCharacteristics = passed_on<&Methods::xDeviceCharacteristics>;
  to.xShmMap = passed_on<&Methods::xShmMap>;
  to.xShmLock = passed_on<&Methods::xShmLock>;
  to.xShmBarrier = passed_on<&Methods::xShmBarrier>;
  to.xShmUnmap = passed_on<&Methods::xShmUnmap>;
  to.iVersion = 2;  // no memory mapping, which would go past us
  self->pMethods = &to;
  return SQLITE_OK;
}

int delete_spied(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  auto* below = static_cast<sqlite3_vfs*>(vfs->pAppData);
  const int code = below->xDelete(below, name, sync_folder);
  // The end of a rollback journal is its commit, so SQLite syncs the folder; a removal that was not
  // is lost.
  if (code == SQLITE_OK && sync_folder != 0) disk.removed(name);
  return code;
}

// Makes every connection opened meanwhile go through the spy.
struct SpyingVfs {
  SpyingVfs() {
    before = sqlite3_vfs_find(nullptr);
    vfs = *before;
    vfs.zName = "termgate-power-loss";
    vfs.pAppData = before;
    vfs.szOsFile = static_cast<int>(sizeof(Spied)) + before->szOsFile;
    vfs.xOpen = open_spied;
    vfs.xDelete = delete_spied;
    sqlite3_vfs_register(&vfs, 1);
  }
  SpyingVfs(const SpyingVfs&) = delete;
  SpyingVfs& operator=(const SpyingVfs&) = delete;
  ~SpyingVfs() {
    sqlite3_vfs_register(before, 1);
    sqlite3_vfs_unregister(&vfs);
  }
  sqlite3_vfs* before;
  sqlite3_vfs vfs{};
};

}  // namespace

TEST_CASE("power loss: raises and acknowledged writes are there afterwards", "[F3][F5][sqlite]") {
  SpyingVfs spy;
  for (const char* mode : {"wal", "delete", "truncate", "persist"}) {
    INFO(mode);
    Folder before, after;
    sqlite::Connection connection({.path = before.file(), .journal_mode = mode}, false, true);
    sqlite::WriteQueue queue(connection, "extra", 5s);
    queue.run({}, [](sqlite::Connection& c) { c.layer1().setup().install(); });
    // Many threads, so that some writes of one commit are acknowledged by another thread's flush.
    std::mutex mutex;
    std::set<std::int64_t> acknowledged;
    std::int64_t sealed = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10; ++i) {
          std::int64_t number = 0;
          queue.run({}, [&](sqlite::Connection& c) {
            number = c.layer1().streams().append(Stream("log"), Term(1), {{"payload", {}}}, {}, {});
          });
          const std::lock_guard lock(mutex);
          acknowledged.insert(number);
        }
      });
    }
    for (std::int64_t term = 2; term <= 6; ++term) {
      queue.run(
          {}, [&](sqlite::Connection& c) { c.layer1().fences().seal(Scope("other"), Term(term)); });
      sealed = term;
    }
    for (auto& thread : threads) thread.join();
    // An open transaction at the moment of the cut: its write must leave no trace.
    queue.run({}, [&](sqlite::Connection& c) {
      c.layer1().streams().append(Stream("log"), Term(1), {{"torn", {}}}, {}, {});
      disk.survive_in(before.file(), after.file());
    });
    Db restarted(after.file());
    CHECK(restarted("PRAGMA integrity_check").value() == "ok");
    CHECK(restarted("SELECT count(*) FROM termgate_stream_writes").value() ==
          std::to_string(acknowledged.size()));
    CHECK(restarted("SELECT count(*) FROM termgate_stream_writes WHERE payload = x'746f726e'")
              .value() == "0");
    CHECK(restarted("SELECT term FROM termgate_fences WHERE scope = 'other'").value() ==
          std::to_string(sealed));
    CHECK(restarted("SELECT termgate_verify()").value() == "[]");
  }
}

TEST_CASE(
    "power loss: a raise of a connection that does not flush its writes is flushed all the same",
    "[F3][sqlite]") {
  SpyingVfs spy;
  for (const char* level : {"off", "normal"}) {
    INFO(level);
    Folder before, after;
    sqlite::Connection connection({.path = before.file(), .synchronous = level}, false, true);
    sqlite::WriteQueue queue(connection, level, 5s);
    queue.run({.flushed = true}, [](sqlite::Connection& c) { c.layer1().setup().install(); });
    bool wants_flush = false;
    const auto raise = [](sqlite::Connection& c) {
      c.layer1().fences().check_term(Scope("s"), Term(9));
    };
    CHECK_THROWS_AS(queue.run({}, raise, &wants_flush), InvalidInput);
    REQUIRE(wants_flush);
    queue.run({.flushed = true}, raise);
    // Whatever came after may be lost, the raise may not.
    queue.run({}, [](sqlite::Connection& c) {
      c.layer1().streams().append(Stream("s"), Term(9), {{"forgettable", {}}}, {}, {});
    });
    disk.survive_in(before.file(), after.file());
    Db restarted(after.file());
    CHECK(restarted("PRAGMA integrity_check").value() == "ok");
    CHECK(restarted("SELECT term FROM termgate_fences").value() == "9");
    CHECK_THAT(restarted("SELECT termgate_check_term('s', 8)").error, Catch::StartsWith("TG001"));
  }
}

TEST_CASE(
    "power loss: a raise in journal mode DELETE flushes the folder that the journal is removed "
    "from",
    "[F3][sqlite]") {
  Folder folder;
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(folder.file().c_str(), &db) == SQLITE_OK);
  sqlite::Layer1* layer1 = sqlite::Layer1::register_on(db);
  layer1->setup().install();
  const auto flushes_of = [&](const char* statements) {
    const auto before = layer1->core().flush().folders();
    INFO(statements);
    REQUIRE(sqlite3_exec(db, statements, nullptr, nullptr, nullptr) == SQLITE_OK);
    return layer1->core().flush().folders() - before;
  };
  CHECK(flushes_of("SELECT termgate_seal('a', 1)") == 1);
  CHECK(flushes_of("BEGIN; SELECT termgate_check_term('a', 2); COMMIT") == 1);
  CHECK(flushes_of("CREATE TABLE t AS SELECT termgate_check_term('a', 3)") == 1);
  CHECK(flushes_of("SELECT termgate_append('s', 3, 'x', NULL, 'a')") == 0);
  CHECK(flushes_of("BEGIN; SELECT termgate_seal('a', 9); ROLLBACK") == 0);
  CHECK(flushes_of("PRAGMA synchronous = EXTRA; SELECT termgate_seal('a', 4)") ==
        0);  // SQLite does it itself
  CHECK(flushes_of(
            "PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; SELECT termgate_seal('a', 5)") ==
        0);
  CHECK(sqlite3_close(db) == SQLITE_OK);
}

TEST_CASE("flush: a COMMIT whose flush failed is not called nothing written",
          "[F5][sqlite][issue-2]") {
  SpyingVfs spy;
  for (const char* mode : {"wal", "delete"}) {
    INFO(mode);
    Folder folder;
    Db db(folder.file());
    db.must(std::string("PRAGMA journal_mode = ") + mode);
    install(db);
    syncs_fail = true;
    const Answer answer = db("SELECT termgate_append('s', 1, 'x')");
    syncs_fail = false;
    CHECK(answer.code == SQLITE_IOERR_FSYNC);
    CHECK_THAT(answer.error, Catch::StartsWith("COMMIT was sent and its flush failed"));
    CHECK_THAT(answer.error, !Catch::Contains("nothing was written"));
    // Whatever became of it, the connection goes on.
    CHECK(sqlite3_get_autocommit(db.handle()) == 1);
    CHECK(db("SELECT termgate_append('s', 1, 'y')").error == "");
  }
}
