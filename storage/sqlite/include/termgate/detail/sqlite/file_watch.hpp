// FileWatch: whether a connection may still write to the file that it has open.
//
// A connection goes on writing to the file that it has opened, whatever happens to the path: after
// a restore by rename, or with a new file in its place, it writes to a file that nobody reads any
// more, and bypasses the fences of the new one (F2). SQLite can tell (SQLITE_FCNTL_HAS_MOVED) but
// does not check by itself.
//
// SQLite finds the log and the journal by the file's name, and its locks by the file system's
// identity of the file. So a file with two names has two logs, a connection without locks sees no
// others, and a child of fork() shares its parent's descriptors but none of its locks. In each case
// one would write past the other's fences (F1, F2), so writing is refused.
//
// It cannot detect a copy that was written over the same file in place
// (docs/reference/lock-protocol.md, "SQLite"). One thread at a time, like the connection.
#pragma once

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace termgate {
inline namespace v0 {
namespace sqlite {

class FileWatch {
 public:
  // Call it soon after the connection was opened. `path`: as the user gave it; symbolic links in it
  // are followed anew at each test. Empty, or a file without a name: it can never be moved.
  void begin(sqlite3* db, const std::string& path);
  // From now on the write-ahead log and its index must stay the same files. Call it after the
  // connection has read.
  void know_log() noexcept;
  // What prevents the connection from writing, if anything. `writing`: it holds the write lock, so
  // its log must exist. Costs a few system calls.
  struct Problem {
    int code;  // SQLite's: SQLITE_READONLY_DBMOVED for a file that was moved, removed or replaced,
               // else SQLITE_CANTOPEN
    std::string text;
  };
  std::optional<Problem> problem(bool writing);
  // The part of problem() that reopening the file would not solve.
  std::optional<Problem> unfit() const;
  // Whether the connection was inherited through fork().
  bool inherited() const noexcept;
  // The VFS, if it is unknown whether its locks exclude other programs; empty otherwise.
  const std::string& foreign_locks() const noexcept { return foreign_locks_; }
  // Whether the file was replaced. Does not use SQLite, so another thread can call it on a copy. A
  // link that now points to the moved file looks unchanged.
  bool replaced() const noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  struct Identity {
    std::uint64_t device, inode;
    bool operator==(const Identity&) const = default;
  };
  struct Seen {
    Identity identity;
    std::uint64_t names;
    bool mounted;  // the file itself is a mount point, not a folder above it
  };
  static std::optional<Seen> look_at(const std::string& path) noexcept;
  static std::optional<Identity> identity_of(const std::string& path) noexcept;
  bool moved(bool writing) noexcept;
  bool uses_log() const noexcept;

  sqlite3* db_ = nullptr;
  pid_t process_ = 0;
  std::string path_;
  std::string unlocked_;  // why the locks of this connection exclude nobody
  std::string foreign_locks_;
  std::optional<Identity> file_;
  struct Beside {
    std::string path;
    std::optional<Identity> file;
  };
  std::array<Beside, 2> log_;  // -wal, -shm
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
