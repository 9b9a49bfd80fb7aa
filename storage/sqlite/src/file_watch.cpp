// Device and inode number tell whether a path still names the same file (file_watch.hpp says why
// that matters). An answer is only as fresh as its statx(), so callers check under the write lock:
// after BEGIN and before COMMIT.
#include <termgate/detail/sqlite/file_watch.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include <termgate/detail/sqlite/errors.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

// Why the locks of the main database's VFS do not exclude other programs; empty if they do.
std::string no_locks(sqlite3* db, const char* file, std::string& foreign) {
  for (const char* option : {"nolock", "immutable"}) {
    if (sqlite3_uri_boolean(file, option, 0) != 0)
      return fmt::format("it was opened with {}=1", option);
  }
  char* held = nullptr;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_VFSNAME, &held) != SQLITE_OK || held == nullptr)
    return {};
  // In a name such as "shim/unix" the last part is the VFS that opens the file.
  std::string name = held;
  sqlite3_free(held);
  name.erase(0, name.rfind('/') + 1);
  // unix-excl takes the same locks and keeps them. SQLite's other VFSs lock nothing, or use locks
  // that ordinary connections ignore.
  if (name == "unix" || name == "unix-excl") return {};
  if (name.starts_with("unix-")) return fmt::format("it was opened with vfs={}", name);
  if (name != "memdb") foreign = name;
  return {};
}

}  // namespace

std::optional<FileWatch::Seen> FileWatch::look_at(const std::string& path) noexcept {
  struct statx status {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_NLINK | STATX_TYPE, &status) != 0)
    return std::nullopt;
  const std::uint64_t device = (std::uint64_t{status.stx_dev_major} << 32) | status.stx_dev_minor;
  // Available since Linux 5.8; before that it cannot be determined.
  const bool mounted =
      S_ISREG(status.stx_mode) &&
      (status.stx_attributes & status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
  return Seen{{device, status.stx_ino}, status.stx_nlink, mounted};
}

std::optional<FileWatch::Identity> FileWatch::identity_of(const std::string& path) noexcept {
  const auto seen = look_at(path);
  return seen ? std::optional(seen->identity) : std::nullopt;
}

void FileWatch::begin(sqlite3* db, const std::string& path) {
  *this = FileWatch();
  // An empty name is an in-memory or temporary database, which no path leads to.
  const char* held = sqlite3_db_filename(db, "main");
  if (held == nullptr || *held == '\0' || path.empty()) return;
  // Made absolute, because the process may change its working directory later.
  std::error_code failure;
  path_ = std::filesystem::absolute(path, failure).string();
  if (failure) path_ = held;
  file_ = identity_of(path_);
  // Not watched: a VFS that keeps its files outside the file system.
  if (!file_ || !identity_of(held)) return;
  db_ = db;
  process_ = getpid();
  unlocked_ = no_locks(db, held, foreign_locks_);
  log_[0].path = std::string(held) + "-wal";
  log_[1].path = std::string(held) + "-shm";
}

void FileWatch::know_log() noexcept {
  for (Beside& one : log_) one.file = identity_of(one.path);
}

// Prepared again each time: a PRAGMA's answer is fixed when it is prepared, and another process may
// change the mode.
bool FileWatch::uses_log() const noexcept {
  sqlite3_stmt* statement = nullptr;
  bool wal = false;
  if (sqlite3_prepare_v2(db_, "PRAGMA main.journal_mode", -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    const auto* mode = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    wal = mode != nullptr && std::strcmp(mode, "wal") == 0;
  }
  sqlite3_finalize(statement);
  return wal;
}

bool FileWatch::replaced() const noexcept {
  if (db_ == nullptr) return false;
  // The same inode on another device, or a link that now leads elsewhere: SQLite checks neither.
  if (identity_of(path_) != file_) return true;
  for (const Beside& one : log_) {
    if (one.file && identity_of(one.path) != one.file) return true;
  }
  return false;
}

bool FileWatch::moved(bool writing) noexcept {
  int has_moved = 0;
  if (sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved) == SQLITE_OK &&
      has_moved != 0)
    return true;
  if (replaced()) {
    // The log disappears when this connection leaves WAL mode; no other connection can do that.
    if (identity_of(path_) != file_ || uses_log()) return true;
    for (Beside& one : log_) one.file.reset();
  }
  if (log_[0].file || !writing) return false;
  // SQLite creates the log before it grants the write lock, so a missing log was removed.
  if (!identity_of(log_[0].path)) return uses_log();
  know_log();
  return false;
}

bool FileWatch::inherited() const noexcept { return db_ != nullptr && getpid() != process_; }

std::optional<FileWatch::Problem> FileWatch::unfit() const {
  if (db_ == nullptr) return std::nullopt;
  if (!unlocked_.empty()) {
    return Problem{SQLITE_CANTOPEN, fmt::format("this connection to {} takes no lock that others "
                                                "see ({}), so no fence can hold on it: open the "
                                                "file without that",
                                                path_, unlocked_)};
  }
  const auto seen = look_at(path_);
  if (seen && seen->names > 1) {
    return Problem{SQLITE_CANTOPEN,
                   fmt::format("the database file {} has {} names (hard links), and SQLite keeps a "
                               "log beside each: programs that open it by "
                               "different names write past each other. Find them (find / -xdev "
                               "-samefile {}) and remove all but one",
                               path_, seen->names, path_)};
  }
  if (seen && seen->mounted) {
    return Problem{
        SQLITE_CANTOPEN,
        fmt::format(
            "the database file {} is mounted by itself (as by docker -v FILE:FILE), and SQLite "
            "keeps its log beside each "
            "name: programs inside and outside write past each other. Mount its folder instead",
            path_)};
  }
  return std::nullopt;
}

std::optional<FileWatch::Problem> FileWatch::problem(bool writing) {
  if (db_ == nullptr) return std::nullopt;
  if (inherited()) {
    return Problem{SQLITE_CANTOPEN,
                   fmt::format("this connection to {} was opened by process {} and inherited by "
                               "fork(), and its locks are not "
                               "this process's: open the database anew in the child",
                               path_, process_)};
  }
  if (moved(writing)) return Problem{SQLITE_READONLY_DBMOVED, moved_message(path_)};
  return unfit();
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
