// FileWatch: whether a connection may still write to the file that it has open.
//
// A connection goes on writing to the file that it has opened, whatever became of the path: a restore by rename or a
// new file at the same place leaves it writing where nobody reads any more, and past the fences of the new file (F2).
// SQLite knows (SQLITE_FCNTL_HAS_MOVED) and does not ask by itself.
//
// SQLite finds the log and the journal by the file's name, and its locks by the file system's (unix): a file with two names has two logs,
// a connection that does not lock sees nobody, and a child of fork() shares its parent's descriptors and none of its locks. In each case
// one writes past the other's fences (F1, F2), so nothing is written.
//
// What cannot be known: that a copy was written over the same file in place (docs/reference/lock-protocol.md, "SQLite").
// One thread at a time, like the connection.
#pragma once

#include <termgate/detail/sqlite/sqlite_api.hpp>

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace termgate::inline v0::sqlite {

class FileWatch {
 public:
  // Soon after the connection was opened. `path`: as its user named it; symbolic links in it are followed anew at each
  // question. Empty, or a file without a name: nothing is ever moved.
  void begin(sqlite3* db, const std::string& path);
  // From now on the write-ahead log and its index must stay the files that they are. After the connection has read.
  void know_log() noexcept;
  // What keeps the connection from writing, if anything. `writing`: it holds the write lock, so that its log must be there. A few calls
  // of the system.
  struct Problem {
    int code;  // SQLite's: SQLITE_READONLY_DBMOVED for a file that was moved, removed or replaced, else SQLITE_CANTOPEN
    std::string text;
  };
  std::optional<Problem> problem(bool writing);
  // What of that does not pass when the file is opened again.
  std::optional<Problem> unfit() const;
  // Whether the connection came here by fork().
  bool inherited() const noexcept;
  // The locks of a VFS that is neither SQLite's own nor known not to exclude others; empty otherwise.
  const std::string& foreign_locks() const noexcept { return foreign_locks_; }
  // Whether the file was replaced, without a question to SQLite: of a copy that another thread has. A link that was made to follow the
  // moved file looks as before.
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
    bool mounted;  // the file itself, not a folder above it
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

}  // namespace termgate::inline v0::sqlite
