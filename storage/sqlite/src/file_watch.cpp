// Device and inode number say whether a path still names the same file (file_watch.hpp says why that
// matters). Every answer is only as fresh as its stat(): the callers ask under the write lock, before BEGIN's
// work and before COMMIT.
#include <termgate/detail/sqlite/file_watch.hpp>

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <system_error>

namespace termgate::inline v0::sqlite {

std::optional<FileWatch::Identity> FileWatch::identity_of(const std::string& path) noexcept {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

void FileWatch::begin(sqlite3* db, const std::string& path) {
  *this = FileWatch();
  // An empty name is a database in memory or a temporary one, which no path leads to.
  const char* held = sqlite3_db_filename(db, "main");
  if (held == nullptr || *held == '\0' || path.empty()) return;
  // The process may change its folder later.
  std::error_code failure;
  path_ = std::filesystem::absolute(path, failure).string();
  if (failure) path_ = held;
  file_ = identity_of(path_);
  // A file system of SQLite's that keeps its files elsewhere than the system does.
  if (!file_ || !identity_of(held)) return;
  db_ = db;
  log_[0].path = std::string(held) + "-wal";
  log_[1].path = std::string(held) + "-shm";
}

void FileWatch::know_log() noexcept {
  for (Beside& one : log_) one.file = identity_of(one.path);
}

// Prepared anew each time: the answer of a PRAGMA is fixed when it is prepared, and another process may
// change the mode.
bool FileWatch::uses_log() const noexcept {
  sqlite3_stmt* statement = nullptr;
  bool wal = false;
  if (sqlite3_prepare_v2(db_, "PRAGMA main.journal_mode", -1, &statement, nullptr) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
    const auto* mode = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    wal = mode != nullptr && std::strcmp(mode, "wal") == 0;
  }
  sqlite3_finalize(statement);
  return wal;
}

bool FileWatch::replaced() const noexcept {
  if (db_ == nullptr) return false;
  // The inode on another device, a link that leads elsewhere by now: SQLite compares neither.
  if (identity_of(path_) != file_) return true;
  for (const Beside& one : log_) {
    if (one.file && identity_of(one.path) != one.file) return true;
  }
  return false;
}

bool FileWatch::moved(bool writing) noexcept {
  if (db_ == nullptr) return false;
  int has_moved = 0;
  if (sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) == SQLITE_OK && has_moved != 0) return true;
  if (replaced()) return true;
  if (log_[0].file || !writing) return false;
  // SQLite makes the log before it gives the write lock, so one that is missing was taken away.
  if (!identity_of(log_[0].path)) return uses_log();
  know_log();
  return false;
}

}  // namespace termgate::inline v0::sqlite
